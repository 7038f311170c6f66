"""A run as a function is given it: what a search found, a file, or scores by document and query."""

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from hardneg.api.content_store import keep_content
from hardneg.api.labels import run_labels
from hardneg.artifacts import Store
from hardneg.data.runs import write_run
from hardneg.errors import DataError, UsageError
from hardneg.layout import RUN
from hardneg.types import RankedList

AnyRun = str | Path | Mapping[str, Mapping[str, float]] | Any
"""A TREC run's file, plain or gzip; what a search, rerank or fusion returned; or `{query_id: {doc_id: score}}`."""

_FORMS = "give a file, what hardneg.search returned, or {query_id: {doc_id: score}}"


def run_file(given: AnyRun, store: Store) -> Path:
    """The file of a run; one in memory is written into the store, under its content.

    Raises:
        UsageError: it is nothing that a run may be.
        DataError: a score in memory is no finite number.
    """
    if isinstance(given, str | os.PathLike):
        return Path(os.fspath(given)).expanduser()
    if not isinstance(given, Mapping) or not given:
        raise UsageError(f"run: cannot read {given!r:.60}; {_FORMS}")
    return keep_content(store, "given-run", partial(_write, given)).path / RUN


def labelled_runs(given: Any, store: Store) -> dict[str, Path]:
    """The files of runs by label: of a dict its keys, of others what a command calls them.

    Raises:
        UsageError: two have one label.
        DataError: as `run_file`.
    """
    if isinstance(given, Mapping | Sequence) and not given:
        raise UsageError("runs: there are none: give a run, a list of them, or a dict of them by label")
    if isinstance(given, Mapping) and not is_run(given):
        return {str(label): run_file(each, store) for label, each in given.items()}
    runs = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    files = {each: run_file(each, store) for each in runs if isinstance(each, str | Path)}
    of_files = {path: label for path, label in run_labels(list(files.values())).items()}
    labelled = {of_files[files[each]]: files[each] for each in files}
    for number, each in enumerate(runs, 1):
        if isinstance(each, str | Path):
            continue
        label = getattr(each, "name", f"run {number}")
        if label in labelled:
            raise UsageError(f"runs: two are called {label!r}; give a dict of runs by label")
        labelled[label] = run_file(each, store)
    return labelled


def is_run(given: Mapping[str, Any]) -> bool:
    """Whether these are scores by document and query, and no runs by label."""
    first = next(iter(given.values()), None)
    return isinstance(first, Mapping) and not isinstance(next(iter(first.values()), 0), Mapping)


def _write(given: Mapping[str, Mapping[str, float]], folder: Path) -> None:
    try:
        write_run(folder / RUN, _entries(given))
    except UnicodeEncodeError as error:
        line = str(error.object)[max(0, error.start - 20) : error.end + 20]
        raise DataError(f"run: an id has half of a character, which no file can hold: {line!r}") from None


def _entries(given: Mapping[str, Mapping[str, float]]) -> Iterator[tuple[str, RankedList]]:
    for query_id, found in given.items():
        if not isinstance(query_id, str) or not isinstance(found, Mapping):
            raise DataError(f"run: query {query_id!r:.60}: must be scores by document id, not {found!r:.60}")
        for doc_id, score in found.items():
            if not isinstance(doc_id, str) or not _is_number(score):
                raise DataError(
                    f"run[{query_id!r}][{doc_id!r}]: must be a finite number by document id, not {score!r:.60}"
                )
        yield query_id, RankedList(list(found), np.fromiter(found.values(), np.float32, len(found)))


def _is_number(score: Any) -> bool:
    try:
        return isfinite(score)
    except TypeError:
        return False
