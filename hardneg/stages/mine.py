"""Stage `mine`: negatives selected from runs, known positives and copies of them left out."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.data.collection import StoredCollection
from hardneg.data.negatives import write_negatives
from hardneg.data.qrels import positives
from hardneg.data.run_stream import stream_run
from hardneg.errors import DataError
from hardneg.stages.opening import open_collection
from hardneg.stages.search import RUN
from hardneg.stages.work import Work
from hardneg.types import Candidates, Negatives, RankedList

NEGATIVES = "negatives.arrow"


def run(work: Work) -> dict[str, Any]:
    """Streams candidates through the miner; facts: queries, negatives, and what was dropped for which reason."""
    collection = open_collection(work.inputs["dataset"])
    runs = {label: source.folder / RUN for label, source in work.inputs_of("runs").items()}
    facts: Counter[str] = Counter()
    mined = work.plugins["miner"].mine(_candidates(work, collection, runs, facts), seed=work.spec.seed)
    write_negatives(work.folder / NEGATIVES, _counted(mined, facts))
    return dict(facts)


def _counted(mined: Iterator[Negatives], facts: Counter[str]) -> Iterator[Negatives]:
    for item in mined:
        facts["queries"] += 1
        facts["negatives"] += len(item.negatives)
        facts["queries without negatives"] += not item.negatives
        for reason, count in item.dropped.items():
            facts[f"dropped as {reason}"] += count
        yield item


def _candidates(
    work: Work, collection: StoredCollection, runs: Mapping[str, Path], facts: Counter[str]
) -> Iterator[Candidates]:
    corpus = collection.corpus
    relevant = positives(collection.all_qrels())
    query_ids = collection.queries(work.spec.split).query_ids
    lists = {label: _in_order(path, query_ids) for label, path in runs.items()}
    with work.progress.task("mining", len(query_ids), "queries") as task:
        for query_id in query_ids:
            hits = {label: next(stream) for label, stream in lists.items()}
            known = relevant.get(query_id, [])
            task.advance()
            if not known:
                facts["queries without positives"] += 1
                continue
            copies = corpus.copies(corpus.rows(known))
            duplicates = frozenset(corpus.ids(copies)) - frozenset(known)
            yield Candidates(query_id, known, hits, corpus.doc_ids, duplicates)


def _in_order(path: Path, query_ids: Sequence[str]) -> Iterator[RankedList]:
    """The run's list for each query, an empty one where the run has none; the run must keep the queries' order."""
    empty: NDArray[np.float32] = np.empty(0, np.float32)
    stream = stream_run(path)
    head = next(stream, None)
    for query_id in query_ids:
        if head is not None and head[0] == query_id:
            yield RankedList(head[1], head[2])
            head = next(stream, None)
        else:
            yield RankedList((), empty)
    if head is not None:
        raise DataError(
            f"{path}: query {head[0]} is not in the split, or not in its order; search the same split again"
        )
