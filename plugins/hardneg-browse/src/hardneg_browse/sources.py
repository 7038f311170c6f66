"""The files behind a page by label: those of a finished recipe, given ones, and what is named beside them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hardneg.plugin import StoredCollection, errors, given, layout, recipes, run_files, sessions, stores

MARKS = ".marks.qrels"
_DATASET = "dataset"
_LOCK = "recipe.lock.yaml"


@dataclass(frozen=True)
class BrowseSources:
    """Files by label.

    title: of the page. marks: the file of marks. negatives: mined ones; dropped: the drops of their miners.
    runs: ranked lists of the same queries. dataset: the folder of the stored collection, for texts and judgements;
    split: that of the queries.
    """

    title: str
    marks: Path
    negatives: Mapping[str, Path] = field(default_factory=dict)
    dropped: Mapping[str, Path] = field(default_factory=dict)
    runs: Mapping[str, Path] = field(default_factory=dict)
    dataset: Path | None = None
    split: str = "train"

    @property
    def reads(self) -> list[Path]:
        """All files that are read."""
        return [*self.negatives.values(), *self.dropped.values(), *self.runs.values()]


def of_run_folder(folder: Path, store: stores.Store, split: str | None = None) -> BrowseSources:
    """The artifacts of a finished recipe in the store; `split`: by default that of its first negatives.

    Queries of a stage that writes some have ids and texts of their own: what is of another collection than the first
    negatives, or without any the first runs, is left out.

    Raises:
        DataError: it is no run folder, or the store has none of its steps.
        UsageError: nothing of it can be looked at.
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
        message = f"{folder}: no step of it mined negatives or ranked queries of split {wanted}; name {{split}}"
        raise errors.UsageError(message, "split")
    files = {name: item.path / layout.NEGATIVES for name, item in negatives.items()}
    drops = {name: item.path / layout.DROPPED for name, item in negatives.items()}
    dropped = {name: path for name, path in drops.items() if path.is_file()}
    marks = folder.with_name(folder.name + MARKS)
    return BrowseSources(folder.name, marks, files, dropped, runs, dataset, wanted)


def of_files(paths: list[Path], split: str) -> BrowseSources:
    """Files of negatives (`.arrow`) and runs, each under its name.

    Raises:
        UsageError: two of them have the same name.
    """
    labels = [path.name.removesuffix(".gz").removesuffix(path.suffix) or path.name for path in paths]
    labels = [label.removesuffix(".trec") for label in labels]
    if twice := {label for label in labels if labels.count(label) > 1}:
        raise errors.UsageError(f"{', '.join(sorted(twice))}: two files of that name; give one of them another")
    named = dict(zip(labels, paths, strict=True))
    negatives = {label: path for label, path in named.items() if path.suffix == ".arrow"}
    runs = {label: path for label, path in named.items() if path.suffix != ".arrow"}
    marks = paths[0].with_name(labels[0] + MARKS)
    return BrowseSources(", ".join(labels), marks, negatives=negatives, runs=runs, split=split)


def _split(item: Any) -> str | None:
    """The split of a step; None where its verb has none."""
    split = item.origin["options"].get("split")
    return split if isinstance(split, str) else None


def _is_of(item: Any, key: str | None) -> bool:
    """Whether a step reads the collection with this key, is it, or reads none itself."""
    return key in (item.key, item.origin["inputs"].get(_DATASET, key))


def _is_run_of(item: Any, split: str) -> bool:
    there = (item.path / layout.RUN).is_file() and not (item.path / layout.QUERIES).exists()
    return there and _split(item) in (None, split) and item.origin["options"].get("text_of") in (None, "query")


def with_others(sources: BrowseSources, runs: Sequence[Path] = (), dropped: Path | None = None) -> BrowseSources:
    """The sources with runs, and a file of drops beside them.

    Raises:
        UsageError: one of them is no run, has the name of another one, or is of no negatives.
    """
    if dropped is not None:
        if not sources.negatives:
            raise errors.UsageError("{dropped}: goes with a file of negatives", "dropped")
        sources = replace(sources, dropped={**sources.dropped, next(iter(sources.negatives)): dropped})
    more = of_files(list(runs), sources.split) if runs else sources
    if runs and (wrong := [*more.negatives, *(label for label in more.runs if label in sources.runs)]):
        raise errors.UsageError(f"{{runs}} {wrong[0]}: is no run, or its name is that of another one", "runs")
    return replace(sources, runs={**sources.runs, **more.runs})


def path_sources(paths: Sequence[Path], dataset: Any, split: str | None, session: sessions.Session) -> BrowseSources:
    """The files of a finished recipe's folder, or these files.

    Raises:
        UsageError: a file is not there, or the arguments do not go together.
    """
    folders = [path for path in paths if path.is_dir()]
    if not folders:
        if missing := [path for path in paths if not path.is_file()]:
            raise errors.UsageError(f"{missing[0]}: no such file; give a finished recipe's folder, negatives or runs")
        files = of_files(list(paths), split or "train")
        if dataset is None:
            return files
        stages = {"negatives": {"stage": "mine", "miner": "random"}}  # which is never made: a recipe has one at least
        tree = {"dataset": given.named_dataset(dataset, session.store), "model": {"name": "none"}, "stages": stages}
        plan = recipes.make_plan(sessions.checked_tree(tree, (), "hardneg browse"))
        return replace(files, dataset=session.make(plan, _DATASET).artifacts[_DATASET].path)
    if len(paths) > 1:
        raise errors.UsageError("browse: give one folder alone, or files; to compare with a run, add {runs}", "runs")
    if dataset is not None:
        raise errors.UsageError("{dataset}: a finished recipe's folder knows its own; leave it out", "dataset")
    if not (folders[0] / _LOCK).is_file():
        raise errors.UsageError(
            f"{folders[0]}: holds no finished recipe; give the folder that `recipe run` wrote, or files"
        )
    return of_run_folder(folders[0], session.store, split)


def mined_sources(mined: Any) -> BrowseSources:
    """The files of a result of `hardneg.mine`; marks go into the working folder."""
    dropped = {mined.name: mined.folder / layout.DROPPED} if (mined.folder / layout.DROPPED).is_file() else {}
    return BrowseSources(
        mined.name,
        Path(f"{mined.name}.marks.qrels"),
        negatives={mined.name: mined.path},
        dropped=dropped,
        dataset=mined.source.collection.folder,
        split=mined.source.split,
    )
