"""The filter of excluded documents: what the collection says does not count for a query is no negative of it."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from hardneg.mining.filter_protocol import FilterTexts
from hardneg.records.types import Candidates

REASON, SAME_TEXT = "excluded", "same text"


@dataclass(frozen=True)
class ExcludedFilter:
    """Drop the documents that do not count for a query, or are its text: before all other filters, where there are any.

    Source: BRIGHT (Su et al., ICLR 2025), `excluded_ids`.

    Attributes:
        excluded: the documents by query id.
        reason: why they are dropped.
    """

    version: ClassVar[int] = 1

    excluded: Mapping[str, Collection[str]]
    reason: str = REASON

    def reasons(self, candidates: Iterable[Candidates], texts: FilterTexts) -> Iterator[Mapping[str, str]]:
        """Return the reason for each excluded document."""
        for query in candidates:
            yield dict.fromkeys(self.excluded.get(query.query_id, ()), self.reason)
