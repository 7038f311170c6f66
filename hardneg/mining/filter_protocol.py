"""The shape of filters, and what they read."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

from hardneg.records.types import Candidates, Document

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class FilterTexts(Protocol):
    """What a filter may read beside ranked lists."""

    def queries(self, query_ids: Sequence[str]) -> Sequence[str]:
        """The text of each query."""

    def documents(self, doc_ids: Sequence[str]) -> Sequence[Document]:
        """Each document of the corpus."""

    def answers(self, match: Literal["string", "regex"]) -> "AnswerFinder":
        """What finds the queries' short answers. Raises DataError where they have none."""


class AnswerFinder(Protocol):
    """Finds the short answers to queries in documents, as words or by regular expressions."""

    def in_lists(self, query_ids: Sequence[str], lists: Sequence[Sequence[str]]) -> "NDArray[np.bool_]":
        """Whether each document of each query's list has an answer: bool [Q, k], k the length of the longest."""


class NegativeFilter(Protocol):
    """Says which candidates are no negatives, before a miner selects from the others (`hardneg.filters`).

    One that cannot do without answers says so: `needs: ClassVar[tuple[str, ...]] = ("answers",)`; a recipe whose
    queries have none is refused before anything long begins. One that holds candidates against the scores of positives
    says `compares`, as a miner does.
    """

    version: ClassVar[int]

    def reasons(self, candidates: Iterable[Candidates], texts: FilterTexts) -> Iterator[Mapping[str, str]]:
        """For each `Candidates`, in the same order: why documents of its lists are no negatives, by id; others stay.

        Positives are in the lists, to be compared with; what is said of them does not count. A document that a miner
        has drawn from the corpus comes in a list of its own, with the score nan.
        """


@runtime_checkable
class ReadsContent(Protocol):
    """A filter whose options `places` say where content lies: a digest of that counts in keys, and they do not."""

    places: ClassVar[tuple[str, ...]]

    def fingerprint(self) -> str:
        """A digest of the content."""


class FilterCost(NamedTuple):
    """What filtering takes: what servers charge, in the currency of their prices, and seconds."""

    charge: float = 0
    seconds: float = 0


@runtime_checkable
class EstimatedFilter(Protocol):
    """A filter that tells what it takes, for a plan; what does not is taken to cost nothing."""

    def filtering_cost(self, queries: float) -> FilterCost:
        """For the lists of so many queries."""
