"""Stage `search`: the best documents for the queries of one split, as a TREC run."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.data.collection import StoredCollection
from hardneg.data.queries import Queries
from hardneg.data.runs import join_runs, write_run
from hardneg.distributed import World, barrier, world
from hardneg.models.encoder import EncodeOptions
from hardneg.stages.opening import open_collection, open_encoder, open_searcher
from hardneg.stages.work import Work

RUN = "run.trec.gz"
QUERIES_AT_ONCE = 65_536
EVERY_PROCESS = True

Entry = tuple[str, Sequence[str], NDArray[np.float32]]


def run(work: Work) -> dict[str, Any]:
    """Searches in as few passes over the index as memory allows, and writes the run in the order of the queries.

    Several processes share the queries of a dense index, by whole windows of the encoder, so that the run is the same.
    """
    collection = open_collection(work.inputs["dataset"])
    queries, here = collection.queries(work.spec.split), world()
    facts = {"queries": len(queries.query_ids), "depth": work.spec.depth}
    if here.size == 1 or "model" not in work.inputs:
        if here.first:
            write_run(work.folder / RUN, _entries(work, collection, queries))
        return facts
    parts = [work.folder / f"part-{rank}.trec" for rank in range(here.size)]
    write_run(parts[here.rank], _entries(work, collection, _share(queries, here)))
    barrier()
    if here.first:
        join_runs(parts, work.folder / RUN)
        work.keep_only(RUN)
    return facts


def _share(queries: Queries, here: World) -> Queries:
    """This process's queries: whole windows, for vectors depend a little on the texts that are encoded with them."""
    window = EncodeOptions().window
    part = here.share(-(-len(queries.query_ids) // window))
    mine = slice(part.start * window, part.stop * window)
    return replace(queries, query_ids=queries.query_ids[mine], texts=queries.texts[mine])


def _entries(work: Work, collection: StoredCollection, queries: Queries) -> Iterator[Entry]:
    if not queries.query_ids:
        return
    searcher = open_searcher(work.inputs["index"], collection, work.device, work.progress)
    encoder = open_encoder(work.inputs["model"], work.device) if "model" in work.inputs else None
    options = EncodeOptions(precision=work.spec.precision)
    with work.progress.task("searching", len(queries.query_ids), "queries") as task:
        for start in range(0, len(queries.query_ids), QUERIES_AT_ONCE):
            texts = queries.texts[start : start + QUERIES_AT_ONCE]
            wanted = encoder.encode(texts, "query", options, work.progress) if encoder else texts
            hits = searcher.search(wanted, work.spec.depth)
            for offset, (rows, scores) in enumerate(zip(hits.rows, hits.scores, strict=True)):
                found = rows >= 0
                yield queries.query_ids[start + offset], collection.corpus.ids(rows[found]), scores[found]
            task.advance(len(texts))
