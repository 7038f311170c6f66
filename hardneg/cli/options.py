"""What several commands share: their options, and their groups in help."""

import os
from pathlib import Path
from typing import Any

import typer

from hardneg.api.workplace import usual_store
from hardneg.artifacts import Store
from hardneg.cli import completion
from hardneg.cli.console import say
from hardneg.cli.launch import ASKED
from hardneg.distributed import world

RECIPES = "Recipes"
STAGES = "Single stages, on plain files"
RESULTS = "Results"
AROUND = "What there is"

WRITTEN = "What is written"
TUNING = "Tuning"
MACHINE = "Where it runs"

JSON = typer.Option(False, "--json", help="Print JSON and nothing else.")
DATASET = typer.Option(
    ...,
    "--dataset",
    help="beir:FOLDER, msmarco:FOLDER, hf:ID, pydocs, or a plugin's name.",
    autocompletion=completion.plugins("datasets"),
)
_MODEL = "A folder, a hub id, or packaged:all-MiniLM-L6-v2."
MODEL = typer.Option(..., "--model", help=_MODEL)
DATASET_OR_OTHER = typer.Option(
    None, "--dataset", help="As in the other commands.", autocompletion=completion.plugins("datasets")
)
INDEX_GIVEN = typer.Option(None, "--index", help="With --query-vectors: a dense index folder, in place of a model.")
QUERY_VECTORS = typer.Option(
    None, "--query-vectors", help="The queries' vectors: Parquet, JSON Lines, or a .npy array with --query-ids."
)
QUERY_IDS = typer.Option(None, "--query-ids", help="The ids of the vectors of a .npy array, one a line.")
MODEL_OR_OTHER = typer.Option(None, "--model", help=_MODEL)
MINER = typer.Option(
    "topk", help="A miner; `hardneg plugins list` shows them.", autocompletion=completion.plugins("miners")
)
MINED_DEPTH = typer.Option(210, min=1, help="How many documents to search for each query.")
TEST_SPLIT = typer.Option("test", help="The queries' split.")
TRAIN_SPLIT = typer.Option("train", help="The queries' split.")
SET = typer.Option([], "--set", metavar="PATH=VALUE", help="Any value of the line, such as model.document_length=256.")
OVERWRITE = typer.Option(
    False, "--overwrite", help="Replace what is there, whatever it is, unless it is read.", rich_help_panel=WRITTEN
)
PROCESSES = typer.Option(
    None,
    "--num-processes",
    min=1,
    help="Run in N processes: on N shares of the cores, or N GPUs.",
    rich_help_panel=MACHINE,
)


def path_of(given: str) -> Path | None:
    """A path; an empty text, such as a variable that is not set, is the usual place."""
    return Path(given) if str(given) else None


STORE = typer.Option(
    None,
    "--store",
    parser=path_of,
    metavar="PATH",
    help="The artifact store; default, and where it is empty, $HARDNEG_STORE, else ~/.cache/hardneg/store.",
    show_default=False,
    rich_help_panel=MACHINE,
)


def output(written: str, default: Any = ...) -> Any:
    """`--output`, of a command that writes this."""
    return typer.Option(default, "--output", "-o", help=written, rich_help_panel=WRITTEN)


OUTPUT_FOLDER = output("The folder to write.")
OUTPUT_RUN = output("The run to write, NAME.trec.gz.")
OUTPUT_FILE = output("The file to write; its ending goes with the form.")
OUTPUTS = {"folder": OUTPUT_FOLDER, "run": OUTPUT_RUN, "negatives": OUTPUT_FILE}
"""By what a line writes."""


def key_values(meaning: str, panel: str | None = None) -> Any:
    """An option that is given once for each KEY=VALUE; panel: its group in help."""
    return typer.Option([], metavar="KEY=VALUE", help=meaning, rich_help_panel=panel)


MINER_OPTION = key_values("An option of the miner, such as depth=50.")


def checked_device(context: typer.Context, device: str | None) -> str | None:
    """The device as given.

    Raises:
        UsageError: there is none of that name here.
    """
    if device is not None and not context.resilient_parsing:
        from hardneg.encoders.devices import check_device

        check_device(device)
    return device


DEVICE = typer.Option(
    None,
    "--device",
    callback=checked_device,
    help="cpu, cuda, cuda:1, mps; default: the best there is.",
    show_default=False,
    rich_help_panel=MACHINE,
    autocompletion=completion.words("cpu", "cuda", "mps"),
)


def open_store(path: Path | None) -> Store:
    """The store at `path`, which is told where it is not there yet, or at its usual place.

    Raises:
        ArtifactError: a file is there, or nothing can be.
    """
    store = usual_store(path)
    if path is not None and not store.root.exists() and world().first:
        say(f"note: there is no store at {path} yet; what is made goes there", err=True)
    return store


def tell_once(line: str) -> None:
    """One line on stderr: of several processes only the first says it, or the one that has started them."""
    if world().first and ASKED not in os.environ:
        say(f"hardneg: {line}", err=True)
