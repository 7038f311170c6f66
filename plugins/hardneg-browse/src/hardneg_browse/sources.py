"""The files that a page shows, by label, and the file of marks that it writes."""

import fcntl
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hardneg.plugin import (
    Judgement,
    StoredCollection,
    errors,
    layout,
    qrels_files,
    recipes,
    run_files,
    sessions,
    stores,
)

MARKS = ".marks.qrels"
_DATASET = "dataset"
_LOCK = "recipe.lock.yaml"


@dataclass(frozen=True)
class BrowseSources:
    """The files that `hardneg browse` shows, by label, and the file that it writes.

    title: title of the page. marks: file to write marks to. negatives: files of mined negatives. dropped: files of the
    candidates that the miner dropped. runs: runs for the same queries. dataset: folder of the stored collection, for
    texts and judgements. split: split of the queries.
    """

    title: str
    marks: Path
    negatives: Mapping[str, Path] = field(default_factory=dict)
    dropped: Mapping[str, Path] = field(default_factory=dict)
    runs: Mapping[str, Path] = field(default_factory=dict)
    dataset: Path | None = None
    split: str = "train"


def of_run_folder(folder: Path, store: stores.Store, split: str | None = None) -> BrowseSources:
    """Return the sources of a run folder, read from the store. split: by default, that of the first negatives or train.

    They all belong to one collection, because generated queries have different ids and texts. It is the collection of
    the first negatives or, if there are none, of the first run.

    Raises:
        DataError: not a run folder, or the store has none of its artifacts.
        UsageError: the recipe has neither negatives nor runs of the split.
    """
    artifacts, folder = recipes.artifacts_of(folder, store), folder.resolve()
    negatives = {name: item for name, item in artifacts.items() if (item.path / layout.NEGATIVES).is_file()}
    wanted = split or next(filter(None, map(_split, negatives.values())), "train")
    negatives = {name: item for name, item in negatives.items() if _split(item) in (None, wanted)}
    ranked = {name: item for name, item in artifacts.items() if _is_run_of(item, wanted)}
    keys = (item.origin["inputs"].get(_DATASET) for item in (*negatives.values(), *ranked.values()))
    key = next(filter(None, keys), None)
    negatives = {name: item for name, item in negatives.items() if _is_of(item, key)}
    read = next((item for item in artifacts.values() if item.key == key), artifacts.get(_DATASET))
    dataset = read.path if read else None
    runs = {name: item.path / layout.RUN for name, item in ranked.items() if _is_of(item, key)}
    if dataset is not None:
        known = set(StoredCollection.open(dataset).queries(wanted).query_ids)
        first = {name: next(run_files.stream_run(path), ("", None))[0] for name, path in runs.items()}
        runs = {name: path for name, path in runs.items() if first[name] in known}
    if not negatives and not runs:
        message = f"{folder}: no stage mined negatives or searched queries of split {wanted}; choose another {{split}}"
        raise errors.UsageError(message, "split")
    files = {name: item.path / layout.NEGATIVES for name, item in negatives.items()}
    drops = {name: item.path / layout.DROPPED for name, item in negatives.items()}
    dropped = {name: path for name, path in drops.items() if path.is_file()}
    marks = folder.with_name(folder.name + MARKS)
    return BrowseSources(folder.name, marks, files, dropped, runs, dataset, wanted)


def of_files(paths: list[Path], split: str) -> BrowseSources:
    """Return the sources for files of negatives (`.arrow`) and of runs. Labels are file names without suffixes.

    Raises:
        UsageError: two files have the same label.
    """
    labels = [path.name.removesuffix(".gz").removesuffix(path.suffix) or path.name for path in paths]
    labels = [label.removesuffix(".trec") for label in labels]
    if twice := {label for label in labels if labels.count(label) > 1}:
        raise errors.UsageError(f"{', '.join(sorted(twice))}: two files have this name before the suffix; rename one")
    named = dict(zip(labels, paths, strict=True))
    negatives = {label: path for label, path in named.items() if path.suffix == ".arrow"}
    runs = {label: path for label, path in named.items() if path.suffix != ".arrow"}
    marks = paths[0].with_name(labels[0] + MARKS)
    return BrowseSources(", ".join(labels), marks, negatives=negatives, runs=runs, split=split)


def _split(item: Any) -> str | None:
    """Return the split of an artifact's stage, if it has one."""
    split = item.origin["options"].get("split")
    return split if isinstance(split, str) else None


def _is_of(item: Any, key: str | None) -> bool:
    """Return whether an artifact is the collection with this key, reads it, or reads none."""
    return key in (item.key, item.origin["inputs"].get(_DATASET, key))


def _is_run_of(item: Any, split: str) -> bool:
    there = (item.path / layout.RUN).is_file() and not (item.path / layout.QUERIES).exists()
    return there and _split(item) in (None, split) and item.origin["options"].get("text_of") in (None, "query")


def with_others(sources: BrowseSources, runs: Sequence[Path] = (), dropped: Path | None = None) -> BrowseSources:
    """Return a copy with further runs and, if given, with `dropped` as the dropped candidates of the first negatives.

    Raises:
        UsageError: a file is not a run, two have the same name, or there are no negatives for `dropped`.
    """
    if dropped is not None:
        if not sources.negatives:
            raise errors.UsageError("{dropped}: requires a file of negatives or a run folder with negatives", "dropped")
        sources = replace(sources, dropped={**sources.dropped, next(iter(sources.negatives)): dropped})
    more = of_files(list(runs), sources.split) if runs else sources
    if runs and (wrong := [*more.negatives, *(label for label in more.runs if label in sources.runs)]):
        raise errors.UsageError(f"{{runs}} {wrong[0]}: not a run, or another run has this name", "runs")
    return replace(sources, runs={**sources.runs, **more.runs})


def path_sources(paths: Sequence[Path], dataset: Any, split: str | None, session: sessions.Session) -> BrowseSources:
    """Return the sources of one run folder, or of files. dataset: for files, where texts and judgements come from.

    Raises:
        UsageError: a file is missing, or the arguments contradict each other.
    """
    folders = [path for path in paths if path.is_dir()]
    if not folders:
        if missing := [path for path in paths if not path.is_file()]:
            raise errors.UsageError(f"{missing[0]}: no such file; give a run folder, negatives or runs")
        files = of_files(list(paths), split or "train")
        if dataset is None:
            return files
        stages = {"negatives": {"stage": "mine", "miner": "random"}}  # never made; a recipe needs at least one stage
        tree = {"dataset": sessions.named_dataset(dataset, session.store), "model": {"name": "none"}, "stages": stages}
        plan = recipes.make_plan(recipes.check_recipe(tree, Path("hardneg browse")))
        return replace(files, dataset=session.make(plan, _DATASET).artifacts[_DATASET].path)
    if len(paths) > 1:
        raise errors.UsageError("browse: give one folder, or files; add runs with {runs}", "runs")
    if dataset is not None:
        raise errors.UsageError("{dataset}: can be used only with files; a run folder has its own dataset", "dataset")
    if not (folders[0] / _LOCK).is_file():
        raise errors.UsageError(
            f"{folders[0]}: not the run folder of a finished recipe; give one written by `recipe run`, or files"
        )
    return of_run_folder(folders[0], session.store, split)


def mined_sources(mined: Any) -> BrowseSources:
    """Return the sources for a result of `hardneg.mine`; marks are saved in the current folder."""
    dropped = {mined.name: mined.folder / layout.DROPPED} if (mined.folder / layout.DROPPED).is_file() else {}
    return BrowseSources(
        mined.name,
        Path(f"{mined.name}.marks.qrels"),
        negatives={mined.name: mined.path},
        dropped=dropped,
        dataset=mined.source.collection.folder,
        split=mined.source.split,
    )


class Marks:
    """Documents that a reader marked as relevant, in a TREC qrels file. Each change locks and rewrites the file.

    Raises:
        DataError: the file is not a qrels file. UsageError: it is a dataset's qrels file in BEIR format.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._alone = threading.Lock()
        self._known = _read(path)
        if self._known and _is_of_beir(path):
            raise errors.UsageError(
                f"{path}: is in BEIR format, and marks would replace it in TREC format; choose another file"
            )

    def of(self, query_id: str) -> frozenset[str]:
        """Return the ids of the documents marked as relevant to a query."""
        return frozenset(doc_id for doc_id, relevance in self._known.get(query_id, {}).items() if relevance > 0)

    def all(self) -> list[tuple[str, str]]:
        """Return the pair (query id, document id) of each mark, in file order."""
        return [
            (query_id, doc_id)
            for query_id, judged in list(self._known.items())
            for doc_id, relevance in list(judged.items())
            if relevance > 0
        ]

    def set(self, query_id: str, doc_id: str, relevant: bool) -> None:
        """Mark a document as relevant, or remove its mark if `relevant` is false, and write the file.

        Raises:
            DataError: the file is no longer a qrels file.
        """
        with self._held():
            known = _read(self.path)
            judged = known.setdefault(query_id, {})
            if relevant:
                judged[doc_id] = max(1, judged.get(doc_id, 1))
            else:
                judged.pop(doc_id, None)
            rows = (Judgement(name, doc, value) for name, grades in known.items() for doc, value in grades.items())
            qrels_files.write_qrels(self.path, rows)
            self._known = known

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Lock the file against other threads and processes."""
        with self._alone:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path.with_name(f".{self.path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                yield
            finally:
                os.close(handle)


def _read(path: Path) -> dict[str, dict[str, int]]:
    return qrels_files.read_qrels(path) if path.exists() and path.stat().st_size else {}


def _is_of_beir(path: Path) -> bool:
    """Return whether the lines have three columns, as in BEIR format."""
    with path.open("rb") as file:
        return len(file.readline().split()) == 3
