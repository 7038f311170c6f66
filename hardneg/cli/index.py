"""`hardneg index`: indexes over texts, and dense ones from vectors that other programs made."""

from pathlib import Path

import typer

from hardneg.cli import lines
from hardneg.cli.stores import STORE
from hardneg.errors import UsageError

app = typer.Typer(
    help="Indexes over texts, and dense ones from vectors that other programs made.", no_args_is_help=True
)


@app.command()
def build(
    dataset: str = lines.DATASET,
    backend: str = typer.Option("bm25", help="An index over texts; `hardneg plugins list` shows them."),
    option: list[str] = typer.Option([], metavar="KEY=VALUE", help="An option of the index, such as k1=1.2."),
    output: Path = typer.Option(..., "--output", "-o", help="The folder to write."),
    settings: list[str] = lines.SET,
    store: Path | None = STORE,
) -> None:
    """Index the texts of a corpus; with bm25 a Lucene index that Pyserini's LuceneSearcher opens.

    Example: hardneg index build --dataset beir:FOLDER --backend bm25 --output lucene
    """
    stage = {"stage": "index", "backend": {"name": backend, **lines.options(option)}}
    made = lines.Publication("index build", lines.ENCODED, output)
    made.make(lines.line(dataset, None, {lines.ENCODED: stage}), settings, lines.Place(store))


@app.command("import")
def import_(
    output: Path = typer.Option(..., "--output", "-o", help="The folder to write; it must not hold an index."),
    vectors: Path | None = typer.Option(None, "--vectors", help="A .npy array, one row a vector; needs --ids."),
    ids: Path | None = typer.Option(None, "--ids", help="The document ids, one a line, in the order of the rows."),
    embeddings: Path | None = typer.Option(None, "--embeddings", help="Pyserini's embeddings.jsonl instead."),
) -> None:
    """Stream vectors into a flat index that Pyserini's FaissSearcher opens.

    Example: hardneg index import --vectors vectors.npy --ids ids.txt --output index
    """
    from hardneg.artifacts import disk_errors
    from hardneg.cli.console import Bars, stderr_console
    from hardneg.data.vectors_import import import_json_lines, import_npy

    progress = Bars(stderr_console())
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UsageError(f"{output} is there already; give another --output, or remove it")
    aside = output.with_name(output.name + ".partial")
    with disk_errors(output):
        _clear(aside)
        if embeddings is not None and vectors is None and ids is None:
            count, dimension = import_json_lines(embeddings, aside, progress)
        elif embeddings is None and vectors is not None and ids is not None:
            count, dimension = import_npy(vectors, ids, aside, progress)
        else:
            raise UsageError("index import: give --vectors with --ids, or --embeddings")
        if output.exists():
            output.rmdir()
        aside.rename(output)
    typer.echo(f"{output}: {count} vectors of dimension {dimension}")


def _clear(aside: Path) -> None:
    """Removes what an import that did not finish left."""
    for path in (aside / "index", aside / "index.journal", aside / "docid", *aside.glob(".docid.*.tmp")):
        path.unlink(missing_ok=True)
