"""`hardneg.recommend`: how to train for a collection, by short trainings, or by a rule without one."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardneg.analysis.base import Analysis
from hardneg.analysis.miner_sweep import MinerSweep, planted_sentence, way_of
from hardneg.analysis.positive_ranks import PositiveRanks
from hardneg.api.adhoc_recipe import AdhocRecipe
from hardneg.api.bench_recipe import SHIPPED, STATIC_RATES
from hardneg.api.recommended_recipe import ALONE, GOALS, LEXICAL, STEPS, SWEEP, TRIALS, Chosen, RecommendRequest
from hardneg.api.recommended_rule import ALONE_WORDS, FEW, Situation, Trials, named
from hardneg.api.results import ReadOnly, html_section, writing
from hardneg.api.workplace import Workplace
from hardneg.evaluation.metrics_json import read_metrics
from hardneg.records.errors import DataError
from hardneg.records.layout import DATASET, METRICS
from hardneg.records.named_plugins import INFONCE
from hardneg.report.numbers import number
from hardneg.report.table import Section
from hardneg.store.atomic_write import replace_text

if TYPE_CHECKING:
    from hardneg.encoders.spec import ModelSpec
    from hardneg.recipe.execute import Outcome
    from hardneg.recipe.plan import Plan


@dataclass(frozen=True)
class Recommending:
    """A recommendation at work; steps: of the trainings to choose by; None or 0 where none is to be."""

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
        sweep, request = _measured(outcome, MinerSweep), fitted(self.request, plan.recipe.model)
        situation = Situation(_measured(outcome, PositiveRanks), sweep, int(facts["documents"]), request.batch)
        answer = RecommendedNegatives(sweep, None, situation, request, plan.recipe.tree, facts, [*plan.keys.values()])
        if not self.steps:
            return answer
        rows = {arm: None if row is None else sweep["miners"][row] for arm, row in answer.arms.items()}
        last = replace(self.recipe, stages=request.trials(rows, self.steps)).plan(workplace.tell)
        scores = workplace.make_later("recommend", last).artifacts[TRIALS]
        measured = {row: each[request.metric] for row, each in read_metrics(scores.path / METRICS).results.items()}
        trials = Trials(measured, [*rows], request.rates, self.steps, request.metric)
        return replace(answer, trials=trials, keys=[*last.keys.values()])


def _measured(outcome: "Outcome", analysis: type[Analysis]) -> dict[str, Any]:
    measured: dict[str, Any] = json.loads((outcome.artifacts[SWEEP].path / f"{analysis.name}.json").read_text("utf-8"))
    return measured


def fitted(request: RecommendRequest, model: "ModelSpec") -> RecommendRequest:
    """With the temperature of recipes that train with cosines, 1 for other scores, and the rates of the model's kind.

    BM25 stands beside where Pyserini is installed. A table of token vectors has no weight decay, as in recipe
    star-static.
    """
    from hardneg.encoders.open.resolved import resolve
    from hardneg.recipe.needs import absent

    resolved = resolve(model, fetch=True)
    temperature = request.temperature if resolved.full.similarity == "cosine" else 1.0
    request = replace(request, temperature=temperature, bm25=not absent("lucene"))
    if getattr(resolved.family, "tables", False):
        return replace(request, usual={"weight_decay": 0.0}, usual_rates=STATIC_RATES)
    return request


@dataclass(frozen=True)
class RecommendedNegatives:
    """A way to train that was chosen, why, and the recipe that trains so; keys: of the steps that led to it.

    measured: the sweep of miners. trials: trainings by `arms`, None where there were none and the rule guesses.
    situation: what the rule goes by.
    """

    measured: Mapping[str, Any] = field(repr=False)
    trials: Trials | None = field(repr=False)
    situation: Situation = field(repr=False)
    request: RecommendRequest = field(repr=False)
    tree: Mapping[str, Any] = field(repr=False)
    facts: Mapping[str, Any] = field(repr=False)
    keys: Sequence[str] = field(repr=False)

    @cached_property
    def arms(self) -> dict[str, int | None]:
        """The rows of the sweep to train with, by stage; None is in-batch negatives alone. The rule's is the last."""
        return self.situation.arms(self.request.goal or GOALS[0])

    def _best(self, arms: Iterable[str]) -> str:
        """By the trials the best of some arms, of equal ones the first; by the rule the last."""
        return [*arms][-1] if self.trials is None else max(arms, key=self.trials.means.__getitem__)

    @property
    def alone(self) -> bool:
        """Whether in-batch negatives alone are the best training: by the trials, or by the rule."""
        by_rule = self.situation.advice(self.request.goal or GOALS[0]).alone
        return by_rule if self.trials is None else self._best(self.arms) == ALONE

    @property
    def _mined(self) -> str:
        """The best arm with mined negatives."""
        return self._best(arm for arm in self.arms if arm != ALONE)

    @property
    def row(self) -> Mapping[str, Any]:
        """What the sweep says of its miner."""
        row: Mapping[str, Any] = self.measured["miners"][self.arms[self._mined]]
        return row

    @property
    def miner(self) -> dict[str, Any]:
        """The miner, as `hardneg.mine` takes it."""
        return dict(self.row["miner"])

    @property
    def _labels(self) -> dict[str, str]:
        """The rows of the trials, in words."""
        mined = {arm: named(self.measured["miners"][row]) for arm, row in self.arms.items() if row is not None}
        return {SHIPPED: "the model as shipped", ALONE: ALONE_WORDS, **mined, LEXICAL: LEXICAL}

    def answer(self) -> str:
        """What to do, in a sentence."""
        trials, labels = self.trials, self._labels
        best = labels[ALONE if self.alone else self._mined]
        if trials is None:
            return f"A guess without a training: {best}."
        scores = f"{trials.metric} {number(trials.means[trials.best])} {trials.ends(trials.best)}"
        scores += f" on {len(trials.scores[SHIPPED]):,} queries of {self.request.split}"
        if trials.best == SHIPPED:
            return f"Train nothing: as shipped the model has {scores}, no training more; best of these: {best}."
        how = f"learning rate {trials.rate(trials.best):g}, {trials.steps:,} steps, loss {INFONCE}"
        return f"Train with {best}: {how}. {scores}, as shipped {number(trials.means[SHIPPED])}."

    def reasons(self) -> list[str]:
        """What there is to go by, what the rule says for each goal, or for the one that was named, and its limits."""
        goals = GOALS if self.request.goal is None else (self.request.goal,)
        facts, rule = f"{'; '.join(self.situation.facts())}.", " ".join(map(self.situation.sentence, goals))
        queries = self.situation.ranks["queries"]
        few = [f"Too few queries to choose by: {queries}, less than {FEW}."] if queries < FEW else []
        if self.trials is None:
            return [*few, facts, rule, *self.situation.doubts()]
        guess = f"Without a training it would have said: {rule}"
        return [*few, *self.trials.sentences(self._labels), facts, guess]

    def sweep(self) -> dict[str, Any]:
        """The sweep, with what was chosen in the end as the choice."""
        chosen, miners = self.arms[self._mined], self.measured["miners"]
        ways = self.measured["best_of_each_way"]
        shown = [chosen if way_of(self.row) == way_of(miners[position]) else position for position in ways]
        return {**self.measured, "chosen": chosen, "best_of_each_way": shown}

    def to_dict(self) -> dict[str, Any]:
        """All that was measured, and the choice, as JSON holds them."""
        trials = None if self.trials is None else self.trials.to_dict()
        train = self.trials is None or self.trials.best != SHIPPED
        answer = {"answer": self.answer(), "train": train, "in_batch_alone": self.alone, "goal": self.request.goal}
        return {**answer, "trials": trials, **self.sweep(), **self.situation.to_dict()}

    def write(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Writes the recipe, with the evidence as comments; its own earlier one is replaced.

        Raises:
            UsageError: something else stands there, and `overwrite` is not given.
        """
        with writing("RecommendedNegatives.write", [path], overwrite) as (file,):
            replace_text(file, self.recipe(file))

    def recipe(self, path: Path) -> str:
        """The recipe to write at a path, as text: it trains with what was chosen, as that was trained."""
        request, trials = self.request, self.trials
        tested = "test" if self.facts["splits"].get("test", {}).get("queries") else request.split
        head = [f"Chosen by `hardneg recommend` on the queries of split {request.split}", " "]
        head += [f"  hardneg recipe run {path}", " ", self.answer(), *self.reasons(), planted_sentence(self.measured)]
        if tested == request.split:
            head.append(f"There is no split test: it is measured on split {tested}, by which it was chosen.")
        rates, steps = (request.rates[0], request.rates[0]), request.options.get("max_steps", STEPS)
        if trials is not None:
            rates, steps = (trials.rate(ALONE), trials.rate(self._mined)), trials.steps
        return request.recipe(self.tree, Chosen(self.row, rates, steps, self.alone), head, tested)

    def draw(self, paths: Sequence[Path]) -> None:
        """Draws the miners as figures: .png, .svg or .pdf."""
        MinerSweep.model_construct().draw(self.sweep(), paths)

    def section(self) -> Section:
        """The answer, the trainings, the best of each way of the sweep, and what explains them."""
        analysis, swept = MinerSweep.model_construct(), {**self.sweep(), **({"chosen": None} if self.alone else {})}
        tables = [*([self.trials.table(self._labels)] if self.trials else []), analysis.tables(swept)[0]]
        return Section("", tables, analysis.explain(self.measured), lead=self.answer(), lines=self.reasons())

    def __repr__(self) -> str:
        return f"RecommendedNegatives({' '.join([self.answer(), *self.reasons()])})"

    def _repr_html_(self) -> str:
        return html_section(self.section())
