"""`hardneg index`: the line that builds one, and dense indexes from vectors that other programs made."""

from pathlib import Path

import typer

from hardneg.cli import adaptor, console, planned_work
from hardneg.records.errors import HardnegError
from hardneg.records.wording import counted
from hardneg.store import atomic_write, replaced_files

app = typer.Typer(help="Build indexes over texts or vectors, import vectors of other programs.", no_args_is_help=True)


@app.command("import")
def import_(
    output: Path = adaptor.output("The folder to write."),
    overwrite: bool = adaptor.OVERWRITE,
    vectors: Path = typer.Option(
        ..., help="A .npy array, with --ids; Parquet with ids and lists; or Pyserini's embeddings.jsonl."
    ),
    ids: Path | None = typer.Option(None, "--ids", help="The document ids, one per line, in the order of the rows."),
) -> None:
    """Stream vectors into a flat index that Pyserini's FaissSearcher opens.

    Example: hardneg index import --vectors vectors.npy --ids ids.txt --output index

    Example: hardneg index import --vectors vectors.parquet --output index
    """
    from hardneg.formats.vectors.vectors_import import import_vectors, open_vectors

    reads = [path for path in (vectors, ids) if path is not None]
    outputs = planned_work.store_outputs("index import", [replaced_files.Target(output, folder=True)], reads, overwrite)
    outputs.check()
    with outputs.laid_out(), atomic_write.replacing_folder(output) as folder:
        file = open_vectors(vectors, ids)
        count = import_vectors(file, folder, console.bars())
    console.say(f"{output}: {counted(count, 'vector')} of dimension {file.dimension}")


def pyserini(
    folder: Path = typer.Argument(help="A run folder, or the folder of an index.", show_default=False),
    model: str | None = typer.Option(None, "--model", help="The model that encoded the index, if it is of no run."),
    option: list[str] = typer.Option(
        [], "--option", metavar="KEY=VALUE", help="An option that index was built with, such as scale=51.2 or k1=1.2."
    ),
    check: bool = typer.Option(False, "--check", help="Also run the lines, and report the result."),
    store: Path | None = adaptor.STORE,
) -> None:
    """Print the Python lines that open each index of a run folder, or one index folder, in Pyserini.

    Example: hardneg pyserini runs/star-passage --check

    Example: hardneg pyserini lucene-impacts --model trained --option scale=51.2
    """
    from hardneg.encoders.spec import ModelSpec
    from hardneg.integrations.pyserini import check as run_lines
    from hardneg.integrations.pyserini import openings, with_java

    spec, failed = None if model is None else ModelSpec(model), []
    for name, text in openings(folder, adaptor.open_store(store), spec, adaptor.plugin_options(option)):
        lines = with_java(text)
        console.say(f"# {name}\n{lines}\n")
        if check and (outcome := run_lines(lines)):
            console.say(f"# {outcome}\n")
            failed += [name] if outcome.startswith("fails") else []
    if failed:
        raise HardnegError(f"pyserini: the lines of {', '.join(failed)} fail: `hardneg doctor` shows what is installed")
