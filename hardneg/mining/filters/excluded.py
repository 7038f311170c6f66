"""The filter of excluded documents: what the collection says does not count for a query is no negative of it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from hardneg.mining.filter_protocol import FilterTexts
from hardneg.records.types import Candidates

REASON = "excluded"


@dataclass(frozen=True)
class ExcludedFilter:
    """Drop the documents that do not count for a query: it stands before all others where a collection has some.

    Source: BRIGHT (Su et al., ICLR 2025), `excluded_ids`.

    Attributes:
        excluded: the documents by query id.
    """

    version: ClassVar[int] = 1

    excluded: Mapping[str, Sequence[str]]

    def reasons(self, candidates: Iterable[Candidates], texts: FilterTexts) -> Iterator[Mapping[str, str]]:
        """Return `excluded` for each excluded document."""
        for query in candidates:
            yield dict.fromkeys(self.excluded.get(query.query_id, ()), REASON)
