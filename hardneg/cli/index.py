"""`hardneg index`: indexes over texts and over vectors, and dense ones from vectors that other programs made."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hardneg.cli import completion, lines
from hardneg.cli.printing import say
from hardneg.cli.stores import STORE
from hardneg.counting import counted
from hardneg.errors import UsageError

if TYPE_CHECKING:
    from hardneg.types import PluginSetting

app = typer.Typer(
    help="Indexes over texts and over vectors, and dense ones from vectors that other programs made.",
    no_args_is_help=True,
)


@app.command()
def build(
    dataset: str | None = typer.Option(
        None,
        "--dataset",
        help="For an index over texts: as in the other commands.",
        autocompletion=completion.plugins("datasets"),
    ),
    vectors: Path | None = typer.Option(None, "--vectors", help="For one over vectors: a flat index folder."),
    backend: str = typer.Option(
        "bm25",
        help="The kind of index; `hardneg plugins list indexes` shows them.",
        autocompletion=completion.plugins("indexes"),
    ),
    option: list[str] = typer.Option([], metavar="KEY=VALUE", help="An option of the index, such as k1=1.2."),
    output: Path = typer.Option(..., "--output", "-o", help="The folder to write."),
    settings: list[str] = lines.SET,
    store: Path | None = STORE,
) -> None:
    """Index the texts of a corpus, or compress the vectors of a dense index; Pyserini's searchers open the result.

    Example: hardneg index build --dataset beir:FOLDER --backend bm25 --output lucene

    Example: hardneg index build --vectors index --backend opq-pq --option subvectors=48 --output small
    """
    from hardneg.registry import load_plugin
    from hardneg.types import PluginSetting

    setting = PluginSetting(backend, lines.options(option))
    takes = load_plugin("indexes", backend).input
    if (dataset is None) == (vectors is None) or (takes == "vectors") != (vectors is not None):
        wanted = "--vectors FOLDER, a flat index" if takes == "vectors" else "--dataset NAME"
        raise UsageError(f"index build: {backend} is built from {takes}: give {wanted}, and that alone")
    if vectors is not None:
        _compress(vectors, setting, output)
        return
    stage = {"stage": "index", "backend": {"name": backend, **setting.options}}
    made = lines.Publication("index build", lines.ENCODED, output)
    made.make(lines.line(str(dataset), None, {lines.ENCODED: stage}), settings, lines.Place(store))


def _compress(source: Path, setting: "PluginSetting", output: Path) -> None:
    from hardneg.cli.console import Bars, stderr_console
    from hardneg.registry import configure, plugin_errors

    plugin = configure("indexes", setting)
    with _aside(output) as folder, plugin_errors([plugin]):
        count = plugin.build(source, folder, Bars(stderr_console()))
    size = (output / "index").stat().st_size if (output / "index").exists() else 0
    say(f"{output}: {counted(count, 'vector')} in {counted(size, 'byte')}")


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
    from hardneg.cli.console import Bars, stderr_console
    from hardneg.data.vectors_import import import_json_lines, import_npy

    progress = Bars(stderr_console())
    with _aside(output) as folder:
        if embeddings is not None and vectors is None and ids is None:
            count, dimension = import_json_lines(embeddings, folder, progress)
        elif embeddings is None and vectors is not None and ids is not None:
            count, dimension = import_npy(vectors, ids, folder, progress)
        else:
            raise UsageError("index import: give --vectors with --ids, or --embeddings")
    say(f"{output}: {counted(count, 'vector')} of dimension {dimension}")


@contextmanager
def _aside(output: Path) -> Iterator[Path]:
    """A folder to write, which becomes `output` at the end of the block.

    Raises:
        UsageError: `output` is there already.
    """
    from hardneg.artifacts import disk_errors

    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UsageError(f"{output} is there already; give another --output, or remove it")
    aside = output.with_name(output.name + ".partial")
    with disk_errors(output):
        _clear(aside)
        try:
            yield aside
        except BaseException:
            _clear(aside)
            with suppress(OSError):  # it is not there, or holds what is not ours
                aside.rmdir()
            raise
        if output.exists():
            output.rmdir()
        aside.rename(output)


def _clear(aside: Path) -> None:
    """Removes what a command that did not finish left."""
    for path in (aside / "index", aside / "index.journal", aside / "docid", *aside.glob(".*.tmp")):
        path.unlink(missing_ok=True)
