"""A collection with some of its training labels kept back, to measure by, or without some of its groups' documents."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from hardneg.formats.qrels import Exclusion, HasExcluded
from hardneg.formats.source_files import Part, parts_of
from hardneg.records import Answers, Collection, DataError, Document, Judgement, Membership, Query, Side, counted, types
from hardneg.runtime import SEED, derive_seed, drawn_order

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
            whole = _without_siblings(whole, self.siblings, self.seed)
        if self.groups:
            whole = _without_groups(whole, self.groups, self.seed)
        return WithheldCollection(whole, self)


@dataclass(frozen=True)
class _Whole:
    """A collection as it is."""

    whole: Collection

    def splits(self) -> Sequence[str]:
        return self.whole.splits()

    def groups(self, side: Side) -> Iterator[Membership]:
        return self.whole.groups(side) if isinstance(self.whole, types.HasGroups) else iter(())

    def excluded(self) -> Iterator[Exclusion]:
        return self.whole.excluded() if isinstance(self.whole, HasExcluded) else iter(())

    def answers(self, split: str) -> Iterator[Answers]:
        return self.whole.answers(split) if isinstance(self.whole, types.HasAnswers) else iter(())

    def notes(self) -> Sequence[str]:
        return self.whole.notes()

    def parts(self) -> Iterator[Part]:
        """The parts of the whole, so that a mistake has its place."""
        return parts_of(self.whole)


@dataclass(frozen=True)
class PartOfCollection(_Whole):
    """Another collection without some of its documents and queries; judgements of them go too."""

    without: frozenset[str]
    without_queries: frozenset[str]

    def documents(self) -> Iterator[Document]:
        """The documents that stay."""
        return (document for document in self.whole.documents() if document.doc_id not in self.without)

    def queries(self, split: str) -> Iterator[Query]:
        """The queries of a split that stay."""
        return (query for query in self.whole.queries(split) if query.query_id not in self.without_queries)

    def qrels(self, split: str) -> Iterator[Judgement]:
        """The judgements of a split whose query and document stay."""
        judgements = (each for each in self.whole.qrels(split) if each.query_id not in self.without_queries)
        return (each for each in judgements if each.doc_id not in self.without)

    def answers(self, split: str) -> Iterator[Answers]:
        """The answers to queries of a split that stay."""
        return (answer for answer in super().answers(split) if answer.query_id not in self.without_queries)

    def notes(self) -> Sequence[str]:
        """The notes of the whole, and how much is left out."""
        sizes = f"{counted(len(self.without), 'document')} and {counted(len(self.without_queries), 'query')}"
        return [*self.whole.notes(), f"withheld by their groups: {sizes}"]


@dataclass(frozen=True)
class WithheldCollection(_Whole):
    """Another collection without what is withheld of it, and that apart. Queries of other splits keep their labels."""

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

        Raises DataError where there is no split `train`, or one is called `unlabelled` already.
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
        if split == UNLABELLED:
            return iter(())
        answers = super().answers(split)
        return answers if split != TRAIN else (item for item in answers if not self._moves(item.query_id))

    def withheld(self) -> Iterator[Judgement]:
        """The judgements that are kept back, and those of halves."""
        for judgement in self.whole.qrels(TRAIN):
            if self._withholds(judgement):
                yield judgement
            if judgement.doc_id in self._halved and judgement.relevance > 0:
                yield judgement._replace(doc_id=_half_id(judgement.doc_id))

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
        hidden = set[tuple[str, str]]()
        for query_id, known in positives.items():
            draws = {doc_id: self._draw("positives", query_id, doc_id) for doc_id in known}
            order = sorted(draws, key=lambda doc_id: (draws[doc_id], doc_id))  # the last one is never hidden
            hidden |= {(query_id, doc_id) for doc_id in order[:-1] if draws[doc_id] < self.shares.positives}
        return frozenset(hidden)

    @cached_property
    def _halved(self) -> frozenset[str]:
        if not self.shares.halves:
            return frozenset()
        others = [split for split in self.whole.splits() if split != TRAIN]
        tested = {row.doc_id for split in others for row in self.whole.qrels(split) if row.relevance > 0}
        return frozenset(row.doc_id for row in self.whole.qrels(TRAIN) if row.relevance > 0).difference(tested)

    def _draw(self, *names: str) -> float:
        """A number from 0 to 1."""
        return derive_seed(self.shares.seed, *names) / 2**64


def _without_siblings(collection: Collection, count: int, seed: int) -> PartOfCollection:
    """The part in which each group keeps one document that queries ask for, and `count` of its siblings.

    The document is drawn among those that are relevant to a query; queries that ask for others go, so that documents
    that are asked for, queries and their positives are the same for every `count`. A higher count keeps the same
    siblings and more. Documents of no group stay, and so do groups without a relevant document.
    """
    groups = _document_groups(collection)
    positives = _positives(collection, collection.splits())
    judged = {doc_id for doc_ids in positives.values() for doc_id in doc_ids}
    members: defaultdict[str, list[str]] = defaultdict(list)
    for doc_id, group in groups.items():
        members[group].append(doc_id)
    targets = judged.difference(groups)
    for doc_ids in members.values():
        targets.update(drawn_order(seed, "target", [doc_id for doc_id in doc_ids if doc_id in judged])[:1])
    kept = {query_id: doc_ids for query_id, doc_ids in positives.items() if not targets.isdisjoint(doc_ids)}
    relevant = {doc_id for doc_ids in kept.values() for doc_id in doc_ids}
    gone: set[str] = relevant.difference(targets)
    for doc_ids in members.values():
        if not judged.isdisjoint(doc_ids):
            siblings = [doc_id for doc_id in doc_ids if doc_id not in targets and doc_id not in relevant]
            gone.update(drawn_order(seed, "sibling", siblings)[count:])
    return PartOfCollection(collection, frozenset(gone), frozenset(positives.keys() - kept.keys()))


def _without_groups(collection: Collection, share: float, seed: int) -> PartOfCollection:
    """The part without a share of the groups: their documents, and training queries that have no other positive.

    Groups with a document that is relevant to a query of another split stay. A larger share leaves out more.
    """
    groups = _document_groups(collection)
    others = [split for split in collection.splits() if split != TRAIN]
    tested = {groups.get(doc_id) for doc_ids in _positives(collection, others).values() for doc_id in doc_ids}
    drawn = {group for group in groups.values() if derive_seed(seed, "group", group) < share * 2**64}
    gone = frozenset(doc_id for doc_id, group in groups.items() if group in drawn.difference(tested))
    queries = (query_id for query_id, doc_ids in _positives(collection, [TRAIN]).items() if gone >= doc_ids)
    return PartOfCollection(collection, gone, frozenset(queries))


def _document_groups(collection: Collection) -> Mapping[str, str]:
    """The groups of documents in the corpus; a file of groups may have those of queries too."""
    members = dict(_Whole(collection).groups("document"))
    doc_ids = (document.doc_id for document in collection.documents())
    groups = {doc_id: members[doc_id] for doc_id in doc_ids if doc_id in members} if members else {}
    if not groups:
        raise DataError("withheld: siblings and groups need a dataset with groups, such as groups.tsv of beir has them")
    return groups


def _positives(collection: Collection, splits: Sequence[str]) -> dict[str, set[str]]:
    positives: defaultdict[str, set[str]] = defaultdict(set)
    for split in splits:
        for query_id, doc_id, relevance in collection.qrels(split):
            if relevance > 0:
                positives[query_id].add(doc_id)
    return positives


def half(text: str, second: int) -> str:
    """The first or the second half of a text, cut at the first blank after its middle, or there if it has none.

    A text of a script without blanks between words is cut in its middle.
    """
    from hardneg.records.text import unspaced

    middle = len(text) // 2
    blank = -1 if unspaced(text[middle : middle + 1]) else text.find(" ", middle)
    middle = middle if blank < 0 else blank
    return (text[middle:] if second else text[:middle]).strip() or text


def _half_id(doc_id: str) -> str:
    return f"{doc_id}~half"
