"""`hardneg rerank`: the documents of anyone's run, scored anew by a reranker."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import typer

from hardneg.cli import adhoc_recipe, completion
from hardneg.cli.external_run import make_from
from hardneg.cli.options import DATASET, DEVICE, SET, STORE, WRITTEN, open_store
from hardneg.cli.outputs import OVERWRITE, Target
from hardneg.cli.printing import say
from hardneg.counting import counted

if TYPE_CHECKING:
    pass

_RERANKED = "reranked"


def rerank(
    dataset: str = DATASET,
    run: Path = typer.Option(..., "--run", help="The TREC run to take the documents from, plain or gzip."),
    reranker: str = typer.Option(
        ...,
        help="A plugin: cross-encoder:FOLDER or cross-encoder:HUB-ID.",
        autocompletion=completion.plugins("rerankers"),
    ),
    option: list[str] = typer.Option([], metavar="KEY=VALUE", help="An option of the plugin, such as length=256."),
    split: str = typer.Option("test", help="The queries' split."),
    depth: int = typer.Option(100, min=1, help="How many documents of each query to score."),
    output: Path = typer.Option(..., "--output", "-o", help="The run to write, NAME.trec.gz.", rich_help_panel=WRITTEN),
    overwrite: bool = OVERWRITE,
    settings: list[str] = SET,
    store: Path | None = STORE,
    device: str | None = DEVICE,
) -> None:
    """Score the best documents of a run anew, query and document together, and write them as a TREC run.

    Scores are kept by content in the user's cache: the same again, or more of it, is quick.

    Example: hardneg rerank --dataset beir:FOLDER --run run.trec.gz --reranker cross-encoder:MODEL --output best.trec.gz
    """
    from hardneg.atomic_write import link_file
    from hardneg.fields import DATASET
    from hardneg.layout import RUN

    adhoc_recipe.check_run(output)
    stage = {"plugin": _setting(reranker, option), "split": split, "depth": depth}
    plan, opened = adhoc_recipe.plan_tree("hardneg rerank", _tree(dataset, stage), settings), open_store(store)
    outputs = adhoc_recipe.plan_outputs("rerank", plan, opened, [Target(output)], overwrite, [run])
    with outputs.begun(), TemporaryDirectory() as folder:
        collection = adhoc_recipe.run_plan(plan, opened, device, until=DATASET).artifacts[DATASET]
        facts = make_from(plan.steps[_RERANKED], collection, {"run": run}, Path(folder), device)
        with outputs.laid_out():
            link_file(Path(folder) / RUN, output)
    say(f"{output}: {counted(facts.pop('queries', 0), 'query')}, {counted(facts.pop('pairs', 0), 'pair')} scored")
    adhoc_recipe.tell_left_out(
        {name: count for name, count in facts.items() if name not in ("depth", "queries in the run")}
    )


def _setting(reranker: str, option: Sequence[str]) -> dict[str, Any]:
    name, colon, source = reranker.partition(":")
    return {"name": name, **({"source": source} if colon else {}), **adhoc_recipe.options(option)}


def _tree(dataset: str, stage: dict[str, Any]) -> adhoc_recipe.Tree:
    """A line whose run no stage makes: the search only stands for the one that is given."""
    stages = {
        adhoc_recipe.ENCODED: {"stage": "index", "backend": "bm25"},
        adhoc_recipe.SEARCHED: {"stage": "search", "index": adhoc_recipe.ENCODED, "split": stage["split"]},
        _RERANKED: {"stage": "rerank", "run": adhoc_recipe.SEARCHED, **stage},
    }
    return adhoc_recipe.tree(dataset, None, stages)
