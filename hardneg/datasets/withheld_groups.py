"""A collection without some of its groups' documents: to see what siblings, and the size of the corpus, change."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hardneg.formats.id_pairs import Exclusion, HasExcluded
from hardneg.formats.source_files import Part, parts_of
from hardneg.records.errors import DataError
from hardneg.records.types import (
    Answers,
    Collection,
    Document,
    HasAnswers,
    HasGroups,
    Judgement,
    Membership,
    Query,
    Side,
)
from hardneg.records.wording import counted
from hardneg.runtime.seeding import derive_seed, drawn_order


class WithheldIds(NamedTuple):
    """Ids of what a collection is read without."""

    documents: frozenset[str]
    queries: frozenset[str]


@dataclass(frozen=True)
class PartOfCollection:
    """Another collection without some of its documents and queries; judgements of them go too."""

    whole: Collection
    withheld: WithheldIds

    def documents(self) -> Iterator[Document]:
        """Those that stay."""
        return (document for document in self.whole.documents() if document.doc_id not in self.withheld.documents)

    def splits(self) -> Sequence[str]:
        """Those of the whole."""
        return self.whole.splits()

    def queries(self, split: str) -> Iterator[Query]:
        """Those of a split that stay."""
        return (query for query in self.whole.queries(split) if query.query_id not in self.withheld.queries)

    def qrels(self, split: str) -> Iterator[Judgement]:
        """The judgements of a split whose query and document stay."""
        documents, queries = self.withheld
        for judgement in self.whole.qrels(split):
            if judgement.query_id not in queries and judgement.doc_id not in documents:
                yield judgement

    def answers(self, split: str) -> Iterator[Answers]:
        """The answers to queries of a split that stay."""
        answers = self.whole.answers(split) if isinstance(self.whole, HasAnswers) else ()
        return (answer for answer in answers if answer.query_id not in self.withheld.queries)

    def groups(self, side: Side) -> Iterator[Membership]:
        """Those of the whole, of what is left out too."""
        return groups_of(self.whole, side)

    def excluded(self) -> Iterator[Exclusion]:
        """Those of the whole, of what is left out too."""
        return excluded_of(self.whole)

    def notes(self) -> Sequence[str]:
        """Those of the whole, and how much is left out."""
        documents, queries = (len(ids) for ids in self.withheld)
        sizes = f"{counted(documents, 'document', 'documents')} and {counted(queries, 'query', 'queries')}"
        return [*self.whole.notes(), f"withheld by their groups: {sizes}"]

    def parts(self) -> Iterator[Part]:
        """The parts of the whole."""
        return parts_of(self.whole)


def groups_of(collection: Collection, side: Side) -> Iterator[Membership]:
    """The groups that a collection brings, maybe none."""
    return collection.groups(side) if isinstance(collection, HasGroups) else iter(())


def excluded_of(collection: Collection) -> Iterator[Exclusion]:
    """The documents of a collection that do not count for a query, maybe none."""
    return collection.excluded() if isinstance(collection, HasExcluded) else iter(())


def without_siblings(collection: Collection, count: int, seed: int) -> WithheldIds:
    """What goes so that each group keeps one document that queries ask for, and `count` of its siblings.

    The document is drawn among those that are relevant to a query; queries that ask for others go, so that documents
    that are asked for, queries and their positives are the same for every `count`. A higher count keeps the same
    siblings and more. Documents of no group stay, and so do groups without a relevant document.

    Raises:
        DataError: the collection has no groups of documents.
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
    return WithheldIds(frozenset(gone), frozenset(positives.keys() - kept.keys()))


def without_groups(collection: Collection, share: float, seed: int) -> WithheldIds:
    """What goes with a share of the groups: their documents, and training queries that have no other positive.

    Groups with a document that is relevant to a query of another split stay. A larger share leaves out the same and
    more.

    Raises:
        DataError: the collection has no groups of documents.
    """
    groups = _document_groups(collection)
    others = [split for split in collection.splits() if split != "train"]
    tested = {groups.get(doc_id) for doc_ids in _positives(collection, others).values() for doc_id in doc_ids}
    drawn = {group for group in groups.values() if derive_seed(seed, "group", group) < share * 2**64}
    gone = frozenset(doc_id for doc_id, group in groups.items() if group in drawn.difference(tested))
    queries = (query_id for query_id, doc_ids in _positives(collection, ["train"]).items() if gone >= doc_ids)
    return WithheldIds(gone, frozenset(queries))


def _document_groups(collection: Collection) -> Mapping[str, str]:
    """The groups of documents in the corpus; a file of groups may have those of queries too."""
    members = dict(groups_of(collection, "document"))
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
