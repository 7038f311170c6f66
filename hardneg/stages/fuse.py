"""Stage `fuse`: several runs of one split as one."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from hardneg.atomic_write import replace_text
from hardneg.data.collection import StoredCollection
from hardneg.data.run_stream import lists_in_order
from hardneg.data.runs import read_run, write_run
from hardneg.fusion.methods import Fusion
from hardneg.stages.fuse_tuning import Development, check_development, numbers, to_json, tune
from hardneg.stages.opening import open_collection
from hardneg.stages.search import RUN, Entry
from hardneg.stages.work import Work
from hardneg.types import RankedList

TUNING = "tuning.json"


def run(work: Work) -> dict[str, Any]:
    """Reads the runs query by query and writes what they are together, best first.

    Facts: queries, how often a run lacks one, and the numbers that were tuned; all that was tried is in `tuning.json`.
    """
    collection = open_collection(work.inputs["dataset"])
    query_ids = collection.queries(work.spec.split).query_ids
    fusion, tuned = _tuned(work, collection) if work.spec.tuning else (work.spec.fusion, {})
    facts = Counter({"queries": len(query_ids), "depth": work.spec.depth})
    write_run(work.folder / RUN, _entries(work, fusion, query_ids, facts))
    return {name: count for name, count in facts.items() if count} | tuned


def _entries(work: Work, fusion: Fusion, query_ids: Sequence[str], facts: Counter[str]) -> Iterator[Entry]:
    with work.progress.task("fusing", len(query_ids), "queries") as task:
        fused = fusion.over(_lists(work, query_ids, facts))
        for query_id, ranked in zip(query_ids, fused, strict=True):
            task.advance()
            if ranked.doc_ids:
                yield query_id, ranked.doc_ids, ranked.scores


def _lists(work: Work, query_ids: Sequence[str], facts: Counter[str]) -> Iterator[list[RankedList]]:
    sources, labels = work.inputs_of("runs"), work.spec.labels
    streams = [lists_in_order(sources[label].folder / RUN, query_ids) for label in labels]
    for _, *lists in zip(query_ids, *streams, strict=True):
        for label, ranked in zip(labels, lists, strict=True):
            facts[f"queries that {label} lacks"] += not ranked.doc_ids
        yield lists


def _tuned(work: Work, collection: StoredCollection) -> tuple[Fusion, dict[str, Any]]:
    """The best fusion on the development queries, and what to tell of it."""
    spec, asked, sources = work.spec, work.spec.tuning, work.inputs_of("tuning.runs")
    runs = [read_run(sources[label].folder / RUN) for label in spec.labels]
    known = Development(spec.labels, runs, collection.qrels(asked.split), asked.metric, asked.relevance_level)
    check_development(known, collection.queries(spec.split).query_ids)
    found = tune(spec.fusion, known, asked.grid, work.progress)
    content = json.dumps({"split": asked.split, **to_json(found, known)}, indent=1, allow_nan=False)
    replace_text(work.folder / TUNING, content + "\n")
    best = found[0]
    return best.fusion, {"tuned": {**numbers(best.fusion, spec.labels), known.metric: best.worth}, "tried": len(found)}
