"""The protocol of filters, and the texts that they read."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, runtime_checkable

from hardneg.records.types import Candidates, Document

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class FilterTexts(Protocol):
    """The texts that a filter may read beside ranked lists."""

    def queries(self, query_ids: Sequence[str]) -> Sequence[str]:
        """Return the text of each query."""

    def documents(self, doc_ids: Sequence[str]) -> Sequence[Document]:
        """Return documents of the corpus."""

    def answers(self, match: Literal["string", "regex"]) -> "AnswerFinder":
        """Return the matcher of the queries' short answers. Raises DataError where they have none."""


class AnswerFinder(Protocol):
    """Matches the short answers to queries in documents, as words or by regular expressions."""

    def in_lists(self, query_ids: Sequence[str], lists: Sequence[Sequence[str]]) -> "NDArray[np.bool_]":
        """Return whether each document of each query's list has an answer: bool [Q, k], k the length of the longest."""


class NegativeFilter(Protocol):
    """Drops candidates that are no negatives, before a miner selects from the others (`hardneg.filters`).

    One that requires answers declares `needs: ClassVar[tuple[str, ...]] = ("answers",)`; a recipe whose
    queries have none is refused before anything runs. One that compares candidates with the scores of positives
    sets `compares`, as a miner does.
    """

    version: ClassVar[int]

    def reasons(self, candidates: Iterable[Candidates], texts: FilterTexts) -> Iterator[Mapping[str, str]]:
        """For each `Candidates`, in the same order, return the reasons to drop documents, by id; others stay.

        Positives are in the lists, for comparison; reasons against them are ignored. A document that a miner
        drew from the corpus is in a list of its own, with the score nan.
        """


@runtime_checkable
class ReadsContent(Protocol):
    """A filter whose `path_options` name files: keys hold a digest of their content instead."""

    path_options: ClassVar[tuple[str, ...]]

    def fingerprint(self) -> str:
        """Return a digest of the content."""


@runtime_checkable
class EstimatedFilter(Protocol):
    """A filter that estimates the charge of its server, for a plan; others count as free."""

    def filtering_charge(self, queries: float) -> float:
        """Return the charge for the lists of so many queries, in the currency of the server's prices."""
