"""A run as a function is given it: what a search found, a file, scores by document and query, or vectors of queries."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from hardneg.formats.runs import strictly_decreasing, write_run
from hardneg.functions.argument_values import file_path
from hardneg.functions.arguments import AnyRun
from hardneg.functions.content_store import keep_content
from hardneg.functions.dataset_argument import is_id, mistakes_in
from hardneg.records import RUN, DataError, RankedList, UsageError
from hardneg.store import Artifact, Store

if TYPE_CHECKING:
    from hardneg.formats.vectors import FlatVectors
    from hardneg.functions.session import Session
    from hardneg.indexes.open_store import DenseIndex


_LARGEST = float(np.finfo(np.float32).max)
_FORMS = "give a file, what hardneg.search returned, or {query_id: {doc_id: score}}"


def run_file(run: AnyRun, store: Store) -> Path:
    """The file of a run; one in memory is written into the store, under its content.

    Raises:
        UsageError: it is nothing that a run may be.
        DataError: a score in memory is no finite number.
    """
    if isinstance(run, str | os.PathLike):
        return Path(os.fspath(run)).expanduser()
    if not isinstance(run, Mapping) or not run:
        raise UsageError(f"run: cannot read {run!r:.60}; {_FORMS}")
    return keep_content(store, "given-run", partial(_write, run)).path / RUN


def labelled_runs(argument: Any, store: Store) -> dict[str, Path]:
    """The files of runs by label: of a dict its keys, of others what a command calls them.

    Raises:
        UsageError: two have one label.
        DataError: as `run_file`.
    """
    if isinstance(argument, Mapping | Sequence) and not argument:
        raise UsageError("runs: there are none: give a run, a list of them, or a dict of them by label")
    if isinstance(argument, Mapping) and not is_run(argument):
        named = [(str(label), each) for label, each in argument.items()]
    else:
        runs = list(argument) if isinstance(argument, Sequence) and not isinstance(argument, str) else [argument]
        paths = [run_file(each, store) for each in runs if isinstance(each, str | Path)]
        named = [(label, path) for path, label in run_labels(paths).items()]
        others = [(number, each) for number, each in enumerate(runs, 1) if not isinstance(each, str | Path)]
        named += [(getattr(each, "name", f"run {number}"), each) for number, each in others]
    files: dict[str, Path] = {}
    for label, each in named:
        if label in files:
            raise UsageError(f"runs: two are called {label!r}; give a dict of runs by label")
        files[label] = run_file(each, store)
    return files


def run_labels(paths: Sequence[Path]) -> dict[Path, str]:
    """A name for each run: its file's name, with as many folders before it as tell equal ones apart."""
    if len(set(paths)) < len(paths):
        twice = next(path for path in paths if paths.count(path) > 1)
        raise UsageError(f"{twice} is given twice; give each run once")
    return {path: _shortest_tail(path, [p for p in paths if p.name == path.name]) for path in paths}


def _shortest_tail(path: Path, namesakes: Sequence[Path]) -> str:
    for length in range(1, len(path.parts) + 1):
        tail = path.parts[-length:]
        if sum(other.parts[-length:] == tail for other in namesakes) == 1:
            return Path(*tail).as_posix()
    return path.as_posix()


def is_run(run: Mapping[str, Any]) -> bool:
    """Whether these are scores by document and query, and no runs by label."""
    first = next(iter(run.values()), None)
    return isinstance(first, Mapping) and not isinstance(next(iter(first.values()), 0), Mapping)


def _write(run: Mapping[str, Mapping[str, float]], folder: Path) -> None:
    try:
        write_run(folder / RUN, _entries(run))
    except UnicodeEncodeError as error:
        line = str(error.object)[max(0, error.start - 20) : error.end + 20]
        raise DataError(f"run: an id has half of a character, which no file can hold: {line!r}") from None


def _entries(run: Mapping[str, Mapping[str, float]]) -> Iterator[tuple[str, RankedList]]:
    with mistakes_in("run") as mistakes:
        for query_id, scores in run.items():
            if not is_id(query_id, "", mistakes):
                continue
            if not isinstance(scores, Mapping):
                mistakes.append(f"[{query_id!r}]: must be scores by document id, not {scores!r:.60}")
                continue
            known, where = len(mistakes), f"[{query_id!r}]"
            for doc_id, score in scores.items():
                if is_id(doc_id, where, mistakes) and not _is_number(score):
                    mistakes.append(f"{where}[{doc_id!r}]: must be a finite number of 32 bits, not {score!r:.60}")
            if len(mistakes) == known:
                doc_ids = sorted(scores, reverse=True)  # trec_eval's order, with no equal scores
                values = np.fromiter((scores[doc_id] for doc_id in doc_ids), np.float32, len(doc_ids))
                order = np.argsort(-values, stable=True)
                yield query_id, RankedList([doc_ids[i] for i in order.tolist()], strictly_decreasing(values[order]))


def _is_number(score: Any) -> bool:
    try:
        return abs(float(score)) <= _LARGEST and not isinstance(score, str | bytes)
    except (TypeError, ValueError, OverflowError):
        return False


_AT_ONCE = 65_536


@dataclass(frozen=True)
class QueryVectors:
    """An index folder, and the files of the queries' vectors and, if apart, of their ids."""

    index: Path
    queries: Path
    ids: Path | None

    @property
    def reads(self) -> list[Path]:
        """All that is read."""
        return [path for path in (self.index, self.queries, self.ids) if path is not None]

    def kept_run(self, session: "Session", depth: int, name: str = RUN) -> tuple[Artifact, int]:
        """The run for all queries in the file's order, in the store under its content; and how many there are.

        Raises:
            ArtifactError: the index is missing or damaged.
            DataError: the vectors are, or an id is repeated.
            UsageError: the vectors are of another dimension than the index.
        """
        from hardneg.formats.runs import write_run
        from hardneg.formats.vectors import FlatVectors
        from hardneg.formats.vectors_import import import_vectors, open_vectors
        from hardneg.indexes.backends.flat import FlatSearcher
        from hardneg.indexes.kernels.exact.exact import ExactOptions
        from hardneg.indexes.open_store import DenseIndex

        index, file, counts = DenseIndex.open(self.index), open_vectors(self.queries, self.ids), list[int]()
        if file.dimension != index.dimension:
            problem = f"vectors of dimension {file.dimension}, and {self.index} has {index.dimension}"
            raise UsageError(f"{self.queries}: {problem}; encode the queries with the model of the index")
        if isinstance(index.searcher, FlatSearcher):
            options = ExactOptions(device=session.device)
            index = replace(index, searcher=replace(index.searcher, options=options, progress=session.progress))

        def write(folder: Path) -> None:
            with TemporaryDirectory() as aside:
                counts.append(import_vectors(file, Path(aside), session.progress))
                write_run(folder / name, _hits(index, FlatVectors.open(Path(aside)), depth))

        return keep_content(session.store, "given-run", write), counts[0]


def _hits(index: "DenseIndex", queries: "FlatVectors", depth: int) -> Iterator[tuple[str, "RankedList"]]:
    searcher, depth = index.searcher, min(depth, len(index.doc_ids))
    for start in range(0, len(queries), _AT_ONCE):
        stop = min(start + _AT_ONCE, len(queries))
        hits = searcher.search(queries.read(start, stop), depth)
        for query_id, rows, scores in zip(queries.doc_ids[start:stop], hits.rows, hits.scores, strict=True):
            there = rows >= 0
            yield query_id, RankedList([index.doc_ids[row] for row in rows[there]], scores[there])


def named_vectors(line: str, index: Any, query_vectors: Any, query_ids: Any) -> QueryVectors | None:
    """What these arguments of a function say; None where none of them is given.

    Raises:
        UsageError: one of them lacks another.
    """
    given = {"index": index, "query_vectors": query_vectors, "query_ids": query_ids}
    paths = {name: file_path(value, name) for name, value in given.items() if value is not None}
    if not paths:
        return None
    if lacking := [name for name in ("index", "query_vectors") if name not in paths]:
        problem = f"{line}: vectors of queries are searched for in an index: give {{{lacking[0]}}} too"
        raise UsageError(problem, lacking[0])
    return QueryVectors(paths["index"], paths["query_vectors"], paths.get("query_ids"))
