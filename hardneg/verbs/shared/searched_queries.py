"""What a search asks for: the queries of a split or of a file, and their vectors where a file has them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, overload

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.collection import StoredCollection
from hardneg.formats.corpus import Corpus, own_documents
from hardneg.formats.qrels import positives
from hardneg.formats.queries import SAME_TEXT, Queries, read_query_file, write_queries
from hardneg.formats.vectors.flat_vectors import FlatVectors
from hardneg.formats.vectors.vectors_import import VectorOwners, arrange_vectors
from hardneg.records.errors import DataError
from hardneg.records.layout import QUERIES
from hardneg.records.wording import counted
from hardneg.runtime.distributed import barrier, world
from hardneg.verbs.shared.context import StageContext
from hardneg.verbs.shared.inputs import open_queries, open_vector_files

if TYPE_CHECKING:
    from hardneg.verbs.search import Search

WITHOUT = "queries without positives"


def searched_queries(context: "StageContext[Search]", collection: StoredCollection, facts: Counter[str]) -> Queries:
    """The queries of the file that a search names, which the first process writes, or those of its split.

    Where the search is with the text of positives, that stands in place of each query's own.

    Raises:
        DataError: the file has mistakes, or no query but the collection's own; no query has a positive.
    """
    if context.spec.queries is None:
        queries = open_queries(context, collection, context.spec.split)
        if context.spec.text_of != "query":
            return _positives_of(context, collection, queries, facts)
        _, owner = own_documents(collection.corpus, queries.query_ids, queries.texts)
        if count := len({queries.query_ids[at] for at in owner.tolist()}.difference(collection.excluded())):
            stand = f"{counted(count, 'query stands', 'queries stand')} in the corpus too, found first and counted"
            advice = "`exclude_own: true` of the dataset leaves out documents that have the query's id"
            context.progress.note(f"{context.name}: {stand}; {advice}")
        return queries
    if world().first:
        _write_queries(context, collection, Path(context.spec.queries).expanduser(), facts)
    barrier()
    return Queries.open(context.folder / QUERIES)


def _positives_of(
    context: "StageContext[Search]", collection: StoredCollection, queries: Queries, facts: Counter[str]
) -> Queries:
    texts = positive_texts(queries, positives(collection.all_qrels()), collection.corpus, facts)
    if not len(texts):
        problem = f"no query of split {context.spec.split} has a positive, a judgement above zero of a document"
        raise DataError(f"{context.name}: text_of: {problem} in the corpus")
    return texts


def _write_queries(
    context: "StageContext[Search]", collection: StoredCollection, path: Path, facts: Counter[str]
) -> None:
    known = {query_id: text for split in collection.splits for query_id, text in collection.queries(split)}
    if not write_queries(context.folder / QUERIES, read_query_file(path, known, facts)):
        raise DataError(f"{path}: no query in it that the dataset does not have")
    for reason in [reason for reason, count in facts.items() if not count]:
        del facts[reason]
    if same := facts.get(SAME_TEXT):
        problem = f"{same} {SAME_TEXT}: where that is one to measure by, training on it leaks"
        context.progress.note(f"{context.name}: {problem}")


def vectors_of_queries(context: "StageContext[Search]", queries: Queries, facts: Counter[str]) -> FlatVectors | None:
    """The vectors of the file that a search names, in the order of the queries; None where it names none."""
    if (vectors := context.spec.query_vectors) is None:
        return None
    file, folder = open_vector_files(vectors, context.spec.query_ids), context.folder / "query-vectors"
    dimension = context.inputs["index"].facts.get("dimension", file.dimension)
    if file.dimension != dimension:
        problem = f"vectors of dimension {file.dimension}, and {context.spec.index} has {dimension}"
        raise DataError(f"{file.path}: {problem}; encode the queries with the model of the index")
    rows = {query_id: row for row, query_id in enumerate(queries.query_ids)}
    owners = VectorOwners(
        queries.query_ids, lambda ids: np.array([rows.get(query_id, -1) for query_id in ids], np.int64), "query"
    )
    if others := arrange_vectors(file, owners, folder, context.progress):
        facts["vectors of other queries"] = others
    return FlatVectors.open(folder)


@dataclass(frozen=True)
class DocumentTexts(Sequence[str]):
    """The contents of some documents, read on access; rows: int64 [n], of the corpus."""

    corpus: Corpus
    rows: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return self.corpus.contents(self.rows[index])
        return self.corpus.contents(self.rows[index : index + 1 or None])[0]


def positive_texts(
    queries: Queries, known: Mapping[str, Sequence[str]], corpus: Corpus, facts: Counter[str]
) -> Queries:
    """The queries, each with the contents of its first positive that the corpus has, read on access.

    Those that have none are left out, and counted in `facts`.

    Args:
        queries: of one split.
        known: positives by query id, in the order of the judgements.
        corpus: what the positives are documents of.
        facts: counts.
    """
    lists = [known.get(query_id, ()) for query_id in queries.query_ids]
    rows = corpus.rows([doc_id for doc_ids in lists for doc_id in doc_ids])
    owner = np.repeat(np.arange(len(lists)), [len(doc_ids) for doc_ids in lists])[rows >= 0]
    owners, first = np.unique(owner, return_index=True)
    if left_out := len(lists) - len(owners):
        facts[WITHOUT] = left_out
    query_ids = [queries.query_ids[i] for i in owners.tolist()]
    return Queries(query_ids, DocumentTexts(corpus, rows[rows >= 0][first]))
