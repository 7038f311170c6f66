"""`hardneg.recommend`: which negatives for a collection, by planted positives, hardness and dev queries."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from hardneg.analysis.base import Analysis
from hardneg.analysis.miner_sweep import MinerSweep
from hardneg.analysis.positive_ranks import PositiveRanks
from hardneg.api.argument_values import plugin_setting
from hardneg.api.dataset_argument import Dataset, named_dataset, split_of
from hardneg.api.model_argument import Model, named_model
from hardneg.api.notebook import html_section
from hardneg.api.output_files import writing
from hardneg.api.recommendation import Recommendation
from hardneg.api.recommended_recipe import METRIC, SWEEP, TRIALS, Goal, RecommendRequest
from hardneg.api.recommended_rule import Situation
from hardneg.api.recommended_trials import Trials, in_order
from hardneg.api.results import ReadOnly
from hardneg.api.workplace import Where, Workplace, taken
from hardneg.evaluation.metrics_json import read_metrics
from hardneg.records.depths import TOP_DEPTH
from hardneg.records.layout import DATASET, METRICS
from hardneg.report.table import Section
from hardneg.store.atomic_write import replace_text

if TYPE_CHECKING:
    from hardneg.encoders.spec import ModelSpec
    from hardneg.recipe.execute import Outcome


class TrialOptions(Where, total=False):
    """What `recommend` takes besides.

    goal: what is to be good, `top` (the order of the first documents) or `recall`; the answer is for both by default,
    and the recipe is the one for the top. reranker: a second model, whose scores filters decide by too. train: train so
    many steps with the best of each depth, and choose by the dev queries. train_options: of these trainings.
    """

    goal: Goal
    reranker: str | Mapping[str, Any]
    train: int
    train_options: Mapping[str, Any]


def recommend(
    dataset: Dataset,
    model: Model = "packaged:all-MiniLM-L6-v2",
    *,
    split: str | None = None,
    depth: int = TOP_DEPTH,
    **arguments: Unpack[TrialOptions],
) -> "RecommendedNegatives":
    """Chooses the negatives for a collection.

    The model's ranks of the positives of dev queries decide whether the first documents of its lists are taken, or
    in-batch negatives alone are enough. Some positives are hidden, to count how many each miner wrongly takes.

    Args:
        dataset: a name, a folder, a `datasets.Dataset` or dicts.
        model: a folder, a hub id, `packaged:NAME` or a live one.
        split: the queries to choose by, never those that are tested on; `dev`, or the only one of a dataset in memory.
        depth: how many documents to search for each query, the deepest that is tried.
        given: `TrialOptions`, and what every function takes (`Where`).
    """
    own = taken(arguments, TrialOptions)
    workplace, steps, second = Workplace.of(arguments), own.get("train"), own.get("reranker")
    setting = None if second is None else plugin_setting("reranker", second)
    request = RecommendRequest(
        split_of(dataset, split, "dev"), depth, setting, own.get("train_options", {}), goal=own.get("goal")
    )
    named = named_dataset(dataset, workplace.store), request.sweep(), named_model(model, workplace.store)
    recipe = workplace.recipe("recommend", *named)
    replace(recipe, stages=request.before(steps or 1)).check()
    plan = recipe.plan()
    outcome = workplace.make(plan)
    sweep, request = sweep_in(outcome), fitted(request, plan.recipe.model)
    tried = None
    if steps is not None:
        tried = trials_in(workplace.make(replace(recipe, stages=request.trials(sweep, steps)).plan()), steps)
    facts = ReadOnly(outcome.artifacts[DATASET].facts)
    answer = Recommendation(sweep, tried, situation_in(outcome, request), request.goal)
    return RecommendedNegatives(answer, request, plan.recipe.tree, facts)


def sweep_in(outcome: "Outcome", analysis: type[Analysis] = MinerSweep) -> dict[str, Any]:
    """What the sweep of miners, or the other analysis of its stage, has measured."""
    path = outcome.artifacts[SWEEP].path / f"{analysis.name}.json"
    measured: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return measured


def situation_in(outcome: "Outcome", request: RecommendRequest) -> Situation:
    """What the rule goes by."""
    from hardneg.training.options import StepOptions

    batch = int(request.options.get("batch_size", StepOptions().batch_size))
    documents = int(outcome.artifacts[DATASET].facts["documents"])
    return Situation(sweep_in(outcome, PositiveRanks), sweep_in(outcome), documents, batch)


def trials_in(outcome: "Outcome", steps: int) -> Trials:
    """What each training came to on the dev queries."""
    measured = read_metrics(outcome.artifacts[TRIALS].path / METRICS)
    return Trials(in_order({name: scores[METRIC] for name, scores in measured.results.items()}), steps)


def fitted(request: RecommendRequest, model: "ModelSpec") -> RecommendRequest:
    """With the temperature of recipes that train with cosines, 1 for other scores, and what a static model takes.

    BM25 stands beside where Pyserini is installed. A table of token vectors is trained as in recipe star-static: at a
    rate in proportion to the size of its numbers, which are larger in wordllama's.
    """
    from hardneg.encoders.open.resolved import resolve
    from hardneg.recipe.packages import absent

    resolved = resolve(model, fetch=True)
    temperature, usual = 0.05 if resolved.full.similarity == "cosine" else 1.0, {}
    if getattr(resolved.family, "tables", False):
        usual = {"learning_rate": 0.03 if model.name == "packaged:wordllama" else 0.01, "weight_decay": 0.0}
    return replace(request, temperature=temperature, usual=usual, bm25=not absent("lucene"))


@dataclass(frozen=True)
class RecommendedNegatives:
    """A miner that was chosen, why, and the recipe that trains with it."""

    recommendation: Recommendation = field(repr=False)
    request: RecommendRequest = field(repr=False)
    tree: Mapping[str, Any] = field(repr=False)
    facts: Mapping[str, Any] = field(repr=False)

    @property
    def miner(self) -> dict[str, Any]:
        """The miner, as `hardneg.mine` takes it."""
        return dict(self.recommendation.row["miner"])

    def to_dict(self) -> dict[str, Any]:
        """All that was measured, the rule and the choice."""
        return self.recommendation.to_dict()

    def write(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Writes the recipe, with the evidence as comments; its own earlier one is replaced.

        Raises:
            UsageError: something else stands there, and `overwrite` is not given.
        """
        with writing("RecommendedNegatives.write", [path], overwrite) as (file,):
            replace_text(file, self.recommendation.recipe(self.request, self.tree, self.facts, file))

    def __repr__(self) -> str:
        answer = self.recommendation
        return f"RecommendedNegatives({self.miner}; {' '.join([*answer.reasons(), answer.evidence()])})"

    def _repr_html_(self) -> str:
        answer = self.recommendation
        explained = MinerSweep.model_construct().explain(answer.sweep())
        lines = [line for line in (" ".join(answer.tried_in_words()), *answer.reasons(), answer.evidence()) if line]
        return html_section(Section("", answer.tables(), explained, lines=lines))
