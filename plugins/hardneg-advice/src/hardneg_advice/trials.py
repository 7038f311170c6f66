"""The stages behind `hardneg recommend`, and the recipe that it writes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Any, Literal, get_args

from hardneg.plugin import LearningOptions, UsageError, recipe_text, training_stage, wording
from hardneg_advice.protocol import OTHER_RATES, SHIPPED, TEMPERATURE

Goal = Literal["top", "recall"]
"""What is to be good: the order of the first documents (MRR@10), or how many relevant ones are listed (R@100)."""

GOALS: tuple[Goal, ...] = get_args(Goal)
SWEEP, JUDGE, TRIALS = "sweep", "reranked", "trials"
LOSS = "infonce"
ALONE, FIRST, LEXICAL = "in-batch", "first", "BM25"
METRIC = "mrr@10"
STEPS = 400
"""Of each training, by default; as in the trainings that the rule was judged by."""
_RECALL = "recall@100"
TRAIN_RUN, _TRAIN_JUDGE = "train-run", "train-reranked"
_MINED, _TRAINED = "negatives", "model"
_SYSTEM, _BASELINE = "Hard Neg", "In-Batch Neg"
_DEPTHS = (10, 20, 50, 100)
_WIDTH = 110
_MEASURED = "test"
_INDEX, _RUN = "index", "run"


@dataclass(frozen=True)
class RecommendRequest:
    """What to recommend by.

    split: the queries to choose by. depth: how far down their lists go. reranker: a second model that filters decide
    by, as a recipe names it. options: of training. temperature: of the losses. usual: options of training that the
    model's kind takes where `options` does not say otherwise. usual_rates: learning rates of that kind, to choose from.
    bm25: whether a row of BM25 stands beside. goal: what is to be good; None is answered for each, and the recipe is
    the one for the first.
    """

    split: str
    depth: int
    reranker: Mapping[str, Any] | None
    options: Mapping[str, Any]
    temperature: float = TEMPERATURE
    usual: Mapping[str, Any] = field(default_factory=dict)
    usual_rates: Sequence[float] = OTHER_RATES
    bm25: bool = False
    goal: str | None = None

    def __post_init__(self) -> None:
        if self.goal is not None and self.goal not in GOALS:
            message = f"no such goal{wording.suggestion(self.goal, GOALS)}; there are {', '.join(GOALS)}"
            raise UsageError(f"{{goal}}: {self.goal!r}: {message}", "goal")
        if self.depth < _DEPTHS[0]:
            message = f"must be {_DEPTHS[0]} or more (got {self.depth}), the least depth that is tried"
            raise UsageError(f"{{depth}}: {message}", "depth")
        if self.split == _MEASURED:
            raise UsageError(
                f"split {_MEASURED} is what systems are measured on in the end; choose by another, such as dev"
            )

    @property
    def depths(self) -> list[int]:
        """How many negatives of a query are swept."""
        return sorted({*(depth for depth in _DEPTHS if depth < self.depth), self.depth})

    @property
    def metric(self) -> str:
        """What trainings are judged by: that of the goal."""
        return _RECALL if self.goal == "recall" else METRIC

    @property
    def rates(self) -> Sequence[float]:
        """Learning rates to choose from: the one that was given, or those of the model's kind."""
        return [self.options["learning_rate"]] if "learning_rate" in self.options else self.usual_rates

    @property
    def batch(self) -> int:
        """The queries of a step."""
        return int(self.options.get("batch_size", LearningOptions.batch_size))

    def sweep(self) -> dict[str, Any]:
        """The stages that compare miners."""
        analysis = {"run": _RUN, "index": _INDEX, **({"scores": {JUDGE: JUDGE}} if self.reranker else {})}
        analyses = {
            "miner-sweep": {**analysis, "depths": self.depths, "split": self.split},
            "positive-ranks": {"run": _RUN, "index": _INDEX, "depth": min(self.depths), "split": self.split},
        }
        return {
            _INDEX: {"stage": "encode"},
            **self._searched(_RUN, JUDGE, self.split, self.reranker is not None),
            SWEEP: {"stage": "analyze", "analysis": analyses, "split": self.split},
        }

    def trials(self, arms: Mapping[str, Mapping[str, Any] | None], steps: int) -> dict[str, Any]:
        """The same stages, and those that train by each arm at each rate, and measure by the same queries.

        arms: by name the miner, as the sweep tells of it; None: in-batch negatives alone.
        """
        judged = any(row["by"] for row in arms.values() if row is not None)
        beside, runs = self._beside(self.split)
        stages = {**self.sweep(), **self._searched(TRAIN_RUN, _TRAIN_JUDGE, "train", judged), **beside}
        for arm, row in arms.items():
            if row is not None:
                stages[f"{arm}-negatives"] = _mining(row)
            for rate in self.rates:
                name = trial(arm, rate)
                training = self._training(f"{arm}-negatives" if row else None, rate, steps)
                runs[name] = f"{name} run"
                stages |= {
                    name: training,
                    f"{name} index": {"stage": "encode", "model": name},
                    runs[name]: {"stage": "search", "index": f"{name} index", "split": self.split},
                }
        return {**stages, TRIALS: {"stage": "evaluate", "runs": runs, "split": self.split, "metrics": [self.metric]}}

    def recipe(
        self, tree: Mapping[str, Any], row: Mapping[str, Any], rates: tuple[float, float], steps: int, tested: str
    ) -> dict[str, Any]:
        """A recipe that trains with a row's miner, and with in-batch negatives alone beside it, as the trials did.

        tree: the recipe of the command. rates: with in-batch negatives alone, and with the miner. tested: the split to
        evaluate on.
        """
        beside, runs = self._beside(tested)
        stages = {
            _INDEX: {"stage": "encode"},
            **beside,
            **self._searched(TRAIN_RUN, _TRAIN_JUDGE, "train", bool(row["by"])),
            _MINED: _mining(row),
            **_searched_model(ALONE, self._training(None, rates[0], steps), tested),
            **_searched_model(_TRAINED, self._training(_MINED, rates[1], steps), tested),
            "scores": {
                "stage": "evaluate",
                "split": tested,
                "runs": {_BASELINE: f"{ALONE}-test", _SYSTEM: f"{_TRAINED}-test", **runs},
                "baselines": [_BASELINE, *runs],
                "metrics": [METRIC, "ndcg@10", _RECALL],
            },
            "report": {"stage": "report", "evaluation": "scores", "training": {_BASELINE: ALONE, _SYSTEM: _TRAINED}},
        }
        shared = {key: tree[key] for key in ("dataset", "model", "seed")}
        return {"title": "Recommended negatives", **shared, "stages": stages, "outputs": {"model": _TRAINED}}

    def _searched(self, run: str, judge: str, split: str, judged: bool) -> dict[str, Any]:
        lists = {"split": split, "depth": self.depth, "positives": True}
        stages: dict[str, Any] = {run: {"stage": "search", "index": _INDEX, **lists}}
        if judged:
            stages[judge] = {"stage": "rerank", "run": run, "plugin": self.reranker, **lists}
        return stages

    def _beside(self, split: str) -> tuple[dict[str, Any], dict[str, str]]:
        """The stages that search without a training, and their runs by row: the model as shipped, and BM25."""
        stages: dict[str, Any] = {"start-run": {"stage": "search", "index": _INDEX, "split": split}}
        if not self.bm25:
            return stages, {SHIPPED: "start-run"}
        stages["bm25-index"] = {"stage": "index", "backend": {"name": "bm25", "language": "auto"}}
        stages["bm25-run"] = {"stage": "search", "index": "bm25-index", "split": split}
        return stages, {SHIPPED: "start-run", LEXICAL: "bm25-run"}

    def _training(self, negatives: str | None, rate: float, steps: int) -> dict[str, Any]:
        fields = {"loss": {"name": LOSS, "temperature": self.temperature}}
        options = {"negatives_per_query": 1, **self.usual, **self.options, "learning_rate": rate, "max_steps": steps}
        if negatives is None:
            return training_stage(fields, {**options, "negatives_per_query": 0})
        return training_stage({"negatives": negatives, **fields}, options)


def commented(head: Sequence[str], tree: Mapping[str, Any]) -> str:
    """A recipe below comments: a paragraph each, but one that begins with a blank is one line as it is."""
    lines = [line for each in head for line in ([each] if each.startswith(" ") else wrap(each, _WIDTH))]
    return "".join(f"# {line}".rstrip() + "\n" for line in lines) + recipe_text(tree)


def trial(arm: str, rate: float) -> str:
    """The stage that trains by an arm at a learning rate, and its row."""
    return f"{arm} at {rate:g}"


def _searched_model(name: str, training: Mapping[str, Any], split: str) -> dict[str, Any]:
    """A training with its model's index, and the search of the queries to test by."""
    return {
        name: dict(training),
        f"{name}-index": {"stage": "encode", "model": name},
        f"{name}-test": {"stage": "search", "index": f"{name}-index", "split": split},
    }


def _mining(row: Mapping[str, Any]) -> dict[str, Any]:
    runs = {"dense": TRAIN_RUN, **({"scores": _TRAIN_JUDGE} if row["by"] else {})}
    return {"stage": "mine", "runs": runs, "miner": dict(row["miner"])}
