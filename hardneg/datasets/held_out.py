"""A collection with part of its training labels withheld for evaluation, or with groups of documents removed."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from hardneg.formats import qrels, source_files
from hardneg.records import Answers, Collection, DataError, Document, Judgement, Membership, Query, Side, counted, types
from hardneg.runtime import SEED, derive_seed, drawn_order

UNLABELLED = "unlabelled"
TRAIN = "train"


@dataclass(frozen=True)
class Withheld:
    """Options to withhold documents and labels of split `train`; the choice depends only on the seed and the ids.

    Attributes:
        unlabelled: the share of training queries to move to split `unlabelled`, without their judgements and answers.
        positives: the share of positives to hide from each remaining query with several; at least one always stays.
        seed: the random seed; with the same seed, a larger share withholds everything that a smaller share does.
        halves: whether to add half of each training positive's text to the corpus as an unlabelled document.
        siblings: the number of documents to keep in each group, in addition to one relevant document.
        groups: the share of the groups to remove, with their documents and their training queries.
    """

    unlabelled: float = 0.0
    positives: float = 0.0
    seed: int = SEED
    halves: bool = False
    siblings: int | None = None
    groups: float = 0.0
    later: ClassVar[frozenset[str]] = frozenset({"halves", "siblings", "groups"})

    def problems(self) -> list[str]:
        """Return one message per invalid option."""
        problems = [
            f"{name} must be at least 0 and below 1, not {share:g}"
            for name in ("unlabelled", "positives", "groups")
            if not 0 <= (share := getattr(self, name)) < 1
        ]
        if self.siblings is not None and self.siblings < 0:
            problems.append(f"siblings must be at least 0, not {self.siblings}")
        if not any((self.unlabelled, self.positives, self.halves, self.siblings is not None, self.groups)):
            problems.append("set unlabelled, positives or groups above 0, or set siblings or halves")
        return problems

    def left_of(self, documents: int, queries: Mapping[str, int]) -> tuple[int, dict[str, int]]:
        """Estimate the remaining documents, and the remaining queries by split, ignoring `halves` and `siblings`.

        queries: the number of queries by split, including `train`. Documents relevant to other splits stay.
        """
        remaining, others = queries[TRAIN] * (1 - self.groups), sum(queries.values()) - queries[TRAIN]
        unlabelled = round(remaining * self.unlabelled)
        trained = queries[TRAIN] / max(1, queries[TRAIN] + others)
        splits = {**queries, TRAIN: round(remaining) - unlabelled}
        return round(documents * (1 - self.groups * trained)), splits | ({UNLABELLED: unlabelled} if unlabelled else {})

    def of(self, whole: Collection) -> "WithheldCollection":
        """Return `whole` without the withheld parts. Raises DataError if an option needs groups, but there are none."""
        if self.siblings is not None:
            whole = _reduce_groups(whole, self.siblings, self.seed)
        if self.groups:
            whole = _remove_groups(whole, self.groups, self.seed)
        return WithheldCollection(whole, self)


@dataclass(frozen=True)
class _Whole:
    """A collection, unchanged."""

    whole: Collection

    def splits(self) -> Sequence[str]:
        return self.whole.splits()

    def groups(self, side: Side) -> Iterator[Membership]:
        return self.whole.groups(side) if isinstance(self.whole, types.HasGroups) else iter(())

    def excluded(self) -> Iterator[qrels.Exclusion]:
        return self.whole.excluded() if isinstance(self.whole, qrels.HasExcluded) else iter(())

    def answers(self, split: str) -> Iterator[Answers]:
        return self.whole.answers(split) if isinstance(self.whole, types.HasAnswers) else iter(())

    def notes(self) -> Sequence[str]:
        return self.whole.notes()

    def parts(self) -> Iterator[source_files.Part]:
        """Return the parts of the whole collection, used to locate mistakes."""
        return source_files.parts_of(self.whole)


@dataclass(frozen=True)
class PartOfCollection(_Whole):
    """A collection without the documents in `removed`, the queries in `removed_queries`, and their judgements."""

    removed: frozenset[str]
    removed_queries: frozenset[str]

    def documents(self) -> Iterator[Document]:
        """Yield the remaining documents."""
        return (document for document in self.whole.documents() if document.doc_id not in self.removed)

    def queries(self, split: str) -> Iterator[Query]:
        """Yield the remaining queries of a split."""
        return (query for query in self.whole.queries(split) if query.query_id not in self.removed_queries)

    def qrels(self, split: str) -> Iterator[Judgement]:
        """Yield a split's judgements of remaining documents for remaining queries."""
        judgements = (each for each in self.whole.qrels(split) if each.query_id not in self.removed_queries)
        return (each for each in judgements if each.doc_id not in self.removed)

    def answers(self, split: str) -> Iterator[Answers]:
        """Yield the answers to the remaining queries of a split."""
        return (answer for answer in super().answers(split) if answer.query_id not in self.removed_queries)

    def notes(self) -> Sequence[str]:
        """Return the notes of the whole collection, and one on how many documents and queries were removed."""
        sizes = f"{counted(len(self.removed), 'document')} and {counted(len(self.removed_queries), 'query')}"
        return [*self.whole.notes(), f"withheld by group: {sizes}"]


@dataclass(frozen=True)
class WithheldCollection(_Whole):
    """A collection with some training judgements withheld and kept separately; its other splits are unchanged."""

    shares: Withheld

    def documents(self) -> Iterator[Document]:
        """Yield the corpus; if halves are added, each half follows its document."""
        for document in self.whole.documents():
            yield document
            if document.doc_id in self._halved:
                second = derive_seed(self.shares.seed, "half", document.doc_id) % 2
                yield Document(_half_id(document.doc_id), half(document.text, second))

    def splits(self) -> Sequence[str]:
        """Return the splits of the whole collection, and `unlabelled` if queries are moved to it.

        Raises DataError if split `train` is missing, or split `unlabelled` exists already.
        """
        splits = list(self.whole.splits())
        if TRAIN not in splits:
            raise DataError(f"withheld: the dataset has no split {TRAIN}; available: {', '.join(splits) or 'none'}")
        if UNLABELLED in splits:
            raise DataError(f"withheld: the dataset already has a split {UNLABELLED}; omit `withheld`")
        return [*splits, UNLABELLED] if self.shares.unlabelled else splits

    def queries(self, split: str) -> Iterator[Query]:
        """Yield the queries of one split; moved queries are in `unlabelled` instead of `train`."""
        if split not in (TRAIN, UNLABELLED):
            return self.whole.queries(split)
        moved = split == UNLABELLED
        return (query for query in self.whole.queries(TRAIN) if self._moves(query.query_id) == moved)

    def qrels(self, split: str) -> Iterator[Judgement]:
        """Yield the judgements of one split, except the withheld ones."""
        if split == UNLABELLED:
            return iter(())
        if split != TRAIN:
            return self.whole.qrels(split)
        return (judgement for judgement in self.whole.qrels(TRAIN) if not self._withholds(judgement))

    def answers(self, split: str) -> Iterator[Answers]:
        """Yield the answers to the queries of one split; unlabelled queries have none, since answers are labels."""
        if split == UNLABELLED:
            return iter(())
        answers = super().answers(split)
        return answers if split != TRAIN else (item for item in answers if not self._moves(item.query_id))

    def withheld(self) -> Iterator[Judgement]:
        """Yield the withheld judgements and, if halves are added, a judgement of the half of each relevant document."""
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
            order = sorted(draws, key=lambda doc_id: (draws[doc_id], doc_id))  # the last is never hidden
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
        """A number in [0, 1)."""
        return derive_seed(self.shares.seed, *names) / 2**64


def _reduce_groups(collection: Collection, count: int, seed: int) -> PartOfCollection:
    """The collection reduced to one relevant document per group and `count` of its siblings.

    The document is drawn from the group's relevant ones; queries about the others are removed, so that targets, queries
    and positives are the same for every `count`. A higher count keeps the same siblings and adds more. Documents
    without a group stay, as do groups without a relevant document.
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
    remaining = {query_id: doc_ids for query_id, doc_ids in positives.items() if not targets.isdisjoint(doc_ids)}
    relevant = {doc_id for doc_ids in remaining.values() for doc_id in doc_ids}
    removed: set[str] = relevant.difference(targets)
    for doc_ids in members.values():
        if not judged.isdisjoint(doc_ids):
            siblings = [doc_id for doc_id in doc_ids if doc_id not in targets and doc_id not in relevant]
            removed.update(drawn_order(seed, "sibling", siblings)[count:])
    return PartOfCollection(collection, frozenset(removed), frozenset(positives.keys() - remaining.keys()))


def _remove_groups(collection: Collection, share: float, seed: int) -> PartOfCollection:
    """The collection without a share of its groups: their documents, and training queries without other positives.

    Groups with a document that is relevant in another split stay. A larger share removes the same groups and more.
    """
    groups = _document_groups(collection)
    others = [split for split in collection.splits() if split != TRAIN]
    tested = {groups.get(doc_id) for doc_ids in _positives(collection, others).values() for doc_id in doc_ids}
    drawn = {group for group in groups.values() if derive_seed(seed, "group", group) < share * 2**64}
    removed = frozenset(doc_id for doc_id, group in groups.items() if group in drawn.difference(tested))
    queries = (query_id for query_id, doc_ids in _positives(collection, [TRAIN]).items() if removed >= doc_ids)
    return PartOfCollection(collection, removed, frozenset(queries))


def _document_groups(collection: Collection) -> Mapping[str, str]:
    """The groups of the documents in the corpus; a file of groups may also have queries."""
    members = dict(_Whole(collection).groups("document"))
    doc_ids = (document.doc_id for document in collection.documents())
    groups = {doc_id: members[doc_id] for doc_id in doc_ids if doc_id in members} if members else {}
    if not groups:
        raise DataError("withheld: siblings and groups need groups of documents, e.g. groups.tsv in a BEIR folder")
    return groups


def _positives(collection: Collection, splits: Sequence[str]) -> dict[str, set[str]]:
    positives: defaultdict[str, set[str]] = defaultdict(set)
    for split in splits:
        for query_id, doc_id, relevance in collection.qrels(split):
            if relevance > 0:
                positives[query_id].add(doc_id)
    return positives


def half(text: str, second: int) -> str:
    """Return half of a text, cut at the first space after the middle, or in the middle if none follows.

    Text in a script without spaces between words is cut in the middle. second: 0 for the first half, else the second.
    """
    from hardneg.records.text import unspaced

    middle = len(text) // 2
    blank = -1 if unspaced(text[middle : middle + 1]) else text.find(" ", middle)
    middle = middle if blank < 0 else blank
    return (text[middle:] if second else text[:middle]).strip() or text


def _half_id(doc_id: str) -> str:
    return f"{doc_id}~half"
