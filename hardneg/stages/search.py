"""Stage `search`: the best documents for the queries of one split, of all or of a run's, as a TREC run."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.data.collection import StoredCollection
from hardneg.data.corpus import Corpus
from hardneg.data.qrels import positives
from hardneg.data.queries import Queries
from hardneg.data.runs import join_runs, lists_in_order, write_run
from hardneg.distributed import World, barrier, world
from hardneg.errors import UsageError
from hardneg.indexes.candidate_scoring import angular_scores, rank_candidates
from hardneg.layout import QUERIES, RUN
from hardneg.models.encoder import EncodeOptions, Encoder
from hardneg.protocols import Searcher
from hardneg.stages.context import StageContext
from hardneg.stages.opening import open_collection, open_encoder, open_searcher
from hardneg.stages.own_queries import searched_queries
from hardneg.timing import Seconds
from hardneg.types import Hits, RankedList

QUERIES_AT_ONCE = 65_536
_LISTS = 1024

Entry = tuple[str, RankedList]
Found = tuple[NDArray[np.int64], NDArray[np.float32]]


def run(work: StageContext[Any]) -> dict[str, Any]:
    """Searches in as few passes over the index as memory allows, and writes the run in the order of the queries.

    Several processes share the queries of a dense index, by whole windows of the encoder, so that the run is the same.
    """
    collection, seconds = open_collection(work.inputs["dataset"]), Seconds()
    facts, here = Counter[str](), world()
    queries = searched_queries(work, collection, facts)
    facts += Counter({"queries": len(queries), "depth": work.spec.depth})
    if here.size == 1 or "model" not in work.inputs:
        if here.first:
            write_run(work.folder / RUN, _entries(work, collection, queries, range(len(queries)), facts, seconds))
        return {**facts, **_told(seconds)}
    parts = [work.folder / f"part-{rank}.trec" for rank in range(here.size)]
    write_run(parts[here.rank], _entries(work, collection, queries, _share(len(queries), here), facts, seconds))
    barrier()
    if here.first:
        join_runs(parts, work.folder / RUN)
        work.keep_only(RUN, QUERIES)
    return {**facts, **_told(seconds)}


def _told(seconds: Seconds) -> dict[str, float]:
    """What the manifest tells: of several processes, the seconds of the first."""
    return {f"seconds of search: {name}": round(value, 4) for name, value in seconds.items()}


def _share(queries: int, here: World) -> range:
    """This process's queries: whole windows, for vectors depend a little on the texts that are encoded with them."""
    window = EncodeOptions().window
    part = here.share(-(-queries // window))
    return range(queries)[part.start * window : part.stop * window]


def _entries(
    work: StageContext[Any],
    collection: StoredCollection,
    queries: Queries,
    part: range,
    facts: Counter[str],
    seconds: Seconds,
) -> Iterator[Entry]:
    if not part:
        return
    searcher = open_searcher(work.inputs["index"], collection, work.device, work.progress)
    model, precision = work.inputs.get("model"), work.spec.precision
    encoder = open_encoder(model, work.device, precision) if model else None
    if work.spec.scores == "angular":
        _check_cosines(encoder)
    options, depth = EncodeOptions(precision=precision), work.spec.depth
    lists = _candidates(work, queries, part, facts) if "candidates" in work.inputs else None
    known = positives(collection.all_qrels()) if work.spec.positives else None
    step = options.window if lists else QUERIES_AT_ONCE
    with work.progress.task("searching", len(part), "queries") as task:
        for start in part[::step]:
            texts = queries.texts[start : min(start + step, part.stop)]
            wanted: Sequence[str] | NDArray[np.float32] = texts
            if encoder:
                with seconds.of("encode queries"):
                    wanted = encoder.encode(texts, "query", options, work.progress)
            with seconds.of("search"):
                if lists is None:
                    hits = searcher.search(wanted, depth)
                else:
                    given = _rows(collection.corpus, [ranked.doc_ids for ranked in islice(lists, len(texts))])
                    hits = rank_candidates(searcher, wanted, given, depth)
            query_ids, found = queries.query_ids[start : start + len(texts)], _found(hits)
            if known is not None:
                theirs = [known.get(query_id, ()) for query_id in query_ids]
                found = _with_positives(hits, searcher, wanted, theirs, collection.corpus)
            for query_id, (rows, scores) in zip(query_ids, found, strict=True):
                yield query_id, RankedList(collection.corpus.ids(rows), _reported(work, scores))
            task.advance(len(texts))
    for _ in lists or ():
        pass


def _check_cosines(encoder: Encoder | None) -> None:
    if encoder is None or encoder.spec.similarity != "cosine":
        raise UsageError(
            "search: scores angular: the index has no cosines: leave it out, or take an index whose model has them"
        )


def _reported(work: StageContext[Any], scores: NDArray[np.float32]) -> NDArray[np.float32]:
    return angular_scores(scores) if work.spec.scores == "angular" else scores


def _candidates(work: StageContext[Any], queries: Queries, part: range, facts: Counter[str]) -> Iterator[RankedList]:
    """The lists of a part of the queries; all are gone through, to know the run as one of these queries."""
    path = work.inputs["candidates"].folder / RUN
    for place, ranked in enumerate(lists_in_order(path, queries.query_ids)):
        facts["queries without candidates"] += not ranked.doc_ids
        if place in part:
            yield ranked


def _found(hits: Hits) -> Iterator[Found]:
    for rows, scores in zip(hits.rows, hits.scores, strict=True):
        yield rows[rows >= 0], scores[rows >= 0]


def _with_positives(
    hits: Hits,
    searcher: Searcher,
    wanted: Sequence[str] | NDArray[np.float32],
    known: Sequence[Sequence[str]],
    corpus: Corpus,
) -> Iterator[Found]:
    """The hits of each query, and behind them those of its known positives that they lack, at their own scores."""
    for start in range(0, len(known), _LISTS):
        part = slice(start, start + _LISTS)
        given = _rows(corpus, known[part])
        own = rank_candidates(searcher, wanted[part], given, max(1, given.shape[1]))
        listed = Hits(hits.rows[part], hits.scores[part])
        for (rows, scores), (others, theirs) in zip(_found(listed), _found(own), strict=True):
            lacking = ~np.isin(others, rows)
            yield np.concatenate([rows, others[lacking]]), np.concatenate([scores, theirs[lacking]])


def _rows(corpus: Corpus, lists: Sequence[Sequence[str]]) -> NDArray[np.int64]:
    """The documents of each list as rows of the corpus, int64 [Q, C], padded with -1."""
    lengths = np.array([len(doc_ids) for doc_ids in lists])
    rows = np.full((len(lists), lengths.max(initial=0)), -1, np.int64)
    inside = np.arange(rows.shape[1]) < lengths[:, None]
    rows[inside] = corpus.rows([doc_id for doc_ids in lists for doc_id in doc_ids])
    return rows
