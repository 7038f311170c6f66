"""Stage `search`: the best documents for the queries of one split, as a TREC run."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.data.collection import StoredCollection
from hardneg.data.queries import Queries
from hardneg.data.runs import write_run
from hardneg.models.encoder import EncodeOptions, Encoder
from hardneg.protocols import Searcher
from hardneg.stages.opening import open_collection, open_encoder, open_searcher
from hardneg.stages.work import Work

RUN = "run.trec.gz"
QUERIES_AT_ONCE = 65_536

Entry = tuple[str, Sequence[str], NDArray[np.float32]]


def run(work: Work) -> dict[str, Any]:
    """Searches in as few passes over the index as memory allows, and writes the run in the order of the queries."""
    collection = open_collection(work.inputs["dataset"])
    queries = collection.queries(work.spec.split)
    searcher = open_searcher(work.inputs["index"], collection, work.device, work.progress)
    encoder = open_encoder(work.inputs["model"], work.device) if "model" in work.inputs else None
    write_run(work.folder / RUN, _entries(work, collection, queries, searcher, encoder))
    return {"queries": len(queries.query_ids), "depth": work.spec.depth}


def _entries(
    work: Work, collection: StoredCollection, queries: Queries, searcher: Searcher, encoder: Encoder | None
) -> Iterator[Entry]:
    options = EncodeOptions(precision=work.spec.precision)
    with work.progress.task("searching", len(queries.query_ids), "queries") as task:
        for start in range(0, len(queries.query_ids), QUERIES_AT_ONCE):
            texts = queries.texts[start : start + QUERIES_AT_ONCE]
            wanted = encoder.encode(texts, "query", options, work.progress) if encoder else texts
            hits = searcher.search(wanted, work.spec.depth)
            for offset, (rows, scores) in enumerate(zip(hits.rows, hits.scores, strict=True)):
                found = rows >= 0
                doc_ids = [collection.corpus.doc_ids[row] for row in rows[found].tolist()]
                yield queries.query_ids[start + offset], doc_ids, scores[found]
            task.advance(len(texts))
