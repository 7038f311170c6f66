"""`hardneg.mine`: hard negatives mined by a model, or from anyone's run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from hardneg.api.adhoc_recipe import ENCODED, MINED, SEARCHED, AdhocRecipe, mining_stage, mining_stages
from hardneg.api.content_store import keep_content
from hardneg.api.given_dataset import Dataset, named_dataset, split_of
from hardneg.api.given_model import Model, named_model
from hardneg.api.given_run import AnyRun, run_file
from hardneg.api.given_values import files_of
from hardneg.api.given_vectors import GivenVectors, named_vectors
from hardneg.api.making import make_dataset, make_from
from hardneg.api.mined import MinedNegatives, mined_in
from hardneg.api.results import TextSource
from hardneg.api.workplace import Where, Workplace, taken
from hardneg.artifacts import Artifact
from hardneg.distributed import world
from hardneg.errors import UsageError
from hardneg.layout import RUN

if TYPE_CHECKING:
    from hardneg.indexes.positive_scores import PositiveScores
    from hardneg.recipe.execute import Outcome
    from hardneg.recipe.plan import Plan
    from hardneg.types import Encoded


class MiningSource(Where, total=False):
    """What `mine` may select from in place of a model's search.

    run: a run. filter_by: with `run`, a run whose scores the miner filters by, such as a reranker's. index,
    query_vectors, query_ids: a folder of vectors, and files of those of the queries, as other programs made them.
    also_qrels: files of judgements whose positives count beside the dataset's, such as a reader's marks.
    """

    run: AnyRun
    filter_by: AnyRun
    index: str | Path
    query_vectors: str | Path
    query_ids: str | Path
    also_qrels: str | Path | Sequence[str | Path]


def mine(
    dataset: Dataset,
    model: Model | None = None,
    *,
    miner: str | Mapping[str, Any] = "topk",
    split: str | None = None,
    depth: int = 210,
    **given: Unpack[MiningSource],
) -> MinedNegatives:
    """Mines hard negatives, by a model's search or from a run; the same again comes from the store.

    Args:
        dataset: a name, a folder, a `datasets.Dataset` or dicts.
        model: a folder, a hub id, `packaged:NAME` or a live one; or give `run`, or `index` and `query_vectors`.
        miner: its name, or a dict of its options with its `name`.
        split: whose queries; `train`, or the only one of a dataset in memory.
        depth: how many documents to search for each query.
        given: `MiningSource`, and what every function takes (`Where`).

    Raises:
        UsageError: arguments do not go together.
        RecipeError: the miner has no such option, or another mistake in what was asked.
        DataError: the dataset or the run has a mistake.
    """
    own = taken(given, MiningSource)
    place = Workplace.of(given)
    runs = {name: run_file(own[name], place.store) if name in own else None for name in ("run", "filter_by")}
    lists = GivenLists(runs["run"], named_vectors("mine", own), runs["filter_by"], depth)
    check_sources(model is not None, lists)
    named = None if model is None else named_model(model, place.store)
    more = own.get("also_qrels", ())
    mining = mining_stage(miner, split_of(dataset, split, "train"), files_of("also_qrels", more))
    stages = mining_stages(mining, depth if model is not None else None)
    recipe = place.recipe("mine", named_dataset(dataset, place.store), stages, named)
    made = MiningJob(recipe, lists).make(recipe.plan(), place)
    if made is None:
        raise UsageError("mine: of several processes the first one has the result; read it from the store")
    return made


@dataclass(frozen=True)
class GivenLists:
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

    def runs(self, place: Workplace) -> dict[str, Path]:
        """The runs by the path of the input that each is; what is searched for is kept in the store."""
        from hardneg.miners.filtered import SCORES

        run = self.run
        if given := self.given:
            name = f"{given.queries.name}.trec.gz"
            found = keep_content(
                place.store,
                "given-run",
                lambda folder: given.write_run(folder / name, self.depth, place.device, place.progress),
            )
            run = found.path / name
        named = {"runs.run": run, f"runs.{SCORES}": self.filter_by}
        return {name: path for name, path in named.items() if path is not None}


def check_sources(by_model: bool, lists: GivenLists) -> None:
    """Refuses what `mine` cannot select from. Raises UsageError where it is none or several."""
    if [by_model, lists.run is not None, lists.given is not None].count(True) != 1:
        raise UsageError("mine: give --model NAME, --run FILE, or --index FOLDER with --query-vectors, one of them")
    if lists.filter_by is not None and by_model:
        raise UsageError("mine: --filter-by goes with --run FILE, the list to select from")


@dataclass(frozen=True)
class MiningJob:
    """What is mined, and from what."""

    recipe: AdhocRecipe
    lists: GivenLists

    def make(self, plan: "Plan", place: Workplace) -> MinedNegatives | None:
        """The negatives; None in all but the first of several processes."""
        return self._from_runs(plan, place) if self.lists.reads else self._by_model(plan, place)

    def _by_model(self, plan: "Plan", place: Workplace) -> MinedNegatives | None:
        from hardneg.fields import DATASET

        outcome = place.make(plan)
        if not world().first:
            return None
        made, source = outcome.artifacts[MINED], self._source(plan, outcome.artifacts[DATASET], place)
        scores = ModelScores(plan, outcome, place)
        return mined_in(_named(plan), made.path, made.key, made.facts, source, scores)

    def _from_runs(self, plan: "Plan", place: Workplace) -> MinedNegatives | None:
        dataset = make_dataset(plan, place)
        if not world().first:
            return None
        runs = self.lists.runs(place)
        made, facts = make_from(plan, MINED, dataset, runs, place)
        scores = RunScores(runs["runs.run"])
        return mined_in(_named(plan), made.path, made.key, facts, self._source(plan, dataset, place), scores)

    def _source(self, plan: "Plan", dataset: Artifact, place: Workplace) -> TextSource:
        from hardneg.recipe.run_folder import inputs_of

        split, reads = vars(plan.steps[MINED].spec)["split"], [*inputs_of(plan.recipe), *self.lists.reads]
        return TextSource.of(dataset, split, place.store, reads)


def _named(plan: "Plan") -> str:
    """The miner's name."""
    return str(vars(plan.steps[MINED].spec)["miner"].name)


@dataclass(frozen=True)
class RunScores:
    """The scores of positives in a run; nan where it lacks them."""

    run: Path

    def __call__(self, mined: MinedNegatives) -> "PositiveScores":
        from hardneg.data.runs import read_run
        from hardneg.indexes.positive_scores import scores_in_run

        return scores_in_run(mined, read_run(self.run).items())


@dataclass(frozen=True)
class ModelScores:
    """The scores of positives in the run of a search; the model's own where that did not reach them."""

    plan: "Plan"
    outcome: "Outcome"
    place: Workplace

    def __call__(self, mined: MinedNegatives) -> "PositiveScores":
        import numpy as np

        from hardneg.data.runs import stream_run
        from hardneg.indexes.positive_scores import scores_in_run

        found = scores_in_run(mined, stream_run(self.outcome.artifacts[SEARCHED].path / RUN))
        if any(np.isnan(values).any() for values in found.values()):
            self._fill(found, mined)
        return found

    def _fill(self, found: "PositiveScores", mined: MinedNegatives) -> None:
        from hardneg.encoders.inference import EncodeOptions
        from hardneg.encoders.open import load_encoder
        from hardneg.indexes.max_passage import pooled
        from hardneg.indexes.positive_scores import fill_from_model
        from hardneg.indexes.stored import open_store

        encoder, folder = load_encoder(self.plan.recipe.model, self.place.device), self.outcome.artifacts[ENCODED].path
        options, source = EncodeOptions(precision="fp32"), mined.source
        searcher = pooled(open_store(folder), folder, source.collection.corpus.doc_ids)

        def encode(texts: Sequence[str]) -> "Encoded":
            return encoder.encode(texts, "query", options, self.place.progress)

        queries = source.collection.queries(source.split)
        fill_from_model(found, mined, queries, source.collection, encode, searcher)
