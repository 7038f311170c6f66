"""A collection with some of its training labels kept back: for training without them, and for measuring by them."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from hardneg.datasets.withheld_groups import PartOfCollection, excluded_of, groups_of, without_groups, without_siblings
from hardneg.formats.id_pairs import Exclusion
from hardneg.records.errors import DataError
from hardneg.records.types import Answers, Collection, Document, HasAnswers, Judgement, Membership, Query, Side
from hardneg.runtime.seeding import SEED, derive_seed

if TYPE_CHECKING:
    from hardneg.formats.source_files import Part

UNLABELLED = "unlabelled"
TRAIN = "train"


@dataclass(frozen=True)
class Withheld:
    """Which labels of split `train`, and which documents, to keep back. Draws depend on the seed and the ids alone.

    Attributes:
        unlabelled: the share of the queries that become split `unlabelled`: their texts, no judgements, no answers.
        positives: the share of the positives that are hidden, of the other queries that have several; one stays.
        seed: of the draws; a larger share withholds the same and more.
        halves: each positive of train is in the corpus a second time, as half of its text that nobody has labelled.
        siblings: each group keeps one document that queries ask for, and so many siblings of it.
        groups: the share of the groups that go, with their documents and their training queries.
    """

    unlabelled: float = 0.0
    positives: float = 0.0
    seed: int = SEED
    halves: bool = False
    siblings: int | None = None
    groups: float = 0.0
    later: ClassVar[frozenset[str]] = frozenset({"halves", "siblings", "groups"})

    def problems(self) -> list[str]:
        """One line for each option that makes no sense."""
        problems = [
            f"{name} must be 0 or above and below 1, not {share:g}"
            for name in ("unlabelled", "positives", "groups")
            if not 0 <= (share := getattr(self, name)) < 1
        ]
        if self.siblings is not None and self.siblings < 0:
            problems.append(f"siblings must be 0 or above, not {self.siblings}")
        if not any((self.unlabelled, self.positives, self.halves, self.siblings is not None, self.groups)):
            problems.append("give unlabelled, positives or groups a share above 0, or siblings, or halves")
        return problems

    def left_of(self, documents: int, queries: Mapping[str, int]) -> tuple[int, dict[str, int]]:
        """About how many documents and queries by split stay; what halves and siblings change cannot be told before.

        queries: of the whole, by split, `train` among them. Documents that queries of other splits ask for stay.
        """
        kept, others = queries[TRAIN] * (1 - self.groups), sum(queries.values()) - queries[TRAIN]
        unlabelled = round(kept * self.unlabelled)
        trained = queries[TRAIN] / max(1, queries[TRAIN] + others)
        splits = {**queries, TRAIN: round(kept) - unlabelled}
        return round(documents * (1 - self.groups * trained)), splits | ({UNLABELLED: unlabelled} if unlabelled else {})

    def of(self, whole: Collection) -> "WithheldCollection":
        """The collection without what is withheld. Raises DataError where groups are needed and there are none."""
        if self.siblings is not None:
            whole = PartOfCollection(whole, without_siblings(whole, self.siblings, self.seed))
        if self.groups:
            whole = PartOfCollection(whole, without_groups(whole, self.groups, self.seed))
        return WithheldCollection(whole, self)


@dataclass(frozen=True)
class WithheldCollection:
    """Another collection without what is withheld of it, and that apart. Queries of other splits keep their labels."""

    whole: Collection
    shares: Withheld

    def documents(self) -> Iterator[Document]:
        """The corpus, and after each positive of which there is a half, that half."""
        for document in self.whole.documents():
            yield document
            if document.doc_id in self._halved:
                second = derive_seed(self.shares.seed, "half", document.doc_id) % 2
                yield Document(_half_id(document.doc_id), half(document.text, second))

    def splits(self) -> Sequence[str]:
        """Those of the whole, and `unlabelled` where queries go there.

        Raises:
            DataError: there is no split `train`, or one is called `unlabelled` already.
        """
        splits = list(self.whole.splits())
        if TRAIN not in splits:
            raise DataError(f"withheld: the dataset has no split {TRAIN}; it has {', '.join(splits) or 'none'}")
        if UNLABELLED in splits:
            raise DataError(f"withheld: the dataset has a split {UNLABELLED} of its own; leave `withheld` out")
        return [*splits, UNLABELLED] if self.shares.unlabelled else splits

    def queries(self, split: str) -> Iterator[Query]:
        """The queries of one split."""
        if split not in (TRAIN, UNLABELLED):
            return self.whole.queries(split)
        moved = split == UNLABELLED
        return (query for query in self.whole.queries(TRAIN) if self._moves(query.query_id) == moved)

    def qrels(self, split: str) -> Iterator[Judgement]:
        """The judgements of one split, without the withheld ones."""
        if split == UNLABELLED:
            return iter(())
        if split != TRAIN:
            return self.whole.qrels(split)
        return (judgement for judgement in self.whole.qrels(TRAIN) if not self._withholds(judgement))

    def answers(self, split: str) -> Iterator[Answers]:
        """The answers to the queries of one split; answers are labels, so unlabelled queries have none."""
        if split == UNLABELLED or not isinstance(self.whole, HasAnswers):
            return iter(())
        answers = self.whole.answers(split)
        return answers if split != TRAIN else (item for item in answers if not self._moves(item.query_id))

    def withheld(self) -> Iterator[Judgement]:
        """The judgements that are kept back, and those of halves."""
        for judgement in self.whole.qrels(TRAIN):
            if self._withholds(judgement):
                yield judgement
            if judgement.doc_id in self._halved and judgement.relevance > 0:
                yield judgement._replace(doc_id=_half_id(judgement.doc_id))

    def groups(self, side: Side) -> Iterator[Membership]:
        """Those of the whole."""
        return groups_of(self.whole, side)

    def excluded(self) -> Iterator[Exclusion]:
        """Those of the whole."""
        return excluded_of(self.whole)

    def notes(self) -> Sequence[str]:
        """What the whole collection noted."""
        return self.whole.notes()

    def parts(self) -> "Iterator[Part]":
        """The parts of the whole, so that a mistake has its place."""
        from hardneg.formats.source_files import parts_of

        return parts_of(self.whole)

    def _moves(self, query_id: str) -> bool:
        return query_id not in self._elsewhere and self._draw(UNLABELLED, query_id) < self.shares.unlabelled

    def _withholds(self, judgement: Judgement) -> bool:
        return (judgement.query_id, judgement.doc_id) in self._hidden or self._moves(judgement.query_id)

    @cached_property
    def _elsewhere(self) -> frozenset[str]:
        others = (split for split in self.whole.splits() if split != TRAIN)
        return frozenset(query.query_id for split in others for query in self.whole.queries(split))

    @cached_property
    def _hidden(self) -> frozenset[tuple[str, str]]:
        if not self.shares.positives:
            return frozenset()
        positives: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for query_id, doc_id, relevance in self.whole.qrels(TRAIN):
            if relevance > 0 and query_id not in self._elsewhere and not self._moves(query_id):
                positives[query_id][doc_id] = None
        return frozenset(
            (query_id, doc_id) for query_id, known in positives.items() for doc_id in self._of(query_id, known)
        )

    @cached_property
    def _halved(self) -> frozenset[str]:
        if not self.shares.halves:
            return frozenset()
        others = [split for split in self.whole.splits() if split != TRAIN]
        tested = {row.doc_id for split in others for row in self.whole.qrels(split) if row.relevance > 0}
        return frozenset(row.doc_id for row in self.whole.qrels(TRAIN) if row.relevance > 0).difference(tested)

    def _of(self, query_id: str, positives: dict[str, None]) -> list[str]:
        """Those of a query's positives that are hidden: never the one that is drawn last."""
        draws = {doc_id: self._draw("positives", query_id, doc_id) for doc_id in positives}
        order = sorted(draws, key=lambda doc_id: (draws[doc_id], doc_id))
        return [doc_id for doc_id in order[:-1] if draws[doc_id] < self.shares.positives]

    def _draw(self, *names: str) -> float:
        """A number from 0 to 1."""
        return derive_seed(self.shares.seed, *names) / 2**64


def half(text: str, second: int) -> str:
    """The first or the second half of a text, cut at the first blank after its middle.

    A text that has a script without blanks between words there, or no blank, is cut in its middle.
    """
    from hardneg.records.terms import unspaced

    middle = len(text) // 2
    blank = -1 if unspaced(text[middle : middle + 1]) else text.find(" ", middle)
    middle = middle if blank < 0 else blank
    return (text[middle:] if second else text[:middle]).strip() or text


def _half_id(doc_id: str) -> str:
    return f"{doc_id}~half"
