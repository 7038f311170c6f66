"""`hardneg data`: which datasets can be read, what one holds, and what is wrong with it."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hardneg.api.adhoc_recipe import AdhocRecipe
from hardneg.cli import completion
from hardneg.cli.console import aligned, bars, say, say_answer
from hardneg.cli.options import JSON, STORE, output, tell_once
from hardneg.cli.planned_work import free_bytes, opened
from hardneg.records.errors import DataError
from hardneg.records.wording import counted, size

if TYPE_CHECKING:
    from hardneg.formats.problems import Contents, Problem

app = typer.Typer(help="List, show, check and fetch datasets.", no_args_is_help=True)

DATASET = typer.Argument(
    help="beir:FOLDER, msmarco:FOLDER, dpr:FOLDER, hf:ID, pydocs, or a plugin's name.",
    autocompletion=completion.plugins("datasets"),
)
SET = typer.Option([], "--set", metavar="PATH=VALUE", help="An option of the loader, such as dataset.url=true.")

_MOST_FILES = 20
_UNPACKED = 4  # an archive of texts unpacks to about three times its size, beside itself


@app.command("list")
def list_(as_json: bool = JSON) -> None:
    """List the loaders of datasets with what each reads; nothing is imported.

    Example: hardneg data list
    """
    from hardneg.registry.plugins import list_plugins, plugin_summary

    rows = [
        {"name": plugin.name, "reads": plugin.problem or plugin_summary(plugin.target), "package": plugin.package}
        for plugin in list_plugins("datasets")
    ]
    origins = ("" if row["package"] == "hardneg" else f"   ({row['package']})" for row in rows)
    lines = aligned((row["name"], row["reads"] + origin) for row, origin in zip(rows, origins, strict=True))
    say_answer(rows, lines, as_json)


@app.command()
def show(
    dataset: str = DATASET,
    settings: list[str] = SET,
    limit: int = typer.Option(2, min=0, help="How many documents, and queries of each split, to print."),
    store: Path | None = STORE,
    as_json: bool = JSON,
) -> None:
    """Show what a dataset holds: counts, splits, lengths, its first rows, and what was left out.

    The collection is kept in the store, as by every command.

    Example: hardneg data show beir:scifact --limit 3
    """
    from hardneg.api.content_store import make_dataset
    from hardneg.formats.collection import StoredCollection
    from hardneg.formats.corpus import document_lengths

    plan = AdhocRecipe("data show", dataset, settings=settings).plan(tell_once)
    artifact = make_dataset(plan, opened(store))
    collection = StoredCollection.open(artifact.path)
    facts = {name: artifact.facts.get(name) for name in ("documents", "splits", "notes")}
    shown = {**facts, "words": document_lengths(collection.corpus), "first": _first_rows(collection, limit)}
    say_answer(shown, _described(shown), as_json)


@app.command()
def check(
    dataset: str = DATASET,
    settings: list[str] = SET,
    limit: int = typer.Option(10, min=0, help="How many problems of each category to print; all are counted."),
    as_json: bool = JSON,
) -> None:
    """Report every mistake of a dataset with its file and line; exit code 4 where there are errors.

    Errors are refused, left out, or make figures wrong; warnings are accepted as they are.

    Example: hardneg data check beir:scifact
    """
    from hardneg.formats.collection_check import check as problems_of
    from hardneg.formats.problems import Contents
    from hardneg.formats.source_files import parts_of
    from hardneg.records.layout import DATASET as STAGE

    loader = AdhocRecipe("data check", dataset, settings=settings).check(tell_once).plugins[STAGE, "loader"]
    folder, contents = Path(str(getattr(loader, "source", ""))).expanduser(), Contents()
    found = _counted(problems_of(parts_of(loader.load()), bars(), contents), limit)
    found["read"] = _read(contents, folder if getattr(loader, "source", "") and folder.is_dir() else None)
    say_answer(found, _findings(found), as_json)
    if found["errors"]:
        raise typer.Exit(DataError.exit_code)


@app.command()
def fetch(
    name: str = typer.Argument(
        help="msmarco-passage, msmarco-document or nq.",
        autocompletion=completion.words("msmarco-passage", "msmarco-document", "nq"),
    ),
    output: Path | None = output("The folder; default data/NAME.", None),
) -> None:
    """Download a dataset's published files, resuming where it stopped, and check the size and digest of each.

    Example: hardneg data fetch msmarco-passage
    """
    from hardneg.datasets.fetching import fetch as fetch_file
    from hardneg.datasets.fetching import find_published

    folder = output or Path("data") / name
    published = find_published(name)
    wanted = sum(file.bytes * (_UNPACKED if file.members else 1) for file in published.files)
    if not folder.exists() and wanted > (free := free_bytes(folder)):
        shortage = f"{size(wanted)} are needed, {size(free)} are free"
        raise DataError(f"{folder}: {shortage}; choose another folder with --output")
    told = bars()
    told.note(f"into {folder}; the terms of use: {published.terms}")
    for file in published.files:
        new = fetch_file(file, folder, told)
        told.note(f"{file.name}: {'fetched, as published' if new else 'there already, as published'}")
    say(f"--dataset {published.loader}:{folder}")


def _first_rows(collection: Any, rows: int) -> dict[str, Any]:
    import numpy as np

    documents = collection.corpus.documents_at(np.arange(min(rows, len(collection.corpus))))
    part: dict[str, Any] = {"documents": [item._asdict() for item in documents], "queries": {}}
    for split in collection.splits:
        queries, answers = collection.queries(split), collection.answers(split)
        part["queries"][split] = [
            {"query_id": name, "text": text, **({"answers": answers[name]} if name in answers else {})}
            for name, text in zip(queries.query_ids[:rows], queries.texts[:rows], strict=True)
        ]
    return part


def _described(shown: Mapping[str, Any]) -> Iterator[str]:
    lengths = ", ".join(f"{name} {value:,}" for name, value in shown["words"].items())
    yield f"documents: {shown['documents']:,}; words: {lengths}"
    for split, counts in shown["splits"].items():
        facts = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in counts.items() if count)
        yield f"{split}: {facts or 'nothing'}"
    for note in shown["notes"]:
        yield f"note: {note}"
    for document in shown["first"]["documents"]:
        title = f"[{document['title']}] " if document["title"] else ""
        yield f"document {document['doc_id']}: {_short(title + document['text'])}"
    for split, queries in shown["first"]["queries"].items():
        for query in queries:
            answers = f"  = {' | '.join(query['answers'])}" if "answers" in query else ""
            yield f"query {query['query_id']} ({split}): {_short(query['text'] + answers)}"


def _short(text: str, width: int = 160) -> str:
    text = " ".join(text.split())
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _counted(problems: Iterable["Problem"], limit: int) -> dict[str, Any]:
    """Problems counted by category, the first `limit` of each kept."""
    counts, first = Counter[tuple[str, bool]](), defaultdict[tuple[str, bool], list[dict[str, Any]]](list)
    for problem in problems:
        key = problem.category, problem.warning
        counts[key] += 1
        if counts[key] <= limit:
            first[key].append(asdict(problem))
    kinds = [{"kind": key[0], "warning": key[1], "count": counts[key], "first": first[key]} for key in counts]
    warnings = sum(count for (_, warning), count in counts.items() if warning)
    return {"errors": counts.total() - warnings, "warnings": warnings, "kinds": kinds}


def _read(contents: "Contents", folder: Path | None) -> dict[str, Any]:
    """What was read. folder: where the dataset's files are, if it is of files, which are named relative to it."""

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
    from hardneg.formats.problems import Problem

    for kind in sorted(found["kinds"], key=lambda kind: bool(kind["warning"])):
        yield f"{'warning' if kind['warning'] else 'error'}: {kind['kind']}: {kind['count']:,}"
        yield from (f"  {Problem(**problem)}" for problem in kind["first"])
        if (more := kind["count"] - len(kind["first"])) > 0:
            yield f"  and {more:,} more; --limit {kind['count']} prints all"
    read = found["read"]
    yield f"read: {counted(read['documents'], 'document')}"
    for split, part in read["splits"].items():
        judged = {"relevant": part["relevant"], "zero": part["zero"], "below zero": part["negative"]}
        parts = ", ".join(f"{count:,} {name}" for name, count in judged.items() if count or name != "below zero")
        judgements = counted(sum(judged.values()), "judgement")
        yield f"  {split}: {counted(part['queries'], 'query', 'queries')}, {judgements} ({parts})"
    if unjudged := read["queries without judgements"]:
        yield f"  {counted(unjudged, 'query', 'queries')} that no judgement names"
    for what, key in (("files read", "files"), ("files not read", "files not read")):
        if names := read[key]:
            more = f" and {len(names) - _MOST_FILES:,} more" if len(names) > _MOST_FILES else ""
            yield f"{what}: {', '.join(names[:_MOST_FILES])}{more}"
    yield f"{counted(found['errors'], 'error')}, {counted(found['warnings'], 'warning')}"
