"""`hardneg.recommend`: which negatives for a collection, by planted positives, hardness and dev queries."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardneg.analysis.base import Analysis
from hardneg.analysis.miner_sweep import MinerSweep
from hardneg.analysis.positive_ranks import PositiveRanks
from hardneg.api.adhoc_recipe import AdhocRecipe
from hardneg.api.notebook import html_section
from hardneg.api.output_files import writing
from hardneg.api.recommendation import Recommendation
from hardneg.api.recommended_recipe import SWEEP, TRIALS, RecommendRequest
from hardneg.api.recommended_rule import Situation
from hardneg.api.recommended_trials import Trials, in_order
from hardneg.api.results import ReadOnly
from hardneg.api.workplace import Workplace
from hardneg.evaluation.metrics_json import read_metrics
from hardneg.records.errors import DataError
from hardneg.records.layout import DATASET, METRICS
from hardneg.report.table import Section
from hardneg.store.atomic_write import replace_text

if TYPE_CHECKING:
    from hardneg.encoders.spec import ModelSpec
    from hardneg.recipe.execute import Outcome
    from hardneg.recipe.plan import Plan


@dataclass(frozen=True)
class Recommending:
    """A recommendation at work; steps: of the trainings to choose by, None where none is to be."""

    request: RecommendRequest
    recipe: AdhocRecipe
    steps: int | None

    def chosen(self, plan: "Plan", workplace: Workplace) -> "RecommendedNegatives":
        """Compares, trains where trainings are to choose, and chooses."""
        outcome = workplace.make_later("recommend", plan)
        facts = ReadOnly(outcome.artifacts[DATASET].facts)
        if not facts["splits"].get("train", {}).get("queries"):
            known = ", ".join(facts["splits"]) or "none"
            raise DataError(f"{{dataset}}: no queries of split train to train with; its splits: {known}", "dataset")
        sweep, request, trials = sweep_in(outcome), fitted(self.request, plan.recipe.model), None
        situation, last = situation_in(outcome, request), plan
        if self.steps is not None:
            rows = [sweep["miners"][row] for row in situation.tried]
            last = replace(self.recipe, stages=request.trials(rows, self.steps)).plan(workplace.tell)
            trials = trials_in(workplace.make_later("recommend", last), self.steps, request.metric)
        answer = Recommendation(sweep, trials, situation, request.goal)
        return RecommendedNegatives(answer, request, plan.recipe.tree, facts, list(last.keys.values()))


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


def trials_in(outcome: "Outcome", steps: int, metric: str) -> Trials:
    """What each training came to on the dev queries."""
    measured = read_metrics(outcome.artifacts[TRIALS].path / METRICS)
    return Trials(in_order({name: scores[metric] for name, scores in measured.results.items()}), steps, metric)


def fitted(request: RecommendRequest, model: "ModelSpec") -> RecommendRequest:
    """With the temperature of recipes that train with cosines, 1 for other scores, and what a static model takes.

    BM25 stands beside where Pyserini is installed. A table of token vectors is trained as in recipe star-static.
    """
    from hardneg.encoders.open.resolved import resolve
    from hardneg.recipe.packages import absent
    from hardneg.training.rates import usual_rate

    resolved = resolve(model, fetch=True)
    temperature, usual = request.temperature if resolved.full.similarity == "cosine" else 1.0, {}
    if getattr(resolved.family, "tables", False):
        usual = {"learning_rate": usual_rate(model), "weight_decay": 0.0}
    return replace(request, temperature=temperature, usual=usual, bm25=not absent("lucene"))


@dataclass(frozen=True)
class RecommendedNegatives:
    """A miner that was chosen, why, and the recipe that trains with it; keys: of the steps that led to it."""

    recommendation: Recommendation = field(repr=False)
    request: RecommendRequest = field(repr=False)
    tree: Mapping[str, Any] = field(repr=False)
    facts: Mapping[str, Any] = field(repr=False)
    keys: Sequence[str] = field(repr=False)

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
            replace_text(file, self.recipe(file))

    def recipe(self, path: Path) -> str:
        """The recipe to write at a path, as text, with the evidence as comments."""
        return self.recommendation.recipe(self.request, self.tree, self.facts, path)

    def draw(self, paths: Sequence[Path]) -> None:
        """Draws the miners as figures: .png, .svg or .pdf."""
        MinerSweep.model_construct().draw(self.recommendation.sweep(), paths)

    def section(self) -> Section:
        """The tables, what explains them, and the reasons."""
        answer = self.recommendation
        lines = [line for line in (" ".join(answer.tried_in_words()), *answer.reasons(), answer.evidence()) if line]
        return Section("", answer.tables(), MinerSweep.model_construct().explain(answer.sweep()), lines=lines)

    def __repr__(self) -> str:
        answer = self.recommendation
        return f"RecommendedNegatives({self.miner}; {' '.join([*answer.reasons(), answer.evidence()])})"

    def _repr_html_(self) -> str:
        return html_section(self.section())
