"""The commands `hardneg plugins` and `hardneg data`: installed plugins, templates for new ones, and datasets."""

import keyword
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from string import Template
from typing import Any

import typer

from hardneg import formats, registry
from hardneg.cli import adaptor, console, planned_work
from hardneg.cli.adaptor import JSON, STORE, output, tell_once
from hardneg.functions.session import AdhocRecipe
from hardneg.records import UsageError
from hardneg.registry import kind_of, list_plugins
from hardneg.store import Target, disk_errors

app = typer.Typer(
    help="List, show and write plugins: datasets, encoders, writers, miners, filters, losses, indexes, rerankers, "
    "stages and analyses.",
    no_args_is_help=True,
)

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

KIND = typer.Argument(help=f"{', '.join(registry.SINGULARS)}, or the plural.", autocompletion=adaptor.complete_kinds)
_WRITTEN = {"dataset": "datasets", "loss": "losses", "miner": "miners", "stage": "stages"}


@app.command("list")
def list_(
    kind: str = typer.Argument("", metavar="[KIND]", help="Only this kind.", autocompletion=adaptor.complete_kinds),
    as_json: bool = JSON,
) -> None:
    """List the installed plugins without importing them.

    Example: hardneg plugins list losses
    """
    plugins = list_plugins(kind_of(kind) if kind else None)
    width = max((len(plugin.name) for plugin in plugins), default=0)
    lines = []
    for group, members in groupby(plugins, key=lambda plugin: plugin.kind):
        lines.append(group)
        for plugin in members:
            note = f"   broken: {plugin.problem}" if plugin.problem else ""
            lines.append(f"  {plugin.name:<{width}}  {plugin.package} {plugin.package_version}{note}")
    console.say_answer([asdict(plugin) for plugin in plugins], lines, as_json)


@app.command()
def show(
    kind: str = KIND,
    name: str = typer.Argument(help="The plugin's name.", autocompletion=adaptor.complete_named_plugins),
) -> None:
    """Show a plugin's purpose, its options with types and defaults, and its package.

    Example: hardneg plugins show loss star
    """
    kind = kind_of(kind)
    plugin = registry.load_plugin(kind, name)
    origin = next(item for item in list_plugins(kind) if item.name == name)
    console.say(f"{name}  ({kind}, version {plugin.version})")
    options = registry.plugin_options(plugin)
    console.say(f"\n{registry.plugin_text(plugin)}\n\n{'Options:' if options else 'No options.'}")
    for option in options:
        default = f" = {option['default']}" if option["default"] else " (required)"
        console.say(f"  {option['name']}: {option['type']}{default}")
        if option["meaning"]:
            console.say(f"      {option['meaning']}")
    console.say(f"\nSource: {origin.package} {origin.package_version}, {origin.target}")


@app.command()
def new(
    kind: str = typer.Argument(help=f"{', '.join(_WRITTEN)}."),
    name: str = typer.Argument(help="The plugin's name: lower-case letters, digits and hyphens."),
    output: Path | None = output("The folder to write; default: hardneg-NAME.", None),
) -> None:
    """Write a package with a working plugin and its tests, as a template for your own.

    Example: hardneg plugins new loss my-loss --output my-loss
    """
    folder = output or Path(f"hardneg-{name}")
    planned_work.store_outputs("plugins new", [Target(folder, folder=True)], [], overwrite=True).check()
    for path in write_package(kind, name, folder):
        console.say(path)
    console.say(f"\nNext: pip install -e '{folder}[dev]' && pytest {folder}", err=True)


def write_package(kind: str, name: str, folder: Path) -> list[Path]:
    """Write the package `hardneg-NAME` into a new or empty folder and return the paths of the written files.

    Raises:
        ArtifactError: the folder cannot be written.
        UsageError: the kind is unknown, the name is invalid or taken, or the folder is not empty.
    """
    kind, others = kind_of(kind), list_plugins(kind_of(kind))
    if kind not in _WRITTEN.values():
        known = f"{', '.join(_WRITTEN)}; for other kinds, see `Write a plugin` in the documentation"
        raise UsageError(f"no template for {kind}; available: {known}")
    singular = next(one for one, many in _WRITTEN.items() if many == kind)
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        form = f"use lower-case letters, digits and single hyphens, and no Python keyword, as in 'my-{singular}'"
        raise UsageError(f"{name!r} is not a valid plugin name; {form}")
    if claimed := {plugin.package for plugin in others if plugin.name == name} - {f"hardneg-{name}"}:
        raise UsageError(f"{name!r}: {', '.join(sorted(claimed))} has a {singular} with this name; choose another name")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder}: exists and is not an empty folder; choose another with --output")
    module, cls = name.replace("-", "_"), "".join(part.capitalize() for part in name.split("-"))
    words = {"kind": kind, "singular": singular, "name": name, "module": module, "cls": cls}
    written = {
        "pyproject.toml": "pyproject.toml",
        "README.md": "README.md",
        f"src/hardneg_{module}/__init__.py": "package.py",
        f"src/hardneg_{module}/{module}.py": f"{kind}.py",
        f"tests/test_{module}.py": f"{kind}_test.py",
    }
    with disk_errors(folder, "--output"):
        for path, template in written.items():
            source = files("hardneg.cli") / "templates" / f"{template}.template"
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(Template(source.read_text("utf-8")).substitute(words), encoding="utf-8")
    return [folder / path for path in written]


data = typer.Typer(help="List, show, check and fetch datasets.", no_args_is_help=True)
_SOURCES = "beir:FOLDER, documents:FOLDER, hf:ID, pydocs, or a plugin's name."
DATASET = typer.Argument(help=_SOURCES, autocompletion=adaptor.complete_plugins("datasets"))
_LOADER = typer.Option([], "--set", metavar="PATH=VALUE", help="An option of the loader, such as dataset.url=true.")


@data.command("list")
def list_datasets(as_json: bool = JSON) -> None:
    """List the dataset loaders and what each one reads, without importing them.

    Example: hardneg data list
    """
    loaders = list_plugins("datasets")
    known = [(each.name, each.problem or registry.plugin_summary(each.target), each.package) for each in loaders]
    pairs = ((name, reads + (f"   ({package})" if package != "hardneg" else "")) for name, reads, package in known)
    rows = [dict(zip(("name", "reads", "package"), each, strict=True)) for each in known]
    console.say_answer(rows, console.aligned(pairs), as_json)


@data.command("show")
def show_dataset(
    dataset: str = DATASET,
    settings: list[str] = _LOADER,
    limit: int = typer.Option(2, min=0, help="Number of documents, and of queries per split, to print."),
    store: Path | None = STORE,
    as_json: bool = JSON,
) -> None:
    """Show the content of a dataset: counts, splits, lengths, first rows, and what was skipped.

    The collection is saved in the store.

    Example: hardneg data show beir:scifact --limit 3
    """
    from hardneg.formats.texts import document_lengths

    plan = AdhocRecipe("data show", dataset, settings=settings).plan(tell_once)
    artifact = planned_work.opened(store).make_dataset(plan)
    collection = formats.collection.StoredCollection.open(artifact.path)
    facts = {name: artifact.facts.get(name) for name in ("documents", "splits", "notes")}
    facts["splits"] = {split: artifact.facts["splits"][split] for split in collection.splits}
    shown = {**facts, "words": document_lengths(collection.corpus), "first": _first_rows(collection, limit)}
    console.say_answer(shown, _described(shown), as_json)


def _first_rows(collection: Any, rows: int) -> dict[str, Any]:
    import numpy as np

    documents = collection.corpus.documents_at(np.arange(min(rows, len(collection.corpus))))
    queries: dict[str, list[dict[str, Any]]] = {}
    for split in collection.splits:
        of_split, answers = collection.queries(split), collection.answers(split)
        pairs = zip(of_split.query_ids[:rows], of_split.texts[:rows], strict=True)
        told = ({"answers": answers[name]} if name in answers else {} for name in of_split.query_ids)
        queries[split] = [{"query_id": name, "text": text, **next(told)} for name, text in pairs]
    return {"documents": [item._asdict() for item in documents], "queries": queries}


def _described(shown: Mapping[str, Any]) -> Iterator[str]:
    lengths = ", ".join(f"{name} {value:,}" for name, value in shown["words"].items())
    yield f"documents: {shown['documents']:,}; words: {lengths}"
    for split, counts in shown["splits"].items():
        named = ("queries", "judgements", "highest_grade", "with_answers")  # the notes have the others
        facts = ", ".join(f"{name.replace('_', ' ')} {counts[name]:,}" for name in named if counts.get(name))
        yield f"{split}: {facts or 'empty'}"
    yield from (f"note: {note}" for note in shown["notes"])
    for document in shown["first"]["documents"]:
        title = f"[{document['title']}] " if document["title"] else ""
        yield f"document {document['doc_id']}: {_short(title + document['text'])}"
    for split, queries in shown["first"]["queries"].items():
        for query in queries:
            answers = f"  = {' | '.join(query['answers'])}" if "answers" in query else ""
            yield f"query {query['query_id']} ({split}): {_short(query['text'] + answers)}"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 160 else f"{text[:159]}…"
