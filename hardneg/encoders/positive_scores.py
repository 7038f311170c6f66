"""PositiveScores of the positives beside mined negatives: those of the run, or the model's where the run lacks them."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from hardneg.data.collection import StoredCollection
from hardneg.data.flat import FlatVectors
from hardneg.data.queries import Queries
from hardneg.data.segments import document_rows
from hardneg.encoders.encoder import Encoder
from hardneg.encoders.inference import EncodeOptions
from hardneg.progress import Progress
from hardneg.types import Negatives, RankedList

_QUERIES = 4096

PositiveScores = dict[str, NDArray[np.float32]]


def scores_in_run(negatives: Iterable[Negatives], entries: Iterable[tuple[str, RankedList]]) -> PositiveScores:
    """float32 [positives] for each query of `negatives`: its positives' scores in the run, nan where it lacks them."""
    positives = {item.query_id: list(item.positives) for item in negatives}
    found = {query_id: np.full(len(doc_ids), np.nan, np.float32) for query_id, doc_ids in positives.items()}
    for query_id, ranked in entries:
        if query_id in positives:
            known = dict(zip(ranked.doc_ids, ranked.scores.tolist(), strict=True))
            found[query_id] = np.array([known.get(doc_id, np.nan) for doc_id in positives[query_id]], np.float32)
    return found


def fill_from_model(
    scores: PositiveScores,
    negatives: Iterable[Negatives],
    queries: Queries,
    collection: StoredCollection,
    dense: tuple[Encoder, FlatVectors],
    progress: Progress,
) -> None:
    """Puts the model's own scores where `scores` has nan, computed as a search computes them."""
    encoder, vectors = dense
    first = document_rows(vectors.folder, collection.corpus.doc_ids)
    texts = dict(zip(queries.query_ids, queries.texts, strict=True))
    positives = {i.query_id: list(i.positives) for i in negatives if np.isnan(scores[i.query_id]).any()}
    query_ids = list(positives)
    for start in range(0, len(query_ids), _QUERIES):
        block = query_ids[start : start + _QUERIES]
        encoded = encoder.encode([texts[i] for i in block], "query", EncodeOptions(precision="fp32"), progress)
        for query_id, query in zip(block, encoded, strict=True):
            values = scores[query_id]
            rows = collection.corpus.rows(positives[query_id])
            for place in np.flatnonzero(np.isnan(values)).tolist():
                row = int(rows[place])
                start, stop = (row, row + 1) if first is None else first[row : row + 2].tolist()
                values[place] = (vectors.read(start, stop) @ query).max()
