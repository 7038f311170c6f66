"""`hardneg rerank`: the documents of anyone's run, scored anew."""

from pathlib import Path

import typer

from hardneg.api.adhoc_recipe import RERANKED, AdhocRecipe, reranker_setting, reranking_stages
from hardneg.atomic_write import link_file
from hardneg.cli import completion, options
from hardneg.cli.adhoc_recipe import begun, plugin_options
from hardneg.cli.console import say, tell_left_out
from hardneg.cli.engines import ENGINE, ENGINE_OPTION, place_of
from hardneg.cli.outputs import check_run
from hardneg.layout import RUN
from hardneg.outputs import Target
from hardneg.wording import counted


def rerank(
    dataset: str = options.DATASET,
    run: Path = typer.Option(..., "--run", help="The TREC run to take the documents from, plain or gzip."),
    reranker: str = typer.Option(
        ...,
        help="A plugin: cross-encoder:FOLDER or cross-encoder:HUB-ID.",
        autocompletion=completion.plugins("rerankers"),
    ),
    option: list[str] = options.key_values("An option of the plugin, such as length=256."),
    split: str = options.TEST_SPLIT,
    depth: int = typer.Option(100, min=1, help="How many documents of each query to score."),
    output: Path = options.OUTPUT_RUN,
    overwrite: bool = options.OVERWRITE,
    settings: list[str] = options.SET,
    store: Path | None = options.STORE,
    device: str | None = options.DEVICE,
    engine: str = ENGINE,
    engine_option: list[str] = ENGINE_OPTION,
) -> None:
    """Score the best documents of a run anew, query and document together, and write them as a TREC run.

    Scores are kept by content in the user's cache: the same again, or more of it, is quick.

    Example: hardneg rerank --dataset beir:FOLDER --run run.trec.gz --reranker cross-encoder:MODEL --output best.trec.gz
    """
    from hardneg.api.making import make_from

    check_run(output)
    stages = reranking_stages(reranker_setting(reranker, plugin_options(option)), split, depth)
    recipe = AdhocRecipe("rerank", dataset, stages, settings=settings)
    place = place_of(store, device, None, engine, engine_option)
    with begun(recipe, place, [Target(output)], overwrite, [run]) as work:
        made, told = make_from(work.plan, RERANKED, work.dataset(), {"run": run}, work.place)
        with work.outputs.laid_out():
            link_file(made.path / RUN, output)
    facts = dict(told)
    say(f"{output}: {counted(facts.pop('queries', 0), 'query')}, {counted(facts.pop('pairs', 0), 'pair')} scored")
    tell_left_out({name: count for name, count in facts.items() if name not in ("depth", "queries in the run")})
