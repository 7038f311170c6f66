"""The commands `hardneg data check` and `hardneg data fetch`."""

import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from hardneg.plugin import errors, recipes, records, source_files, terminal
from hardneg_datasets.check import check
from hardneg_datasets.fetching import fetch, find_published
from hardneg_datasets.problems import Contents, Problem

_MOST_FILES = 20
_UNPACKED = 4  # archives of texts expand about three times, and stay


def check_dataset(
    dataset: str = typer.Argument(help="Dataset to check: beir:FOLDER, documents:FOLDER, hf:ID or another."),
    settings: list[str] = typer.Option(
        [], "--set", metavar="PATH=VALUE", help="An option of the loader, such as dataset.url=true."
    ),
    limit: int = typer.Option(10, min=0, help="Number of problems to print per category; all are counted."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON and nothing else."),
) -> None:
    """Report every mistake in a dataset with its file and line; exit with code 4 if there are errors.

    Errors stop a run, are skipped, or distort results; warnings are accepted.

    Example: hardneg data check beir:scifact
    """
    stages = {"negatives": {"stage": "mine", "miner": "random"}}
    tree = {"dataset": dataset, "model": {"name": "none"}, "stages": stages}
    changed, problems = recipes.apply_settings(tree, settings)
    checked = recipes.check_recipe(changed, Path("hardneg data check"), earlier=problems)
    loader = checked.plugins["dataset", "loader"]
    folder, contents = Path(str(getattr(loader, "source", ""))).expanduser(), Contents()
    found = _counted(check(source_files.parts_of(loader.load()), terminal.Bars(), contents), limit)
    found["read"] = _read(contents, folder if getattr(loader, "source", "") and folder.is_dir() else None)
    terminal.say(json.dumps(found, indent=1) if as_json else "\n".join(_findings(found)))
    if found["errors"]:
        raise typer.Exit(errors.DataError.exit_code)


def fetch_dataset(
    name: str = typer.Argument(help="Dataset to download: msmarco-passage, msmarco-document or nq."),
    output: Path | None = typer.Option(None, "--output", "-o", help="Folder to write; default data/NAME."),
) -> None:
    """Download a dataset's published files, resuming if interrupted; verify each by digest or number of lines.

    Example: hardneg data fetch msmarco-passage
    """
    folder = output or Path("data") / name
    known = find_published(name)
    wanted = sum(file.bytes * (_UNPACKED if file.members else 1) for file in known.files)
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if there != folder.absolute() and wanted > (free := shutil.disk_usage(there).free):
        shortage = f"needs {records.size(wanted)}, but only {records.size(free)} are free"
        raise errors.DataError(f"{folder}: {shortage}; choose another folder with --output")
    progress = terminal.Bars()
    progress.note(f"downloading into {folder}; terms of use: {known.terms}")
    for file in known.files:
        new = fetch(file, folder, progress)
        progress.note(f"{file.name}: {'downloaded and verified' if new else 'already downloaded, verified'}")
    terminal.say(f"--dataset {known.loader}:{folder}")


def _counted(problems: Iterable[Problem], limit: int) -> dict[str, Any]:
    """Return the counts of problems by category, with the first `limit` of each."""
    counts, first = Counter[tuple[str, bool]](), defaultdict[tuple[str, bool], list[dict[str, Any]]](list)
    for problem in problems:
        key = problem.category, problem.warning
        counts[key] += 1
        if counts[key] <= limit:
            first[key].append(asdict(problem))
    kinds = [{"kind": key[0], "warning": key[1], "count": counts[key], "first": first[key]} for key in counts]
    warnings = sum(count for (_, warning), count in counts.items() if warning)
    return {"errors": counts.total() - warnings, "warnings": warnings, "kinds": kinds}


def _read(contents: Contents, folder: Path | None) -> dict[str, Any]:
    """Summarize the contents. folder: the dataset's folder, if it has one; file names are relative to it."""

    def named(paths: Iterable[Path]) -> list[str]:
        return [str(path.relative_to(folder) if folder and path.is_relative_to(folder) else path) for path in paths]

    return {
        "documents": contents.documents,
        "splits": {split: asdict(part) for split, part in contents.splits.items()},
        "queries without judgements": contents.unjudged,
        "files": named(contents.files()),
        "files not read": named(contents.not_read(folder) if folder else ()),
    }


def _findings(found: Mapping[str, Any]) -> Iterator[str]:
    for kind in sorted(found["kinds"], key=lambda kind: bool(kind["warning"])):
        yield f"{'warning' if kind['warning'] else 'error'}: {kind['kind']}: {kind['count']:,}"
        yield from (f"  {Problem(**problem)}" for problem in kind["first"])
        if (more := kind["count"] - len(kind["first"])) > 0:
            yield f"  and {more:,} more; --limit {kind['count']} prints all"
    read = found["read"]
    yield f"read: {records.counted(read['documents'], 'document')}"
    for split, part in read["splits"].items():
        judged = {"relevant": part["relevant"], "zero": part["zero"], "below zero": part["negative"]}
        parts = ", ".join(f"{count:,} {name}" for name, count in judged.items() if count or name != "below zero")
        judgements = records.counted(sum(judged.values()), "judgement")
        yield f"  {split}: {records.counted(part['queries'], 'query', 'queries')}, {judgements} ({parts})"
    if unjudged := read["queries without judgements"]:
        yield f"  {records.counted(unjudged, 'query', 'queries')} without judgements"
    for what, key in (("files read", "files"), ("files not read", "files not read")):
        if names := read[key]:
            more = f" and {len(names) - _MOST_FILES:,} more" if len(names) > _MOST_FILES else ""
            yield f"{what}: {', '.join(names[:_MOST_FILES])}{more}"
    yield f"{records.counted(found['errors'], 'error')}, {records.counted(found['warnings'], 'warning')}"
