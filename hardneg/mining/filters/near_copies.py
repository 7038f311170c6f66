"""The filter `near-copies` drops documents whose text nearly equals a positive's."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from hardneg.mining.filter_protocol import FilterTexts
from hardneg.records.errors import PluginError
from hardneg.records.terms import terms
from hardneg.records.types import Candidates

REASON = "near copy"


@dataclass(frozen=True)
class NearCopyFilter:
    """Drop documents whose text resembles that of a positive: exact copies, and near ones.

    The resemblance of two texts is the Jaccard similarity of their sets of w-word shingles.

    Source: Broder, On the Resemblance and Containment of Documents (SEQUENCES 1997), section 2.

    Attributes:
        resemblance: the lowest one that drops a document, above 0 and at most 1.
        words: w, the words of a shingle; a shorter text is one shingle. In scripts without blanks between words, every
            two letters in a row are one.
    """

    version: ClassVar[int] = 2

    resemblance: float = 0.8
    words: int = 4

    def __post_init__(self) -> None:
        if not 0 < self.resemblance <= 1:
            raise PluginError(f"resemblance must be above 0 and at most 1, not {self.resemblance}")
        if self.words < 1:
            raise PluginError(f"words must be 1 or above, not {self.words}")

    def reasons(self, candidates: Iterable[Candidates], texts: FilterTexts) -> Iterator[Mapping[str, str]]:
        """Return `near copy` for each document that resembles a positive."""
        for query in candidates:
            known = [self.runs(document.contents) for document in texts.documents(list(query.positives))]
            reasons = {}
            for document in texts.documents(query.listed if known else []):
                runs = self.runs(document.contents)
                if any(len(runs & other) >= self.resemblance * len(runs | other) for other in known):
                    reasons[document.doc_id] = REASON
            yield reasons

    def runs(self, text: str) -> frozenset[tuple[str, ...]]:
        """Return the shingles of a text, case ignored."""
        words = terms(text)
        starts = range(max(1, len(words) - self.words + 1))
        return frozenset(tuple(words[start : start + self.words]) for start in starts)
