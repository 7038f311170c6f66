"""`recommend`: which negatives for a collection, by short trainings, or by a rule without one."""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Unpack

from hardneg.plugin import (
    DataError,
    MissingDependency,
    ModelSpec,
    Section,
    UsageError,
    Workplace,
    argument_values,
    arguments,
    atomic_write,
    numbers,
    read_metrics,
    resolve_model,
    start_java,
)
from hardneg_advice.miner_sweep import TOPK, MinerSweep, planted_sentence, way_of
from hardneg_advice.protocol import SHIPPED, STATIC_RATES
from hardneg_advice.rule import ALONE_WORDS, FEW, Situation, Trials, named
from hardneg_advice.trials import (
    ALONE,
    FIRST,
    GOALS,
    LEXICAL,
    LOSS,
    STEPS,
    SWEEP,
    TRIALS,
    Goal,
    RecommendRequest,
    commented,
)

DEPTH = 200
_TUNING = "Tuning"
_GOAL = "What is to be good: top (the first documents) or recall. Both are answered, the recipe is for the top."
_RERANKER = "A second model, whose scores filters also use: cross-encoder:FOLDER or cross-encoder:HUB-ID."
_SPLIT = arguments.Arg("The queries to choose on; never the test queries.", default="dev")
_DEPTH = arguments.Arg("How many documents to retrieve for each query: the largest depth tried.")
_OPTION = replace(arguments.TRAIN_OPTION, help="A training option, such as learning_rate=1e-4.", panel=_TUNING)
_STEPS = arguments.Arg("Steps of each training; 0 trains nothing, and the answer is a guess.", least=0)


@arguments.spelled_out
def recommend(
    dataset: arguments.Dataset,
    model: arguments.Model = "packaged:all-MiniLM-L6-v2",
    *,
    goal: Annotated[Goal | None, arguments.Arg(_GOAL, cli=str, words=GOALS)] = None,
    reranker: Annotated[arguments.Setting | None, arguments.Arg(_RERANKER, plugin="rerankers", panel=_TUNING)] = None,
    split: Annotated[str | None, _SPLIT] = None,
    depth: Annotated[int, _DEPTH] = DEPTH,
    train: Annotated[int, _STEPS] = STEPS,
    train_options: Annotated[Mapping[str, Any], _OPTION] = {},
    **where: Unpack[arguments.Where],
) -> "RecommendedNegatives":
    """Choose how to train for a collection by short trainings, show why, and write a recipe that trains so.

    In-batch negatives alone, the first documents of the model's lists, and what a rule chooses by its ranks of the
    positives are each trained at three learning rates, and compared on the dev queries with the model as shipped and
    with BM25. Some positives are hidden, to count how many each miner wrongly takes.

    Raises:
        UsageError: the depth is too small, there is no such goal, or the split is the one that tests are on.
        RecipeError: the reranker or training has no such option, or the split has no queries.

    Example: hardneg recommend --dataset beir:FOLDER --model NAME --output recommended.yaml
    """
    workplace, options = Workplace.of(where, recommend), argument_values.mapping_of("train_options", train_options)
    steps = argument_values.whole_number("train", train)
    second = None if reranker is None else argument_values.plugin_setting("reranker", reranker)
    request = RecommendRequest(split or "dev", argument_values.whole_number("depth", depth), second, options, goal=goal)
    recipe = workplace.recipe(recommend, dataset, model, request.sweep())
    first = {"miner": {"name": TOPK, "depth": min(request.depths)}, "by": ""}
    steps = steps and options.get("max_steps", steps)
    ahead = replace(recipe, stages=request.trials({ALONE: None, FIRST: first}, steps or 1))
    ahead.check(lambda note: None)  # its plan tells the notes
    plan = workplace.begin(recipe, ahead=ahead if steps else recipe)
    outcome = workplace.make_later("recommend", plan)
    facts = outcome.artifacts["dataset"].facts
    if not facts["splits"].get("train", {}).get("queries"):
        known = ", ".join(facts["splits"]) or "none"
        raise DataError(f"{{dataset}}: no queries of split train to train with; its splits: {known}", "dataset")
    found = outcome.artifacts[SWEEP].path
    sweep, ranks = (
        json.loads((found / f"{name}.json").read_text("utf-8")) for name in ("miner-sweep", "positive-ranks")
    )
    request = fitted(request, plan.recipe.model)
    situation = Situation(ranks, sweep, int(facts["documents"]), request.batch)
    answer = RecommendedNegatives(situation, None, request, plan.recipe.tree, facts, [*plan.keys.values()])
    if not steps:
        return answer
    rows = {arm: None if row is None else sweep["miners"][row] for arm, row in answer.arms.items()}
    last = replace(recipe, stages=request.trials(rows, steps)).plan(workplace.tell)
    scores = workplace.make_later("recommend", last).artifacts[TRIALS]
    measured = {row: each[request.metric] for row, each in read_metrics(scores.path / "metrics.json").results.items()}
    trials = Trials(measured, [*rows], request.rates, steps, request.metric)
    return replace(answer, trials=trials, keys=[*last.keys.values()])


def fitted(request: RecommendRequest, model: ModelSpec) -> RecommendRequest:
    """With the temperature of recipes that train with cosines, 1 for other scores, and the rates of the model's kind.

    BM25 stands beside where Pyserini is installed. A table of token vectors has no weight decay, as in recipe
    star-static.
    """
    resolved = resolve_model(model, fetch=True)
    temperature = request.temperature if resolved.full.similarity == "cosine" else 1.0
    with suppress(MissingDependency):
        start_java()
        request = replace(request, bm25=True)
    request = replace(request, temperature=temperature)
    if getattr(resolved.family, "tables", False):
        return replace(request, usual={"weight_decay": 0.0}, usual_rates=STATIC_RATES)
    return request


@dataclass(frozen=True)
class RecommendedNegatives:
    """A way to train that was chosen, why, and the recipe that trains so; keys: of the steps that led to it.

    situation: what the rule goes by. trials: trainings by `arms`, None where there were none and the rule guesses.
    """

    situation: Situation = field(repr=False)
    trials: Trials | None = field(repr=False)
    request: RecommendRequest = field(repr=False)
    tree: Mapping[str, Any] = field(repr=False)
    facts: Mapping[str, Any] = field(repr=False)
    keys: Sequence[str] = field(repr=False)

    @property
    def measured(self) -> Mapping[str, Any]:
        """The sweep of miners."""
        return self.situation.sweep

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
        scores = f"{trials.metric} {numbers.number(trials.means[trials.best])} {trials.ends(trials.best)}"
        scores += f" on {len(trials.scores[SHIPPED]):,} queries of {self.request.split}"
        if trials.best == SHIPPED:
            return f"Train nothing: as shipped the model has {scores}, no training more; best of these: {best}."
        how = f"learning rate {trials.rate(trials.best):g}, {trials.steps:,} steps, loss {LOSS}"
        return f"Train with {best}: {how}. {scores}, as shipped {numbers.number(trials.means[SHIPPED])}."

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
        """Writes the recipe, with the evidence as comments.

        Raises:
            UsageError: a file is there, and `overwrite` is not given.
        """
        file = argument_values.file_path(path)
        if file.exists() and not overwrite:
            raise UsageError(f"{file}: is there already; give another path, or overwrite=True")
        atomic_write.replace_text(file, self.recipe(file))

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
        tree = request.recipe(self.tree, self.row, rates, steps, tested)
        return commented(head, {**tree, "outputs": {"model": ALONE}} if self.alone else tree)

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
