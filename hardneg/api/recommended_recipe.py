"""The stages behind `hardneg recommend`, and the recipe that it writes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Any, Literal, Protocol, get_args

from hardneg.api.adhoc_recipe import ENCODED, MINED, SEARCHED, TRAINED, training_stage
from hardneg.losses import TEMPERATURE
from hardneg.records.errors import UsageError
from hardneg.records.named_plugins import BM25, MINER_SWEEP, POSITIVE_RANKS, RANKNET, STAR, TOPK
from hardneg.records.wording import suggestion

Goal = Literal["top", "recall"]
"""What is to be good: the order of the first documents (MRR@10), or how many relevant ones are listed (R@100)."""

GOALS: tuple[Goal, ...] = get_args(Goal)
SWEEP, JUDGE, TRIALS = "sweep", "reranked", "trials"
ALONE = "in-batch"
METRIC = "mrr@10"
_RECALL = "recall@100"
TRAIN_RUN, _TRAIN_JUDGE = "train-run", "train-reranked"
_SYSTEM, _BASELINE, _SHIPPED, _BM25 = "Hard Neg", "In-Batch Neg", "as shipped", "BM25"
_DEPTHS = (10, 20, 50, 100)
_WIDTH = 110
_MEASURED = "test"


class Chosen(Protocol):
    """What a recipe needs of a recommendation.

    row: the miner, as the sweep tells of it. steps: of the trainings that it was chosen by, None where there were none.
    alone: whether in-batch negatives alone are recommended instead.
    """

    @property
    def row(self) -> Mapping[str, Any]: ...

    @property
    def steps(self) -> int | None: ...

    @property
    def alone(self) -> bool: ...


@dataclass(frozen=True)
class RecommendRequest:
    """What to recommend by.

    split: the queries to choose by. depth: how far down their lists go. reranker: a second model that filters decide
    by, as a recipe names it. options: of training. temperature: of the losses. usual: options of training that the
    model's kind takes where `options` does not say otherwise. bm25: whether a row of BM25 stands beside. goal: what is
    to be good; None is answered for each, and the recipe is the one for the first.
    """

    split: str
    depth: int
    reranker: Mapping[str, Any] | None
    options: Mapping[str, Any]
    temperature: float = TEMPERATURE
    usual: Mapping[str, Any] = field(default_factory=dict)
    bm25: bool = True
    goal: str | None = None

    def __post_init__(self) -> None:
        if self.goal is not None and self.goal not in GOALS:
            message = f"no such goal{suggestion(self.goal, GOALS)}; there are {', '.join(GOALS)}"
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
        """How many negatives of a query are tried."""
        return sorted({*(depth for depth in _DEPTHS if depth < self.depth), self.depth})

    def before(self, steps: int | None) -> dict[str, Any]:
        """All stages as far as they are known before the sweep: each depth is tried with the top of the lists."""
        if steps is None:
            return self.sweep()
        return self.trials([{"miner": {"name": TOPK, "depth": depth}, "by": ""} for depth in self.depths], steps)

    def sweep(self) -> dict[str, Any]:
        """The stages that compare miners."""
        analysis = {"run": SEARCHED, "index": ENCODED, **({"scores": {JUDGE: JUDGE}} if self.reranker else {})}
        analyses = {
            MINER_SWEEP: {**analysis, "depths": self.depths, "split": self.split},
            POSITIVE_RANKS: {"run": SEARCHED, "index": ENCODED, "depth": min(self.depths), "split": self.split},
        }
        return {
            ENCODED: {"stage": "encode"},
            **self._searched(SEARCHED, JUDGE, self.split, self.reranker is not None),
            SWEEP: {"stage": "analyze", "analysis": analyses, "split": self.split},
        }

    @property
    def metric(self) -> str:
        """What trainings are judged by: that of the goal."""
        return _RECALL if self.goal == "recall" else METRIC

    def trials(self, rows: Sequence[Mapping[str, Any]], steps: int) -> dict[str, Any]:
        """The same stages, and those that train with each of these miners and measure by the same queries."""
        judged = any(row["by"] for row in rows)
        stages = {**self.sweep(), **self._searched(TRAIN_RUN, _TRAIN_JUDGE, "train", judged)}
        runs = {}
        for number, row in enumerate([None, *rows]):
            name = ALONE if row is None else f"{TRAINED}-{number}"
            if row is not None:
                stages[f"{MINED}-{number}"] = _mining(row, TRAIN_RUN, _TRAIN_JUDGE)
            stages[name] = self._training(None if row is None else f"{MINED}-{number}", {"max_steps": steps})
            stages[f"{name}-index"] = {"stage": "encode", "model": name}
            runs[name] = f"{name}-run"
            stages[runs[name]] = {"stage": "search", "index": f"{name}-index", "split": self.split}
        return {**stages, TRIALS: {"stage": "evaluate", "runs": runs, "split": self.split, "metrics": [self.metric]}}

    def _searched(self, run: str, judge: str, split: str, judged: bool) -> dict[str, Any]:
        lists = {"split": split, "depth": self.depth, "positives": True}
        stages: dict[str, Any] = {run: {"stage": "search", "index": ENCODED, **lists}}
        if judged:
            stages[judge] = {"stage": "rerank", "run": run, "plugin": self.reranker, **lists}
        return stages

    def _training(self, negatives: str | None, steps: Mapping[str, Any]) -> dict[str, Any]:
        options = {"negatives_per_query": 1, **self.usual, **self.options, **steps}
        if negatives is None:
            loss = {"name": RANKNET, "pairs": "all", "temperature": self.temperature}
            return training_stage({"loss": loss}, {**options, "negatives_per_query": 0})
        loss = {"name": STAR, "temperature": self.temperature}
        return training_stage({"negatives": negatives, "loss": loss}, options)

    def recipe(self, tree: Mapping[str, Any], chosen: Chosen, comments: Mapping[str, str], tested: str) -> str:
        """A recipe that trains with the chosen miner; other ways stand beside it.

        These are in-batch negatives alone, the top of the lists as deep as was searched, the model as shipped, BM25.
        tree: the recipe of the command. told: comments, by the stage that they stand before, `head` those of the
        whole. tested: the split to evaluate on.
        """
        row, steps = chosen.row, chosen.steps
        max_steps = {} if steps is None or "max_steps" in self.options else {"max_steps": steps}
        lexical, top = self._lexical(tested), self._top(row, max_steps)
        beside = [stage["system"] for stage in top.values() if "system" in stage]
        runs = {**({_BM25: "bm25-run"} if lexical else {}), _SHIPPED: "start-run"}
        stages = {
            ENCODED: {"stage": "encode"},
            "start-run": {"stage": "search", "index": ENCODED, "split": tested},
            **lexical,
            **self._searched(TRAIN_RUN, _TRAIN_JUDGE, "train", bool(row["by"])),
            MINED: _mining(row, TRAIN_RUN, _TRAIN_JUDGE),
            ALONE: {**self._training(None, max_steps), "system": _BASELINE},
            **top,
            TRAINED: {**self._training(MINED, max_steps), "system": _SYSTEM},
            "scores": {
                "stage": "evaluate",
                "runs": runs,
                "baselines": [_BASELINE, *beside, *reversed(runs)],
                "metrics": [METRIC, "ndcg@10", _RECALL],
            },
            "report": {"stage": "report", "evaluation": "scores"},
        }
        of_split = (
            {"defaults": {"search": {"split": tested}, "evaluate": {"split": tested}}} if tested != "test" else {}
        )
        head = {
            "title": "Recommended negatives",
            **{key: tree[key] for key in ("dataset", "model", "seed")},
            **of_split,
        }
        outputs = {"model": ALONE if chosen.alone else TRAINED}
        return "".join(_written({**head, "stages": stages, "outputs": outputs}, comments))

    def _lexical(self, tested: str) -> dict[str, Any]:
        """The stages of BM25, where it is to stand beside."""
        if not self.bm25:
            return {}
        return {
            "bm25-index": {"stage": "index", "backend": BM25},
            "bm25-run": {"stage": "search", "index": "bm25-index", "split": tested},
        }

    def _top(self, row: Mapping[str, Any], steps: Mapping[str, Any]) -> dict[str, Any]:
        """The stages of a training with the top of the lists as deep as was searched, unless that is the row."""
        top = {"miner": {"name": TOPK, "depth": self.depth}, "by": ""}
        if row["miner"] == top["miner"]:
            return {}
        training = {**self._training("top-negatives", steps), "system": f"Top {self.depth}"}
        return {"top-negatives": _mining(top, TRAIN_RUN, _TRAIN_JUDGE), "top": training}


def _mining(row: Mapping[str, Any], run: str, judge: str) -> dict[str, Any]:
    runs = {"dense": run, **({"scores": judge} if row["by"] else {})}
    return {"stage": "mine", "runs": runs, "miner": dict(row["miner"])}


def _written(tree: Mapping[str, Any], comments: Mapping[str, str]) -> Iterator[str]:
    """The YAML of a tree, with comments before the stages that they are about."""
    from hardneg.recipe.yaml_load import as_yaml

    yield from _comment(comments.get("head", ""))
    for key, value in tree.items():
        if key != "stages":
            yield as_yaml({key: value})
            continue
        yield "stages:\n"
        for name, stage in value.items():
            yield from _comment(comments.get(name, ""), "  ")
            yield "".join(f"  {line}\n" for line in as_yaml({name: stage}).splitlines())


def _comment(text: str, indent: str = "") -> Iterator[str]:
    """Comment lines; a paragraph that begins with a blank is one line as it is."""
    for paragraph in text.split("\n") if text else ():
        lines = [paragraph] if paragraph.startswith(" ") else wrap(paragraph, _WIDTH)
        yield from (f"{indent}# {line}".rstrip() + "\n" for line in lines)
