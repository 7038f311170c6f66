"""`hardneg encode`, `search` and `train`: one stage and what it needs, published as plain files."""

from pathlib import Path
from typing import Any

import typer

from hardneg.cli import adhoc_recipe, completion
from hardneg.cli.options import DATASET, DEVICE, MODEL, PROCESSES, SET, STORE, WRITTEN
from hardneg.cli.outputs import OVERWRITE
from hardneg.errors import UsageError

_LISTED, _LISTED_RUN = "candidates-index", "candidates"
INDEXES = completion.plugins("indexes")
DEPTH = typer.Option(100, min=1, help="How many documents for each query.")


def encode(
    dataset: str = DATASET,
    model: str = MODEL,
    output: Path = typer.Option(..., "--output", "-o", help="The folder to write.", rich_help_panel=WRITTEN),
    overwrite: bool = OVERWRITE,
    settings: list[str] = SET,
    store: Path | None = STORE,
    device: str | None = DEVICE,
    processes: int | None = PROCESSES,
) -> None:
    """Encode a corpus into a dense index that Pyserini's FaissSearcher opens.

    Example: hardneg encode --dataset beir:FOLDER --model NAME --output index
    """
    tree = adhoc_recipe.tree(dataset, model, {adhoc_recipe.ENCODED: {"stage": "encode"}})
    made = adhoc_recipe.Publication("encode", adhoc_recipe.ENCODED, output, overwrite=overwrite)
    made.make(tree, settings, adhoc_recipe.Place(store, device, processes))


def search(
    dataset: str = DATASET,
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
    settings: list[str] = SET,
    store: Path | None = STORE,
    device: str | None = DEVICE,
    processes: int | None = PROCESSES,
) -> None:
    """Search a corpus for the queries of one split and write a TREC run.

    Example: hardneg search --dataset beir:FOLDER --model NAME --split test --output run.trec.gz
    """
    from hardneg.layout import RUN

    if (model is None) == (backend is None):
        raise UsageError("search: give --model NAME or --backend NAME, one of them")
    if candidates is not None and model is None:
        raise UsageError("search: --candidates are ranked by a model: give --model NAME")
    adhoc_recipe.check_run(output)
    searched = {"stage": "search", "split": split, "depth": depth}
    stages: dict[str, Any] = {
        adhoc_recipe.ENCODED: {"stage": "encode"} if model else {"stage": "index", "backend": backend},
        adhoc_recipe.SEARCHED: {**searched, "index": adhoc_recipe.ENCODED},
    }
    if candidates is not None:
        stages[_LISTED] = {"stage": "index", "backend": candidates}
        stages[_LISTED_RUN] = {**searched, "index": _LISTED}
        stages[adhoc_recipe.SEARCHED]["candidates"] = _LISTED_RUN
    made = adhoc_recipe.Publication("search", adhoc_recipe.SEARCHED, output, RUN, overwrite)
    made.make(adhoc_recipe.tree(dataset, model, stages), settings, adhoc_recipe.Place(store, device, processes))


def train(
    dataset: str = DATASET,
    model: str = MODEL,
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
    settings: list[str] = SET,
    store: Path | None = STORE,
    device: str | None = DEVICE,
    processes: int | None = PROCESSES,
) -> None:
    """Train a model on negatives that it mines first; SentenceTransformer(FOLDER) opens the result.

    Example: hardneg train --dataset beir:FOLDER --model NAME --train-option max_steps=500 --output model
    """
    from hardneg.layout import MODEL_FOLDER

    stages: dict[str, Any] = {
        adhoc_recipe.ENCODED: {"stage": "encode"},
        adhoc_recipe.SEARCHED: {"stage": "search", "index": adhoc_recipe.ENCODED, "split": split, "depth": depth},
        adhoc_recipe.MINED: {
            "stage": "mine",
            "runs": {"dense": adhoc_recipe.SEARCHED},
            "split": split,
            "miner": {"name": miner, **adhoc_recipe.options(option)},
        },
        adhoc_recipe.TRAINED: {
            "stage": "train",
            "negatives": adhoc_recipe.MINED,
            "loss": loss,
            "options": adhoc_recipe.options(train_option),
        },
    }
    made = adhoc_recipe.Publication("train", adhoc_recipe.TRAINED, output, MODEL_FOLDER, overwrite)
    made.make(adhoc_recipe.tree(dataset, model, stages), settings, adhoc_recipe.Place(store, device, processes))
