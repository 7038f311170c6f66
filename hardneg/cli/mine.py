"""`hardneg mine`: negatives for any training program, mined by a model or from anyone's run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import typer

from hardneg.atomic_write import link_file
from hardneg.cli import options
from hardneg.cli.adhoc_recipe import (
    ENCODED,
    MINED,
    SEARCHED,
    AdhocRecipe,
    Place,
    PlannedWork,
    mining_stages,
    plugin_options,
)
from hardneg.cli.console import bars, say, tell_left_out
from hardneg.cli.engines import ENGINE, ENGINE_OPTION, place_of
from hardneg.cli.export import CORPUS, FORM, MinedNegatives, NegativesTarget, write
from hardneg.cli.given_vectors import GivenVectors, given_vectors
from hardneg.cli.launch import launched, together
from hardneg.cli.options import WRITTEN
from hardneg.distributed import world
from hardneg.errors import UsageError
from hardneg.layout import DROPPED, NEGATIVES, RUN
from hardneg.wording import counted

if TYPE_CHECKING:
    from hardneg.indexes.positive_scores import PositiveScores
    from hardneg.recipe.execute import Outcome
    from hardneg.types import Encoded

_COUNT = typer.Option(8, min=1, help="How many to write for each query, the first ones.", rich_help_panel=WRITTEN)
_SCORES = typer.Option(
    False, "--scores", help="Write the scores too, where the form has a place for them.", rich_help_panel=WRITTEN
)
_DROPPED = typer.Option(None, help="Write here what a filtering miner dropped, and why.", rich_help_panel=WRITTEN)
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
    target = NegativesTarget(form, count, output, scores, corpus, dropped)
    target.check()
    given = given_vectors("mine", index, query_vectors, query_ids)
    if [model, run, given].count(None) != 2:
        raise UsageError("mine: give --model NAME, --run FILE, or --index FOLDER with --query-vectors, one of them")
    if filter_by is not None and model is not None:
        raise UsageError("mine: --filter-by goes with --run FILE, the list to select from")
    mining = {"stage": "mine", "split": split, "miner": {"name": miner, **plugin_options(option)}}
    recipe = AdhocRecipe("mine", dataset, mining_stages(mining, depth if model else None), model, settings, seed)
    place = place_of(store, device, processes, engine, engine_option)
    _mine(recipe, _Lists(run, given, filter_by, depth), target, place, overwrite)


@dataclass(frozen=True)
class _Lists:
    """What to select from in place of a model's search: a run, or what an index has for given vectors, to a depth.

    filter_by: the run whose scores the miner filters by.
    """

    run: Path | None
    given: GivenVectors | None
    filter_by: Path | None
    depth: int

    @property
    def reads(self) -> list[Path]:
        """The files that are read; none where a model searches."""
        return [path for path in (self.run, self.filter_by) if path] + (self.given.reads if self.given else [])

    def runs(self, folder: Path, device: str | None) -> dict[str, Path]:
        """The runs by the path of the input that each is; what is searched for is written into a folder."""
        from hardneg.miners.filtered import SCORES

        run = self.run
        if self.given is not None:
            run = folder / f"{self.given.queries.name}.trec.gz"
            self.given.write_run(run, self.depth, device)
        named = {"runs.run": run, f"runs.{SCORES}": self.filter_by}
        return {name: path for name, path in named.items() if path is not None}


def _mine(recipe: AdhocRecipe, lists: _Lists, target: NegativesTarget, place: Place, overwrite: bool) -> None:
    """Mines in the processes that were asked for; the first one writes."""
    if launched(place.processes, place.device):
        return
    reads = lists.reads
    with (
        together(place.device) as device,
        recipe.begun(replace(place, device=device), target.files, overwrite, reads) as work,
        TemporaryDirectory() as folder,
    ):
        mined = _from_runs(work, lists, target.scores, Path(folder)) if reads else _by_model(work, target.scores)
        if mined is None:
            return
        made, facts = mined
        _tell_mined(facts)
        with work.outputs.laid_out():
            if target.dropped is not None:
                _write_dropped(made.folder, target.dropped)
            write(made, target)


def _by_model(work: PlannedWork, scores: bool) -> tuple[MinedNegatives, Mapping[str, Any]] | None:
    """What a model mined, in the first of several processes."""
    from hardneg.data.collection import StoredCollection
    from hardneg.fields import DATASET

    outcome = work.make()
    if not world().first:
        return None
    made, collection = outcome.artifacts[MINED], StoredCollection.open(outcome.artifacts[DATASET].path)
    negatives = MinedNegatives(made.path, collection, vars(work.plan.steps[MINED].spec)["split"])
    return replace(negatives, scores=_model_scores(work, outcome, negatives) if scores else None), made.facts


def _from_runs(
    work: PlannedWork, lists: _Lists, scores: bool, folder: Path
) -> tuple[MinedNegatives, Mapping[str, Any]] | None:
    """What was mined from a run into a folder, in the first of several processes."""
    from hardneg.data.collection import StoredCollection
    from hardneg.data.negatives import read_negatives
    from hardneg.data.runs import read_run
    from hardneg.indexes.positive_scores import scores_in_run

    dataset = work.dataset()
    if not world().first:
        return None
    given, made = lists.runs(folder, work.device), folder / MINED
    made.mkdir()
    facts = work.make_from(MINED, dataset, given, made)
    known = None
    if scores:
        known = scores_in_run(read_negatives(made / NEGATIVES), read_run(given["runs.run"]).items())
    split = vars(work.plan.steps[MINED].spec)["split"]
    return MinedNegatives(made, StoredCollection.open(dataset.path), split, known), facts


def _model_scores(work: PlannedWork, outcome: "Outcome", made: MinedNegatives) -> "PositiveScores":
    """Those of the run; for positives that the search did not reach, the model's own."""
    import numpy as np

    from hardneg.data.negatives import read_negatives
    from hardneg.data.runs import stream_run
    from hardneg.encoders.inference import EncodeOptions
    from hardneg.encoders.kinds import load_encoder
    from hardneg.indexes.max_passage import pooled
    from hardneg.indexes.positive_scores import fill_from_model, scores_in_run
    from hardneg.indexes.stored import open_store

    negatives = read_negatives(made.folder / NEGATIVES)
    found = scores_in_run(negatives, stream_run(outcome.artifacts[SEARCHED].path / RUN))
    if any(np.isnan(values).any() for values in found.values()):
        encoder, folder = load_encoder(work.plan.recipe.model, work.device), outcome.artifacts[ENCODED].path
        options, progress = EncodeOptions(precision="fp32"), bars()
        searcher = pooled(open_store(folder), folder, made.collection.corpus.doc_ids)

        def encode(texts: Sequence[str]) -> "Encoded":
            return encoder.encode(texts, "query", options, progress)

        fill_from_model(found, negatives, made.collection.queries(made.split), made.collection, encode, searcher)
    return found


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
