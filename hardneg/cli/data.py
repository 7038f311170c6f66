"""`hardneg data`: which datasets can be read, what one holds, and what is wrong with it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer

from hardneg.cli import completion
from hardneg.cli.console import aligned, say_answer
from hardneg.cli.options import JSON, STORE, tell_once
from hardneg.cli.packages import PackageGroup
from hardneg.cli.planned_work import opened
from hardneg.functions.adhoc_recipe import AdhocRecipe
from hardneg.registry import list_plugins, plugin_summary

app = typer.Typer(cls=PackageGroup, help="List, show, check and fetch datasets.", no_args_is_help=True)

DATASET = typer.Argument(
    help="beir:FOLDER, documents:FOLDER, hf:ID, pydocs, or a plugin's name.",
    autocompletion=completion.plugins("datasets"),
)
SET = typer.Option([], "--set", metavar="PATH=VALUE", help="An option of the loader, such as dataset.url=true.")


@app.command("list")
def list_(as_json: bool = JSON) -> None:
    """List the loaders of datasets with what each reads; nothing is imported.

    Example: hardneg data list
    """
    rows = [
        {"name": plugin.name, "reads": plugin.problem or plugin_summary(plugin.target), "package": plugin.package}
        for plugin in list_plugins("datasets")
    ]
    origins = ["" if row["package"] == "hardneg" else f"   ({row['package']})" for row in rows]
    say_answer(
        rows, aligned((row["name"], row["reads"] + origin) for row, origin in zip(rows, origins, strict=True)), as_json
    )


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
    from hardneg.formats.collection import StoredCollection
    from hardneg.formats.corpus import document_lengths
    from hardneg.functions.content_store import make_dataset

    plan = AdhocRecipe("data show", dataset, settings=settings).plan(tell_once)
    artifact = make_dataset(plan, opened(store))
    collection = StoredCollection.open(artifact.path)
    facts = {name: artifact.facts.get(name) for name in ("documents", "splits", "notes")}
    shown = {**facts, "words": document_lengths(collection.corpus), "first": _first_rows(collection, limit)}
    say_answer(shown, _described(shown), as_json)


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
        facts = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in counts.items() if count)
        yield f"{split}: {facts or 'nothing'}"
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
