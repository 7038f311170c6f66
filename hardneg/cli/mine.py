"""`hardneg mine`: negatives for any training program, mined by a model or from anyone's run."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hardneg.api.adhoc_recipe import AdhocRecipe, mining_stage, mining_stages
from hardneg.atomic_write import link_file
from hardneg.cli import options
from hardneg.cli.adhoc_recipe import Place, begun, plugin_options
from hardneg.cli.console import say, tell_left_out
from hardneg.cli.engines import ENGINE, ENGINE_OPTION, place_of
from hardneg.cli.export import CORPUS, FORM, NegativesTarget, write
from hardneg.cli.launch import launched, together
from hardneg.cli.options import WRITTEN
from hardneg.errors import UsageError
from hardneg.layout import DROPPED
from hardneg.wording import counted

if TYPE_CHECKING:
    from hardneg.api.mining import MiningJob

_COUNT = typer.Option(8, min=1, help="How many to write for each query, the first ones.", rich_help_panel=WRITTEN)
_SCORES = typer.Option(
    False, "--scores", help="Write the scores too, where the form has a place for them.", rich_help_panel=WRITTEN
)
_DROPPED = typer.Option(None, help="Write here what a filtering miner dropped, and why.", rich_help_panel=WRITTEN)
_ALSO_QRELS = "Judgements whose positives count beside the dataset's, such as a reader's marks."
_FILTER_BY = "With --run: a TREC run whose scores the miner filters by, such as a reranker's."


def mine(
    dataset: str = options.DATASET,
    model: str | None = options.MODEL_OR_OTHER,
    run: Path | None = typer.Option(None, "--run", help="Select from this TREC run instead of a model's search."),
    index: Path | None = options.INDEX_GIVEN,
    query_vectors: Path | None = options.QUERY_VECTORS,
    query_ids: Path | None = options.QUERY_IDS,
    miner: str = options.MINER,
    option: list[str] = options.MINER_OPTION,
    split: str = options.TRAIN_SPLIT,
    depth: int = options.MINED_DEPTH,
    form: str = FORM,
    count: int = _COUNT,
    output: Path = options.OUTPUT_FILE,
    scores: bool = _SCORES,
    corpus: Path | None = CORPUS,
    also_qrels: list[Path] = typer.Option([], help=_ALSO_QRELS),
    filter_by: Path | None = typer.Option(None, help=_FILTER_BY),
    dropped: Path | None = _DROPPED,
    overwrite: bool = options.OVERWRITE,
    seed: int = typer.Option(42, help="For miners that draw."),
    settings: list[str] = options.SET,
    store: Path | None = options.STORE,
    device: str | None = options.DEVICE,
    processes: int | None = options.PROCESSES,
    engine: str = ENGINE,
    engine_option: list[str] = ENGINE_OPTION,
) -> None:
    """Mine hard negatives and write them in the form a training program reads.

    The vectors, the run and the negatives are kept in the store: the same again, or in another form, is quick.

    Example: hardneg mine --dataset beir:FOLDER --model NAME --form n-tuple --count 8 --output mined.parquet

    Example: hardneg mine --dataset beir:FOLDER --index FOLDER --query-vectors queries.parquet --output mined.parquet
    """
    from hardneg.api.given_vectors import given_vectors
    from hardneg.api.mining import GivenLists, MiningJob, check_sources

    target = NegativesTarget(form, count, output, scores, corpus, dropped)
    target.check()
    place = place_of(store, device, processes, engine, engine_option)
    given = given_vectors("mine", index, query_vectors, query_ids)
    lists = GivenLists(run, given, filter_by, depth)
    check_sources(model is not None, lists)
    mining = mining_stage({"name": miner, **plugin_options(option)}, split, also_qrels)
    recipe = AdhocRecipe(
        "mine", dataset, mining_stages(mining, depth if model is not None else None), model, settings, seed
    )
    _mine(MiningJob(recipe, lists), target, place, overwrite)


def _mine(mining: "MiningJob", target: NegativesTarget, place: Place, overwrite: bool) -> None:
    """Mines in the processes that were asked for; the first one writes."""
    if launched(place.processes, place.device):
        return
    with (
        together(place.device) as device,
        begun(mining.recipe, replace(place, device=device), target.files, overwrite, mining.lists.reads) as work,
    ):
        made = mining.make(work.plan, work.place)
        if made is None:
            return
        _tell_mined(made.facts)
        with work.outputs.laid_out():
            if target.dropped is not None:
                _write_dropped(made.folder, target.dropped)
            write(made, target)


def _write_dropped(folder: Path, path: Path) -> None:
    if not (folder / DROPPED).is_file():
        raise UsageError("--dropped: this miner does not tell what it drops; leave it out, or filter, as denoised does")
    link_file(folder / DROPPED, path)
    say(f"{path}: what was dropped")


def _tell_mined(facts: Mapping[str, Any]) -> None:
    counts = {name: count for name, count in facts.items() if isinstance(count, int) and count}
    say(f"{counted(counts.pop('queries', 0), 'query')}, {counted(counts.pop('negatives', 0), 'negative')} mined")
    counts.pop("queries in the run", None)
    dropped = {name: counts.pop(name) for name in list(counts) if name.startswith("dropped as ")}
    if dropped:
        reasons = ", ".join(f"{name.removeprefix('dropped as ')} {count}" for name, count in dropped.items())
        say(f"  candidates left out: {reasons}")
    tell_left_out(counts)
