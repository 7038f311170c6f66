"""Queries that a search takes from a file: they stand beside its run, and beside what is made of it."""

from collections import Counter
from pathlib import Path
from typing import Any

from hardneg.atomic_write import link_file
from hardneg.data.collection import StoredCollection
from hardneg.data.queries import Queries, write_queries
from hardneg.data.topics import SAME_TEXT, read_query_file
from hardneg.distributed import barrier, world
from hardneg.errors import DataError
from hardneg.layout import QUERIES
from hardneg.stages.context import ArtifactInput, StageContext
from hardneg.stages.opening import open_queries


def searched_queries(work: StageContext[Any], collection: StoredCollection, facts: Counter[str]) -> Queries:
    """The queries of the file that a search names, which the first process writes, or those of its split.

    Raises:
        DataError: the file has mistakes, or no query but the collection's own.
    """
    if work.spec.queries is None:
        return open_queries(work, collection)
    if world().first:
        _write(work, collection, facts)
    barrier()
    return Queries.open(work.folder / QUERIES)


def _write(work: StageContext[Any], collection: StoredCollection, facts: Counter[str]) -> None:
    known = {query_id: text for split in collection.splits for query_id, text in collection.queries(split)}
    path = Path(work.spec.queries).expanduser()
    if not write_queries(work.folder / QUERIES, read_query_file(path, known, facts)):
        raise DataError(f"{path}: no query in it that the dataset does not have")
    for reason in [reason for reason, count in facts.items() if not count]:
        del facts[reason]
    if same := facts.get(SAME_TEXT):
        work.progress.note(f"{work.name}: {same} {SAME_TEXT}: where that is one to measure by, training on it leaks")


def queries_of(work: StageContext[Any], collection: StoredCollection, run: str) -> Queries:
    """The queries of the run that is input `run`: those that stand beside it, or those of the work's split."""
    return own_queries(work.inputs[run]) or open_queries(work, collection)


def own_queries(source: ArtifactInput | None) -> Queries | None:
    """The queries that stand beside an artifact; None where it is of a split."""
    path = None if source is None else source.folder / QUERIES
    return Queries.open(path) if path is not None and path.exists() else None


def pass_on(work: StageContext[Any], run: str) -> None:
    """Has the queries of the input `run`, if they are of a file, stand beside what is made of it."""
    if (path := work.inputs[run].folder / QUERIES).exists():
        link_file(path, work.folder / QUERIES)
