"""`recommend`: decide whether to train with mined negatives, by short runs compared on dev queries, or by a rule."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any, Unpack

from hardneg.plugin import (
    arguments,
    errors,
    metrics_files,
    model_specs,
    recipes,
    resolving,
    sessions,
    start_java,
    stores,
    tables,
    training_options,
    training_stage,
)
from hardneg_advice import rule
from hardneg_advice.rule import ALONE, ARMS, FEW, FIRST, LEXICAL, METRIC, SHIPPED, TOP, trial

STATIC_RATES, OTHER_RATES = (0.01, 0.03, 0.1), (1e-5, 3e-5, 1e-4)
"""Learning rates to choose from, for a static model and for a transformer."""
TEMPERATURE = 0.05
STEPS = 400
"""The default number of steps per training run, as in the runs that evaluated the rule."""
_DEPTH = 200
_WIDTH = 110
_LOSS = "infonce"
_SYSTEM, _BASELINE = "Hard Neg", "In-Batch Neg"
_SPLIT = arguments.Arg("Split of the queries to choose on; never the test split.")
_OPTION = replace(arguments.TRAIN_OPTION, help="A training option, such as learning_rate=1e-4.", panel="Tuning")
_STEPS = arguments.Arg("Steps per training run; with 0, nothing is trained and the answer is a guess.", least=0)


@arguments.spelled_out
def recommend(
    dataset: arguments.Dataset,
    model: arguments.Model = "packaged:all-MiniLM-L6-v2",
    *,
    split: Annotated[str, _SPLIT] = "dev",
    train: Annotated[int, _STEPS] = STEPS,
    train_options: Annotated[Mapping[str, Any], _OPTION] = {},
    **where: Unpack[arguments.Where],
) -> "RecommendedNegatives":
    """Choose how to train on a collection by comparing short training runs, show why, and write a recipe for it.

    The model is trained with in-batch negatives alone, and with the top documents of its ranked lists as negatives, at
    three learning rates each. On dev queries, all are compared with the untrained model and, if installed, with BM25.

    Raises:
        UsageError: the split is the test split.
        RecipeError: there is no such training option.
        DataError: the dataset has no such split, or no split train.

    Example: hardneg recommend --dataset beir:FOLDER --model NAME --output recommended.yaml
    """
    session, options = sessions.Session.of(where, recommend), arguments.mapping_of("train_options", train_options)
    steps = arguments.whole_number("train", train)
    if split == "test":
        raise errors.UsageError("{split} test is reserved for the final evaluation; choose on another split", "split")
    trials = Trials(split, steps and options.get("max_steps", steps), options)
    recipe = session.recipe(recommend, dataset, model, trials.stages())
    trials = trials.fitted(recipe.check(lambda note: None).model)  # its plan reports the notes
    plan = session.begin(replace(recipe, stages=trials.stages()))
    artifacts = session.make(plan).artifacts
    ranks = json.loads((artifacts["ranks"].path / "positive-ranks.json").read_text("utf-8"))
    rows = None
    if steps:
        results = metrics_files.read_metrics(artifacts["trials"].path / "metrics.json").results
        rows = rule.compare({row: scores[METRIC] for row, scores in results.items()}, trials.rates)
    facts = artifacts["dataset"].facts
    return RecommendedNegatives(ranks, rows, facts, trials, plan.recipe.tree, [*plan.keys.values()])


@dataclass(frozen=True)
class Trials:
    """The training runs to compare, of `steps` steps each (0: none), with the training options `options`.

    split: the queries to choose on. rates: learning rates. usual: defaults for this model. bm25: whether to run BM25.
    """

    split: str
    steps: int
    options: Mapping[str, Any]
    rates: Sequence[float] = OTHER_RATES
    usual: Mapping[str, Any] = field(default_factory=dict)
    temperature: float = TEMPERATURE
    bm25: bool = False

    @property
    def batch(self) -> int:
        """The number of queries per step: the option `batch_size`, or its default."""
        return int(self.options.get("batch_size", training_options.LearningOptions.batch_size))

    def fitted(self, model: model_specs.ModelSpec) -> "Trials":
        """Return the trials with the rates and the temperature for a model, and with BM25 if Pyserini is installed.

        The temperature is 1 for scores other than cosines. A static model has no weight decay, as in star-static.
        """
        resolved = resolving.resolve(model, fetch=True)
        static, bm25 = getattr(resolved.family, "tables", False), False
        with suppress(errors.MissingDependency):
            start_java()
            bm25 = True
        usual = STATIC_RATES if static else OTHER_RATES
        return replace(
            self,
            rates=[self.options["learning_rate"]] if "learning_rate" in self.options else usual,
            usual={"weight_decay": 0.0} if static else {},
            temperature=TEMPERATURE if resolved.full.similarity == "cosine" else 1.0,
            bm25=bm25,
        )

    def stages(self) -> dict[str, Any]:
        """Return the stages that rank positives and, unless `steps` is 0, train each arm at each rate and evaluate."""
        ranks = {"positive-ranks": {"run": "run", "depth": TOP, "split": self.split}}
        stages = {
            "index": {"stage": "encode"},
            "run": self._list(self.split),
            "ranks": {"stage": "analyze", "analysis": ranks, "split": self.split},
        }
        if not self.steps:
            return stages
        beside, runs = self._beside(self.split)
        stages |= {"train-run": self._list("train"), "negatives": _MINING, **beside}
        for arm, rate in product(ARMS, self.rates):
            name = trial(arm, rate)
            runs[name] = f"{name}-test"
            stages |= self._trained(name, arm, rate, self.split)
        return stages | {"trials": {"stage": "evaluate", "runs": runs, "split": self.split, "metrics": [METRIC]}}

    def recipe(self, rates: Mapping[str, float], chosen: str, tested: str) -> dict[str, Any]:
        """Return stages and outputs of a recipe that trains both arms, tests on split `tested` and outputs `chosen`."""
        beside, runs = self._beside(tested)
        stages = {"index": {"stage": "encode"}, **beside, "train-run": self._list("train"), "negatives": _MINING}
        for arm, name in _TRAINED.items():
            stages |= self._trained(name, arm, rates[arm], tested)
        stages["scores"] = {
            "stage": "evaluate",
            "split": tested,
            "runs": {_BASELINE: f"{ALONE}-test", _SYSTEM: "model-test", **runs},
            "baselines": [_BASELINE, *runs],
            "metrics": [METRIC, "ndcg@10", "recall@100"],
        }
        stages["report"] = {"stage": "report", "evaluation": "scores", "training": {_BASELINE: ALONE, _SYSTEM: "model"}}
        return {"stages": stages, "outputs": {"model": _TRAINED[chosen]}}

    def _list(self, split: str) -> dict[str, Any]:
        return {"stage": "search", "index": "index", "split": split, "depth": _DEPTH, "positives": True}

    def _beside(self, split: str) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the stages that search without training, and their runs by row: the model as shipped, and BM25."""
        stages: dict[str, Any] = {"start-run": {"stage": "search", "index": "index", "split": split}}
        if not self.bm25:
            return stages, {SHIPPED: "start-run"}
        stages["bm25-index"] = {"stage": "index", "backend": {"name": "bm25", "language": "auto"}}
        stages["bm25-run"] = {"stage": "search", "index": "bm25-index", "split": split}
        return stages, {SHIPPED: "start-run", LEXICAL: "bm25-run"}

    def _trained(self, name: str, arm: str, rate: float, split: str) -> dict[str, Any]:
        """Return the stages of an arm's training, its index, and its search of the queries to compare on."""
        mined = {"negatives": "negatives"} if arm == FIRST else {}
        own = {"learning_rate": rate, "max_steps": self.steps or self.options.get("max_steps", STEPS)}
        options = {"negatives_per_query": 1, **self.usual, **self.options, **own}
        options |= {} if mined else {"negatives_per_query": 0}
        return {
            name: training_stage({**mined, "loss": {"name": _LOSS, "temperature": self.temperature}}, options),
            f"{name}-index": {"stage": "encode", "model": name},
            f"{name}-test": {"stage": "search", "index": f"{name}-index", "split": split},
        }


_MINING = {"stage": "mine", "runs": {"dense": "train-run"}, "miner": {"name": "topk", "depth": TOP}}
_TRAINED = {ALONE: ALONE, FIRST: "model"}
"""The recipe's training stage by arm."""


@dataclass(frozen=True)
class RecommendedNegatives:
    """The recommended way to train, with its reasons and recipe. keys: the keys of the artifacts that it is based on.

    ranks: ranks of positives. rows: results, None without training. dataset: dataset facts. tree: the trials' recipe.
    """

    ranks: Mapping[str, Any] = field(repr=False)
    rows: Mapping[str, Mapping[str, Any]] | None = field(repr=False)
    dataset: Mapping[str, Any] = field(repr=False)
    trials: Trials = field(repr=False)
    tree: Mapping[str, Any] = field(repr=False)
    keys: Sequence[str] = field(repr=False)

    @property
    def _guess(self) -> tuple[str, str]:
        return rule.advice(self.ranks, int(self.dataset["documents"]), self.trials.batch)

    @property
    def arm(self) -> str:
        """The arm with the higher mean in the trials (`in-batch` if equal) or, without trials, the rule's choice."""
        rows = self.rows
        return self._guess[0] if rows is None else max(ARMS, key=lambda arm: float(rows[arm]["mean"]))

    def answer(self) -> str:
        """Return the advice in one or two sentences, with the scores behind it if models were trained."""
        best, rows = ARMS[self.arm], self.rows
        if rows is None:
            return f"A guess without training runs: {best}."
        name, row = next((name, row) for name, row in rows.items() if row["best"])
        scores = f"{METRIC} {tables.number(row['mean'])} {rule.ends_of(row)} on {self.ranks['queries']:,} queries"
        if name == SHIPPED:
            return f"Do not train: as shipped, the model has {scores}, and no run beats it; best of these: {best}."
        how = f"learning rate {row['rate']:g}, {self.trials.steps:,} steps, loss {_LOSS}"
        return f"Train with {best}: {how}. {scores}, against {tables.number(rows[SHIPPED]['mean'])} as shipped."

    def reasons(self) -> list[str]:
        """Return sentences on the evidence, the rule's advice and, if the rule decides, the rule's limits."""
        arm, reason = self._guess
        queries, said = self.ranks["queries"], f"{ARMS[arm]}. {reason}"
        few = [f"Too few queries to choose on: {queries}; use at least {FEW}."] if queries < FEW else []
        facts = rule.facts(self.ranks, int(self.dataset["documents"]), self.trials.batch)
        if self.rows is None:
            return [*few, facts, f"By the rule: {said}", *rule.doubts(self.ranks)]
        return [*few, *rule.sentences(self.rows), facts, f"Without training runs, the advice would have been: {said}"]

    def to_dict(self) -> dict[str, Any]:
        """Return the measurements and the choice as JSON values."""
        ranks = {name: value for name, value in self.ranks.items() if name != "ranks"}
        train, (arm, reason) = self.rows is None or not self.rows[SHIPPED]["best"], self._guess
        guess = {"arm": arm, "reason": reason}
        answer = {"answer": self.answer(), "train": train, "arm": self.arm, "without_training": guess}
        return {**answer, "trials": self.rows, "ranks": ranks, "documents": self.dataset["documents"]}

    def recipe(self, path: Path) -> str:
        """Return the recipe as YAML. Comments give the reasons, and the command to run the recipe from file `path`."""
        trials, rows = self.trials, self.rows
        tested = "test" if self.dataset["splits"].get("test", {}).get("queries") else trials.split
        head = [f"Chosen by `hardneg recommend` on the queries of split {trials.split}", " "]
        head += [f"  hardneg recipe run {path}", " ", self.answer(), *self.reasons()]
        if tested == trials.split:
            head.append(f"There is no test split, so the recipe is tested on split {tested}, on which it was chosen.")
        rates = {arm: float(rows[arm]["rate"]) if rows else trials.rates[0] for arm in ARMS}
        shared = {key: self.tree[key] for key in ("dataset", "model", "seed")}
        tree = {"title": "Recommended negatives", **shared, **trials.recipe(rates, self.arm, tested)}
        lines = [line for each in head for line in ([each] if each.startswith(" ") else wrap(each, _WIDTH))]
        return "".join(f"# {line}".rstrip() + "\n" for line in lines) + recipes.as_yaml(tree)

    def write(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the recipe, with the evidence as comments.

        Raises:
            UsageError: the file exists, and `overwrite` is not set.
        """
        file = arguments.file_path(path)
        if file.exists() and not overwrite:
            raise errors.UsageError(f"{file}: already exists; use another path, or overwrite=True")
        stores.replace_text(file, self.recipe(file))

    def section(self) -> tables.Section:
        """Return the reasons, and the table of training runs if there are any, but not the answer."""
        return tables.Section("", [rule.table(self.rows)] if self.rows else [], lines=self.reasons())

    def __repr__(self) -> str:
        return f"RecommendedNegatives({' '.join([self.answer(), *self.reasons()])})"
