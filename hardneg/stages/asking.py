"""The questions of a split with the first passages of a run, as readers take them."""

from collections.abc import Iterator

from hardneg.data.collection import StoredCollection
from hardneg.data.runs import lists_in_order
from hardneg.errors import DataError
from hardneg.layout import RUN
from hardneg.reading.answering import Question
from hardneg.stages.context import ArtifactInput


def questions(collection: StoredCollection, split: str, run: ArtifactInput, depth: int) -> Iterator[Question]:
    """Every question of the split in its order, maybe without passages. Raises DataError for one that is unknown."""
    queries = collection.queries(split)
    path = run.folder / RUN
    for (query_id, text), ranked in zip(queries, lists_in_order(path, queries.query_ids), strict=True):
        rows = collection.corpus.rows(ranked.doc_ids[:depth])
        if (rows < 0).any():
            missing = ranked.doc_ids[int(rows.argmin())]
            raise DataError(f"{path}: document {missing!r} is not in the corpus: search again in this corpus")
        yield Question(query_id, text, rows)
