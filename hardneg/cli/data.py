"""`hardneg data`: which datasets can be read, what one holds, and what is wrong with it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hardneg.api.adhoc_recipe import AdhocRecipe
from hardneg.cli import completion
from hardneg.cli.console import Bars, aligned, bars, say, say_answer
from hardneg.cli.options import JSON, STORE, output, tell_once
from hardneg.cli.planned_work import free_bytes, opened
from hardneg.records.errors import DataError
from hardneg.records.wording import counted, size

if TYPE_CHECKING:
    from hardneg.datasets.fetching import Published
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
    from hardneg.registry.plugin_help import plugin_summary
    from hardneg.registry.plugins import list_plugins

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
    from hardneg.api.single_stage import make_dataset
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

    recipe = AdhocRecipe("data check", dataset, settings=settings).check(tell_once)
    loader = recipe.plugins[STAGE, "loader"]
    folder = Path(str(getattr(loader, "source", ""))).expanduser()
    findings = Findings(Contents(), folder if getattr(loader, "source", "") and folder.is_dir() else None)
    findings.take(problems_of(parts_of(loader.load()), bars(), findings.contents), limit)
    say_answer(findings.as_json(), findings.lines(), as_json)
    if findings.errors:
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
    from hardneg.datasets.fetching import find_published

    folder = output or Path("data") / name
    published = find_published(name)
    _fetch_all(published, folder, bars())
    say(f"--dataset {published.loader}:{folder}")


def _fetch_all(published: "Published", folder: Path, bars: Bars) -> None:
    """Brings all files of a dataset, one line each.

    Raises:
        DataError: the disk has no room, or a file cannot be had; what was finished is kept.
    """
    from hardneg.datasets.fetching import fetch as fetch_file

    wanted = sum(file.bytes * (_UNPACKED if file.members else 1) for file in published.files)
    if not folder.exists() and wanted > (free := free_bytes(folder)):
        shortage = f"{size(wanted)} are needed, {size(free)} are free"
        raise DataError(f"{folder}: {shortage}; choose another folder with --output")
    bars.note(f"into {folder}; the terms of use: {published.terms}")
    for file in published.files:
        new = fetch_file(file, folder, bars)
        bars.note(f"{file.name}: {'fetched, as published' if new else 'there already, as published'}")


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


@dataclass
class Findings:
    """Problems counted by category, the first of each kept, and what was read.

    folder: where the dataset's files are, if it is of files.
    """

    contents: "Contents"
    folder: Path | None = None
    counts: Counter[tuple[str, bool]] = field(default_factory=Counter)
    first: dict[tuple[str, bool], list["Problem"]] = field(default_factory=dict)

    def take(self, problems: Iterable["Problem"], limit: int) -> None:
        """Counts all, and keeps `limit` of each category."""
        for problem in problems:
            key = problem.category, problem.warning
            self.counts[key] += 1
            if self.counts[key] <= limit:
                self.first.setdefault(key, []).append(problem)

    @property
    def errors(self) -> int:
        """How many problems are no mere warnings."""
        return sum(count for (_, warning), count in self.counts.items() if not warning)

    @property
    def warnings(self) -> int:
        """How many problems are warnings."""
        return sum(self.counts.values()) - self.errors

    def as_json(self) -> dict[str, Any]:
        """All of it, as JSON holds it."""
        problems = [
            {"kind": key[0], "warning": key[1], "count": count, "first": list(map(asdict, self.first.get(key, [])))}
            for key, count in self.counts.items()
        ]
        read = {
            "documents": self.contents.documents,
            "splits": {split: asdict(part) for split, part in self.contents.splits.items()},
            "queries without judgements": self.contents.unjudged,
            "files": self._named(self.contents.files()),
            "files not read": self._named(self._not_read()),
        }
        return {"errors": self.errors, "warnings": self.warnings, "kinds": problems, "read": read}

    def lines(self) -> Iterator[str]:
        """All of it, for a person."""
        for key, count in sorted(self.counts.items(), key=lambda item: item[0][1]):
            category, warning = key
            yield f"{'warning' if warning else 'error'}: {category}: {count:,}"
            printed = self.first.get(key, [])
            yield from (f"  {problem}" for problem in printed)
            if count > len(printed):
                yield f"  and {count - len(printed):,} more; --limit {count} prints all"
        yield f"read: {counted(self.contents.documents, 'document')}"
        for split, part in self.contents.splits.items():
            judged = {"relevant": part.relevant, "zero": part.zero, "below zero": part.negative}
            parts = ", ".join(f"{count:,} {name}" for name, count in judged.items() if count or name != "below zero")
            judgements = counted(sum(judged.values()), "judgement")
            yield f"  {split}: {counted(part.queries, 'query', 'queries')}, {judgements} ({parts})"
        if self.contents.unjudged:
            yield f"  {counted(self.contents.unjudged, 'query', 'queries')} that no judgement names"
        if files := self._named(self.contents.files()):
            yield f"files read: {_few(files)}"
        if others := self._named(self._not_read()):
            yield f"files not read: {_few(others)}"
        yield f"{counted(self.errors, 'error')}, {counted(self.warnings, 'warning')}"

    def _not_read(self) -> list[Path]:
        return self.contents.not_read(self.folder) if self.folder else []

    def _named(self, paths: Iterable[Path]) -> list[str]:
        """The paths, relative to the folder where they are in it."""
        root = self.folder
        return [str(path.relative_to(root) if root and path.is_relative_to(root) else path) for path in paths]


def _few(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_FILES:,} more" if len(names) > _MOST_FILES else ""
    return ", ".join(names[:_MOST_FILES]) + more
