"""`hardneg mine`: negatives for any training program, mined by a model or from anyone's run."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import typer

from hardneg.cli import adhoc_recipe, completion
from hardneg.cli.export import CORPUS, FORM, SPLIT, MinedNegatives, NegativesTarget, write
from hardneg.cli.external_run import make_from
from hardneg.cli.options import DATASET, DEVICE, PROCESSES, SET, STORE, WRITTEN, open_store
from hardneg.cli.outputs import OVERWRITE
from hardneg.cli.printing import say
from hardneg.counting import counted
from hardneg.errors import UsageError

if TYPE_CHECKING:
    from hardneg.artifacts import Store
    from hardneg.data.collection import StoredCollection
    from hardneg.models.positive_scores import PositiveScores
    from hardneg.recipe.execute import Outcome
    from hardneg.recipe.plan import Plan


def mine(
    dataset: str = DATASET,
    model: str | None = typer.Option(None, "--model", help="A folder, a hub id, or packaged:all-MiniLM-L6-v2."),
    run: Path | None = typer.Option(None, "--run", help="Select from this TREC run instead of a model's search."),
    miner: str = typer.Option(
        "topk", help="A miner; `hardneg plugins list` shows them.", autocompletion=completion.plugins("miners")
    ),
    option: list[str] = typer.Option([], metavar="KEY=VALUE", help="An option of the miner, such as depth=50."),
    split: str = SPLIT,
    depth: int = typer.Option(210, min=1, help="How many documents to search for each query."),
    form: str = FORM,
    count: int = typer.Option(
        8, min=1, help="How many to write for each query, the first ones.", rich_help_panel=WRITTEN
    ),
    output: Path = typer.Option(
        ..., "--output", "-o", help="The file to write; its ending goes with the form.", rich_help_panel=WRITTEN
    ),
    scores: bool = typer.Option(
        False, "--scores", help="Write the scores too, where the form has a place for them.", rich_help_panel=WRITTEN
    ),
    corpus: Path | None = CORPUS,
    filter_by: Path | None = typer.Option(
        None, "--filter-by", help="With --run: a TREC run whose scores the miner filters by, such as a reranker's."
    ),
    dropped: Path | None = typer.Option(
        None, "--dropped", help="Write here what a filtering miner dropped, and why.", rich_help_panel=WRITTEN
    ),
    overwrite: bool = OVERWRITE,
    seed: int = typer.Option(42, help="For miners that draw."),
    settings: list[str] = SET,
    store: Path | None = STORE,
    device: str | None = DEVICE,
    processes: int | None = PROCESSES,
) -> None:
    """Mine hard negatives and write them in the form a training program reads.

    The vectors, the run and the negatives are kept in the store: the same again, or in another form, is quick.

    Example: hardneg mine --dataset beir:FOLDER --model NAME --form n-tuple --count 8 --output mined.parquet
    """
    from hardneg.cli.launch import launched, together

    target = NegativesTarget(form, count, output, scores, corpus, dropped)
    target.check()
    _check_sources(model, run, filter_by)
    mining = {"stage": "mine", "split": split, "miner": {"name": miner, **adhoc_recipe.options(option)}}
    stages = _stages(mining, None if run else depth)
    if launched(processes, device):
        return
    with together(device) as own_device:
        plan = adhoc_recipe.plan_tree("hardneg mine", adhoc_recipe.tree(dataset, model, stages, seed), settings)
        opened = open_store(store)
        reads = [path for path in (run, filter_by) if path]
        outputs = adhoc_recipe.plan_outputs("mine", plan, opened, target.files, overwrite, reads)
        with outputs.begun(), _mined(plan, opened, (run, filter_by), own_device, scores) as made:
            if made is not None:
                _tell_mined(made.facts)
                with outputs.laid_out():
                    if dropped is not None:
                        _write_dropped(made.folder, dropped)
                    write(made, split, target)


def _check_sources(model: str | None, run: Path | None, filter_by: Path | None) -> None:
    if (model is None) == (run is None):
        raise UsageError("mine: give --model NAME or --run FILE, one of them")
    if filter_by is not None and run is None:
        raise UsageError("mine: --filter-by goes with --run FILE, the list to select from")


def _stages(mining: dict[str, Any], depth: int | None) -> dict[str, Any]:
    """The stage that mines, behind those that encode and search to a depth, unless there is a run already."""
    if depth is None:
        return {adhoc_recipe.MINED: mining}
    searched = {"stage": "search", "index": adhoc_recipe.ENCODED, "split": mining["split"], "depth": depth}
    mining = {**mining, "runs": {"dense": adhoc_recipe.SEARCHED}}
    return {adhoc_recipe.ENCODED: {"stage": "encode"}, adhoc_recipe.SEARCHED: searched, adhoc_recipe.MINED: mining}


@contextmanager
def _mined(
    plan: "Plan", store: "Store", runs: tuple[Path | None, Path | None], device: str | None, scores: bool
) -> Iterator[MinedNegatives | None]:
    """What is to be written, in the first of several processes; None in the others.

    runs: the one to select from, and the one to filter by.
    """
    from hardneg.data.collection import StoredCollection
    from hardneg.distributed import world
    from hardneg.fields import DATASET
    from hardneg.miners.filtered import SCORES

    run, filter_by = runs
    outcome = adhoc_recipe.run_plan(plan, store, device, until=DATASET if run else None)
    if not world().first:
        yield None
        return
    collection = StoredCollection.open(outcome.artifacts[DATASET].path)
    if run is None:
        made = outcome.artifacts[adhoc_recipe.MINED]
        known = _model_scores(plan, outcome, collection, device) if scores else None
        yield MinedNegatives(made.path, made.facts, collection, known)
        return
    with TemporaryDirectory() as folder:
        given = {"runs.run": run, **({f"runs.{SCORES}": filter_by} if filter_by else {})}
        facts = make_from(plan.steps[adhoc_recipe.MINED], outcome.artifacts[DATASET], given, Path(folder))
        yield MinedNegatives(Path(folder), facts, collection, _run_scores(run, Path(folder)) if scores else None)


def _write_dropped(folder: Path, path: Path) -> None:
    from hardneg.atomic_write import link_file
    from hardneg.layout import DROPPED

    if not (folder / DROPPED).is_file():
        raise UsageError("--dropped: this miner does not tell what it drops; leave it out, or filter, as denoised does")
    link_file(folder / DROPPED, path)
    say(f"{path}: what was dropped")


def _run_scores(run: Path, folder: Path) -> "PositiveScores":
    from hardneg.data.negatives import read_negatives
    from hardneg.data.runs import read_run
    from hardneg.layout import NEGATIVES
    from hardneg.models.positive_scores import scores_in_run

    return scores_in_run(read_negatives(folder / NEGATIVES), read_run(run).items())


def _model_scores(
    plan: "Plan", outcome: "Outcome", collection: "StoredCollection", device: str | None
) -> "PositiveScores":
    """Those of the run; for positives that the search did not reach, the model's own."""
    import numpy as np

    from hardneg.cli.console import Bars, stderr_console
    from hardneg.data.flat import FlatVectors
    from hardneg.data.negatives import read_negatives
    from hardneg.data.runs import stream_run
    from hardneg.layout import NEGATIVES, RUN
    from hardneg.models.encoder import Encoder
    from hardneg.models.positive_scores import fill_from_model, scores_in_run

    steps = (adhoc_recipe.MINED, adhoc_recipe.SEARCHED, adhoc_recipe.ENCODED)
    mined, searched, encoded = (outcome.artifacts[name].path for name in steps)
    negatives = read_negatives(mined / NEGATIVES)
    found = scores_in_run(negatives, stream_run(searched / RUN))
    if any(np.isnan(values).any() for values in found.values()):
        dense = Encoder.load(plan.recipe.model, device), FlatVectors.open(encoded)
        queries = collection.queries(plan.steps[adhoc_recipe.MINED].spec.split)  # type: ignore[attr-defined]
        fill_from_model(found, negatives, queries, collection, dense, Bars(stderr_console()))
    return found


def _tell_mined(facts: Mapping[str, Any]) -> None:
    counts = {name: count for name, count in facts.items() if isinstance(count, int) and count}
    say(f"{counted(counts.pop('queries', 0), 'query')}, {counted(counts.pop('negatives', 0), 'negative')} mined")
    counts.pop("queries in the run", None)
    dropped = {name: counts.pop(name) for name in list(counts) if name.startswith("dropped as ")}
    if dropped:
        reasons = ", ".join(f"{name.removeprefix('dropped as ')} {count}" for name, count in dropped.items())
        say(f"  candidates left out: {reasons}")
    adhoc_recipe.tell_left_out(counts)
