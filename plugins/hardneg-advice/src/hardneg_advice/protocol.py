"""The protocol of `bench`: one training with each file's negatives, with random ones, and with more in-batch ones."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hardneg.plugin import UsageError, training_stage

IN_BATCH, RANDOM, SHIPPED = "in-batch", "random", "as shipped"
BASELINES = (IN_BATCH, RANDOM)
SCORES, REPORT, HARDNESS = "scores", "report", "hardness"
METRIC = "mrr@10"
"""What learning rates are chosen by."""
STATIC_RATES, OTHER_RATES = (0.01, 0.03, 0.1), (1e-5, 3e-5, 1e-4)
"""Learning rates to choose from: of a table of token vectors, and of a transformer."""
TRAINED = {"max_steps": 400, "batch_size": 32}
"""Of each arm, by default."""
MARGIN = 0.015
"""Within which systems are equivalent, by default."""
TEMPERATURE = 0.05
_MOST = 1000
"""Negatives of a query that are trained with: the first ones of the file."""
_LOSS = {"name": "infonce", "temperature": TEMPERATURE}
_OPTIONS = {**TRAINED, "negatives_per_query": 1, "learning_rate": 0.03, "weight_decay": 0.0, "warmup_steps": 5}
_INSTEAD = {"epochs": "max_steps", "warmup_ratio": "warmup_steps"}
"""Options that set in another way what others set."""
_DEPTH = 1000
_TOKENS = 128
_METRICS = (METRIC, "recall@100", "recall@1000")


@dataclass(frozen=True)
class Protocol:
    """One student, loss and protocol, and arms that differ in their negatives alone: `in-batch`, `random`, and files.

    Each arm scores as many documents a query: `in-batch` has a positive of another query where the others have a mined
    negative. files: of negatives, by the label of their row. recipe: what the command makes recipes from, of which
    this fills the stages. options: of all trainings. seeds: how many. rates: the learning rate of each arm, else the
    usual one. tuning: whether it is the one that rates are chosen by: one seed, measured on the dev queries.
    """

    files: Mapping[str, Path]
    form: str
    options: Mapping[str, Any]
    seeds: int
    equivalence_margin: float
    recipe: Any = None
    rates: Mapping[str, float] = field(default_factory=dict)
    tuning: bool = False

    def __post_init__(self) -> None:
        if taken := {*BASELINES, SHIPPED} & {*self.files}:
            raise UsageError(f"negatives: {taken.pop()!r} is a row of its own; name the file otherwise")

    @property
    def stages(self) -> dict[str, str]:
        """The stage that trains each arm, by the label of its row."""
        files = {label: f"file-{number}" for number, label in enumerate(self.files, 1)}
        return {**{label: label for label in BASELINES}, **files}

    def negatives_of(self, label: str) -> str:
        """The stage that reads a file's negatives."""
        return "drawn-negatives" if label == IN_BATCH else f"{self.stages[label]}-negatives"

    @property
    def trained(self) -> dict[str, Any]:
        """All options of a training but the rate that is chosen."""
        replaced = {usual for given, usual in _INSTEAD.items() if given in self.options}
        return {name: value for name, value in _OPTIONS.items() if name not in replaced} | {**self.options}

    @property
    def tree(self) -> dict[str, Any]:
        """The stages as YAML has them."""
        of_split = {"split": "dev"} if self.tuning else {}
        search = {"stage": "search", "depth": _DEPTH, **of_split}
        mined = {"split": "train", "depth": 210, "positives": True}
        drawn: dict[str, Any] = {"miner": {"name": RANDOM, "count": 10}}
        stages: dict[str, Any] = {
            "start-index": {"stage": "encode"},
            "start-test": {**search, "index": "start-index"},
            "start-train": {**search, "index": "start-index", **mined},
            self.negatives_of(RANDOM): {"stage": "mine", **drawn},
            self.negatives_of(IN_BATCH): {
                "stage": "mine",
                "positives_of_others": 10,
                "miner": {"name": "topk", "depth": 10},
            },
        }
        for label, path in self.files.items():
            reading = {"file": str(path), "form": self.form, "miner": {"name": "topk", "depth": _MOST}, "fill_to": 1}
            stages[self.negatives_of(label)] = {"stage": "mine", **reading}
        for label, name in self.stages.items():
            rate = {"learning_rate": self.rates[label]} if label in self.rates else {}
            arm = {"negatives": self.negatives_of(label), "loss": _LOSS}
            stages |= {
                name: training_stage(arm, {**self.trained, **rate}),
                f"{name}-index": {"stage": "encode", "model": name},
                f"{name}-test": {**search, "index": f"{name}-index"},
            }
        own = {label: f"{self.stages[label]}-test" for label in (*BASELINES, *self.files)}
        runs = {**{label: own.pop(label) for label in BASELINES}, SHIPPED: "start-test", **own}
        measured = {"baselines": [*BASELINES], "metrics": [*_METRICS], "equivalence_margin": self.equivalence_margin}
        negatives = {label: self.negatives_of(label) for label in (RANDOM, *self.files)}
        hardness = {HARDNESS: {"negatives": negatives, "run": "start-train"}}
        analyses = {"the student as shipped": HARDNESS}
        return stages | {
            SCORES: {"stage": "evaluate", "runs": runs, **measured, "by_group": "where_known", **of_split},
            HARDNESS: {"stage": "analyze", "split": "train", "analysis": hardness},
            REPORT: {"stage": "report", "evaluation": SCORES, "analyses": analyses, "training": self.stages},
        }

    @property
    def filled(self) -> Any:
        """The command's recipe with these stages."""
        top = {
            "title": "Bench for negatives",
            "model": {"query_length": _TOKENS, "document_length": _TOKENS},
            "seeds": [*range(1, 2 if self.tuning else self.seeds + 1)],
            "outputs": {"model": RANDOM, "index": f"{RANDOM}-index"},
        }
        return replace(self.recipe, stages=self.tree, top=top)
