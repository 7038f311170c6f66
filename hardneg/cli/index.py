"""`hardneg index`: indexes over texts and over vectors, and dense ones from vectors that other programs made."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hardneg.atomic_write import replacing_folder
from hardneg.cli import completion
from hardneg.cli.adhoc_recipe import ENCODED, AdhocRecipe, Place, plugin_options
from hardneg.cli.console import bars, say
from hardneg.cli.options import OUTPUT_FOLDER, OVERWRITE, SET, STORE, key_values
from hardneg.cli.outputs import Outputs, Target, store_outputs
from hardneg.errors import UsageError
from hardneg.wording import counted

if TYPE_CHECKING:
    from hardneg.types import PluginSetting

_BUILD = "index build"

app = typer.Typer(
    help="Indexes over texts and over vectors, and dense ones from vectors that other programs made.",
    no_args_is_help=True,
)


@app.command()
def build(
    dataset: str | None = typer.Option(
        None, help="For an index over texts: as in the other commands.", autocompletion=completion.plugins("datasets")
    ),
    vectors: Path | None = typer.Option(None, "--vectors", help="For one over vectors: a flat index folder."),
    backend: str = typer.Option(
        "bm25",
        help="The kind of index; `hardneg plugins list indexes` shows them.",
        autocompletion=completion.plugins("indexes"),
    ),
    option: list[str] = key_values("An option of the index, such as k1=1.2."),
    output: Path = OUTPUT_FOLDER,
    overwrite: bool = OVERWRITE,
    settings: list[str] = SET,
    store: Path | None = STORE,
) -> None:
    """Index the texts of a corpus, or compress the vectors of a dense index; Pyserini's searchers open the result.

    Example: hardneg index build --dataset beir:FOLDER --backend bm25 --output lucene

    Example: hardneg index build --vectors index --backend opq-pq --option subvectors=48 --output small
    """
    from hardneg.registry import load_plugin
    from hardneg.types import PluginSetting

    setting = PluginSetting(backend, plugin_options(option))
    takes = load_plugin("indexes", backend).input
    if (dataset is None) == (vectors is None) or (takes == "vectors") != (vectors is not None):
        wanted = "--vectors FOLDER, a flat index" if takes == "vectors" else "--dataset NAME"
        raise UsageError(f"index build: {backend} is built from {takes}: give {wanted}, and that alone")
    if vectors is not None:
        _compress(vectors, setting, store_outputs(_BUILD, [Target(output, folder=True)], [vectors], overwrite))
        return
    stage = {"stage": "index", "backend": {"name": backend, **setting.options}}
    recipe = AdhocRecipe(_BUILD, str(dataset), {ENCODED: stage}, settings=settings)
    recipe.publish(ENCODED, output, Place(store), overwrite=overwrite)


def _compress(source: Path, setting: "PluginSetting", outputs: Outputs) -> None:
    from hardneg.registry import configure, plugin_errors

    plugin = configure("indexes", setting)
    with _aside(outputs) as folder, plugin_errors([plugin]):
        count = plugin.build(source, folder, bars())
    output = outputs.targets[0].path
    size = (output / "index").stat().st_size if (output / "index").exists() else 0
    say(f"{output}: {counted(count, 'vector')} in {counted(size, 'byte')}")


@app.command("import")
def import_(
    output: Path = OUTPUT_FOLDER,
    overwrite: bool = OVERWRITE,
    vectors: Path | None = typer.Option(None, "--vectors", help="A .npy array, one row a vector; needs --ids."),
    ids: Path | None = typer.Option(None, "--ids", help="The document ids, one a line, in the order of the rows."),
    embeddings: Path | None = typer.Option(None, "--embeddings", help="Pyserini's embeddings.jsonl instead."),
) -> None:
    """Stream vectors into a flat index that Pyserini's FaissSearcher opens.

    Example: hardneg index import --vectors vectors.npy --ids ids.txt --output index
    """
    from hardneg.data.vectors_import import import_json_lines, import_npy

    progress = bars()
    reads = [path for path in (vectors, ids, embeddings) if path is not None]
    with _aside(store_outputs("index import", [Target(output, folder=True)], reads, overwrite)) as folder:
        if embeddings is not None and vectors is None and ids is None:
            count, dimension = import_json_lines(embeddings, folder, progress)
        elif embeddings is None and vectors is not None and ids is not None:
            count, dimension = import_npy(vectors, ids, folder, progress)
        else:
            raise UsageError("index import: give --vectors with --ids, or --embeddings")
    say(f"{output}: {counted(count, 'vector')} of dimension {dimension}")


@contextmanager
def _aside(outputs: Outputs) -> Iterator[Path]:
    """A folder to write, which becomes the output at the end of the block; where that fails, nothing is left of it.

    Raises:
        UsageError: the output is there already, and is not this command's own.
    """
    outputs.check()
    with outputs.laid_out(), replacing_folder(outputs.targets[0].path) as aside:
        yield aside
