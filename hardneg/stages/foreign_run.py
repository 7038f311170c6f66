"""Work on a run that someone else made: it is brought into the order of the split, then taken as any other."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from hardneg.data.collection import StoredCollection
from hardneg.data.runs import Run, read_run, strictly_decreasing, write_run
from hardneg.errors import DataError
from hardneg.layout import RUN
from hardneg.miners.filtered import SCORES
from hardneg.stages.context import ArtifactInput, StageContext
from hardneg.stages.inputs import open_collection
from hardneg.types import RankedList


def mine_from(path: Path, work: StageContext[Any], scores: Path | None = None) -> dict[str, Any]:
    """Stage `mine` on the run in `path`; facts: its own, and what of the run is not in the collection.

    scores: a run whose scores filters go by; of it too, facts tell what is not in the collection.

    Raises:
        DataError: a run has a mistake, or none of its queries is in the split.
    """
    given, facts = _with_run(path, work, "runs.run")
    if scores is not None:
        given, others = _with_run(scores, given, f"runs.{SCORES}")
        facts |= {f"{SCORES}: {name}": count for name, count in others.items()}
    return {**given.spec.make(given), **facts}


def rerank_from(path: Path, work: StageContext[Any]) -> dict[str, Any]:
    """Stage `rerank` on the run in `path`, as `mine_from` does with stage `mine`.

    Raises:
        DataError: the run has a mistake, or none of its queries is in the split.
    """
    given, facts = _with_run(path, work, "run")
    return {**given.spec.make(given), **facts}


def _with_run(path: Path, work: StageContext[Any], field: str) -> tuple[StageContext[Any], dict[str, int]]:
    """The work with the run as its input, and what of the run is not in the collection."""
    collection, run, facts = open_collection(work.inputs["dataset"]), read_run(path), Counter[str]()
    folder = work.folder / field
    folder.mkdir()
    query_ids = collection.queries(work.spec.split).query_ids
    write_run(folder / RUN, _entries(run, query_ids, collection, facts))
    if not facts["queries in the run"]:
        raise DataError(f"{path}: none of its queries is in split {work.spec.split}; name the split it is of")
    inputs = {**work.inputs, field: ArtifactInput("run", "", folder)}
    return replace(work, inputs=inputs), {name: count for name, count in facts.items() if count}


def _entries(
    run: Run, query_ids: list[str], collection: StoredCollection, facts: Counter[str]
) -> Iterator[tuple[str, RankedList]]:
    """The lists of the split's queries in its order, what the corpus lacks left out, ties kept in the run's order."""
    facts["run queries that are not in the split"] = len(run.keys() - set(query_ids))
    for query_id in query_ids:
        if (ranked := run.get(query_id)) is None:
            facts["queries that are not in the run"] += 1
            continue
        facts["queries in the run"] += 1
        known = collection.corpus.rows(ranked.doc_ids) >= 0
        facts["run documents that are not in the corpus"] += int((~known).sum())
        doc_ids = [doc_id for doc_id, there in zip(ranked.doc_ids, known.tolist(), strict=True) if there]
        yield query_id, RankedList(doc_ids, strictly_decreasing(ranked.scores[known]))
