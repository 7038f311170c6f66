"""`hardneg encode`, `search` and `train`: one stage and what it needs, published as plain files."""

from pathlib import Path
from typing import Any

import typer

from hardneg.cli import completion, lines
from hardneg.cli.devices import DEVICE
from hardneg.cli.outputs import OVERWRITE
from hardneg.cli.panels import WRITTEN
from hardneg.cli.stores import STORE
from hardneg.errors import UsageError

_LISTED, _LISTED_RUN = "candidates-index", "candidates"
INDEXES = completion.plugins("indexes")
DEPTH = typer.Option(100, min=1, help="How many documents for each query.")


def encode(
    dataset: str = lines.DATASET,
    model: str = lines.MODEL,
    output: Path = typer.Option(..., "--output", "-o", help="The folder to write.", rich_help_panel=WRITTEN),
    overwrite: bool = OVERWRITE,
    settings: list[str] = lines.SET,
    store: Path | None = STORE,
    device: str | None = DEVICE,
    processes: int | None = lines.PROCESSES,
) -> None:
    """Encode a corpus into a dense index that Pyserini's FaissSearcher opens.

    Example: hardneg encode --dataset beir:FOLDER --model NAME --output index
    """
    tree = lines.line(dataset, model, {lines.ENCODED: {"stage": "encode"}})
    made = lines.Publication("encode", lines.ENCODED, output, overwrite=overwrite)
    made.make(tree, settings, lines.Place(store, device, processes))


def search(
    dataset: str = lines.DATASET,
    model: str | None = typer.Option(None, "--model", help="A folder, a hub id, or packaged:all-MiniLM-L6-v2."),
    backend: str | None = typer.Option(
        None, "--backend", help="An index over texts instead of a model, such as bm25.", autocompletion=INDEXES
    ),
    split: str = typer.Option("test", help="The queries' split."),
    depth: int = DEPTH,
    candidates: str | None = typer.Option(
        None, help="An index over texts, such as bm25: rank only its best documents.", autocompletion=INDEXES
    ),
    output: Path = typer.Option(..., "--output", "-o", help="The run to write, NAME.trec.gz.", rich_help_panel=WRITTEN),
    overwrite: bool = OVERWRITE,
    settings: list[str] = lines.SET,
    store: Path | None = STORE,
    device: str | None = DEVICE,
    processes: int | None = lines.PROCESSES,
) -> None:
    """Search a corpus for the queries of one split and write a TREC run.

    Example: hardneg search --dataset beir:FOLDER --model NAME --split test --output run.trec.gz
    """
    from hardneg.stages.search import RUN

    if (model is None) == (backend is None):
        raise UsageError("search: give --model NAME or --backend NAME, one of them")
    if candidates is not None and model is None:
        raise UsageError("search: --candidates are ranked by a model: give --model NAME")
    lines.check_run(output)
    searched = {"stage": "search", "split": split, "depth": depth}
    stages: dict[str, Any] = {
        lines.ENCODED: {"stage": "encode"} if model else {"stage": "index", "backend": backend},
        lines.SEARCHED: {**searched, "index": lines.ENCODED},
    }
    if candidates is not None:
        stages[_LISTED] = {"stage": "index", "backend": candidates}
        stages[_LISTED_RUN] = {**searched, "index": _LISTED}
        stages[lines.SEARCHED]["candidates"] = _LISTED_RUN
    made = lines.Publication("search", lines.SEARCHED, output, RUN, overwrite)
    made.make(lines.line(dataset, model, stages), settings, lines.Place(store, device, processes))


def train(
    dataset: str = lines.DATASET,
    model: str = lines.MODEL,
    miner: str = typer.Option(
        "topk", help="A miner; `hardneg plugins list` shows them.", autocompletion=completion.plugins("miners")
    ),
    option: list[str] = typer.Option([], metavar="KEY=VALUE", help="An option of the miner, such as depth=50."),
    loss: str = typer.Option(
        "star", help="A loss; `hardneg plugins list` shows them.", autocompletion=completion.plugins("losses")
    ),
    train_option: list[str] = typer.Option([], metavar="KEY=VALUE", help="One of training, such as max_steps=200."),
    split: str = typer.Option("train", help="The queries' split."),
    depth: int = typer.Option(210, min=1, help="How many documents to search for each query."),
    output: Path = typer.Option(..., "--output", "-o", help="The folder to write.", rich_help_panel=WRITTEN),
    overwrite: bool = OVERWRITE,
    settings: list[str] = lines.SET,
    store: Path | None = STORE,
    device: str | None = DEVICE,
    processes: int | None = lines.PROCESSES,
) -> None:
    """Train a model on negatives that it mines first; SentenceTransformer(FOLDER) opens the result.

    Example: hardneg train --dataset beir:FOLDER --model NAME --train-option max_steps=500 --output model
    """
    from hardneg.stages.opening import MODEL_FOLDER

    stages: dict[str, Any] = {
        lines.ENCODED: {"stage": "encode"},
        lines.SEARCHED: {"stage": "search", "index": lines.ENCODED, "split": split, "depth": depth},
        lines.MINED: {
            "stage": "mine",
            "runs": {"dense": lines.SEARCHED},
            "split": split,
            "miner": {"name": miner, **lines.options(option)},
        },
        lines.TRAINED: {
            "stage": "train",
            "negatives": lines.MINED,
            "loss": loss,
            "options": lines.options(train_option),
        },
    }
    made = lines.Publication("train", lines.TRAINED, output, MODEL_FOLDER, overwrite)
    made.make(lines.line(dataset, model, stages), settings, lines.Place(store, device, processes))
