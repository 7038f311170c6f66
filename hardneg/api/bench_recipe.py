"""The recipe of `bench`: one training protocol, with each file's negatives, random ones, and more in-batch ones."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from hardneg.api.adhoc_recipe import planned_recipe, training_stage, warn
from hardneg.losses import TEMPERATURE
from hardneg.records.depths import MINED_DEPTH
from hardneg.records.errors import RecipeError, UsageError
from hardneg.records.named_plugins import HARDNESS, INFONCE, RANDOM, TOPK

if TYPE_CHECKING:
    from hardneg.recipe.plan import Plan

IN_BATCH, SHIPPED = "in-batch", "as shipped"
BASELINES = (IN_BATCH, RANDOM)
SCORES, REPORT = "scores", "report"
METRIC = "mrr@10"
"""What learning rates are chosen by."""
STATIC_RATES, OTHER_RATES = (0.01, 0.03, 0.1), (1e-5, 3e-5, 1e-4)
"""Learning rates to choose from: of a table of token vectors, and of a transformer."""
TRAINED = {"max_steps": 400, "batch_size": 32}
"""Of each arm, by default."""
MARGIN = 0.015
"""Within which systems are equivalent, by default."""
_MOST = 1000
"""Negatives of a query that are trained with: the first ones of the file."""
_LOSS = {"name": INFONCE, "temperature": TEMPERATURE}
_OPTIONS = {**TRAINED, "negatives_per_query": 1, "learning_rate": 0.03, "weight_decay": 0.0, "warmup_steps": 5}
_DEPTH = 1000
_TOKENS = 128
_MINED = {"depth": MINED_DEPTH, "positives": True}
_METRICS = (METRIC, "recall@100", "recall@1000")


@dataclass(frozen=True)
class BenchRecipe:
    """One student, loss and protocol, and arms that differ in their negatives alone: `in-batch`, `random`, and files.

    Each arm scores as many documents a query: `in-batch` has a positive of another query where the others have a mined
    negative. files: of negatives, by the label of their row. options: of all trainings. seeds: how many. rates: the
    learning rate of each arm, else the usual one. tuning: whether it is the one that rates are chosen by: one seed,
    measured on the dev queries.
    """

    files: Mapping[str, Path]
    form: str
    dataset: str
    model: str
    options: Mapping[str, Any]
    seeds: int
    equivalence_margin: float
    seed: int
    settings: Sequence[str] = ()
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
    def tree(self) -> dict[str, Any]:
        """The recipe as YAML has it."""
        from hardneg.recipe.language import replaced

        of_split = {"split": "dev"} if self.tuning else {}
        search = {"stage": "search", "depth": _DEPTH, **of_split}
        stages: dict[str, Any] = {
            "start-index": {"stage": "encode"},
            "start-test": {**search, "index": "start-index"},
            "start-train": {**search, "index": "start-index", "split": "train", **_MINED},
            self.negatives_of(RANDOM): {"stage": "mine", "miner": {"name": RANDOM, "count": 10}},
            self.negatives_of(IN_BATCH): {
                "stage": "mine",
                "positives_of_others": 10,
                "miner": {"name": TOPK, "depth": 10},
            },
        }
        for label, path in self.files.items():
            reading = {"file": str(path), "form": self.form, "miner": {"name": TOPK, "depth": _MOST}, "fill_to": 1}
            stages[self.negatives_of(label)] = {"stage": "mine", **reading}
        usual = {name: value for name, value in _OPTIONS.items() if name not in replaced(self.options)}
        for label, name in self.stages.items():
            rate = {"learning_rate": self.rates[label]} if label in self.rates else {}
            arm = {"negatives": self.negatives_of(label), "loss": _LOSS}
            stages |= {
                name: training_stage(arm, {**usual, **self.options, **rate}),
                f"{name}-index": {"stage": "encode", "model": name},
                f"{name}-test": {**search, "index": f"{name}-index"},
            }
        own = {label: f"{self.stages[label]}-test" for label in (*BASELINES, *self.files)}
        runs = {**{label: own.pop(label) for label in BASELINES}, SHIPPED: "start-test", **own}
        measured = {"baselines": [*BASELINES], "metrics": [*_METRICS], "equivalence_margin": self.equivalence_margin}
        negatives = {label: self.negatives_of(label) for label in (RANDOM, *self.files)}
        hardness = {HARDNESS: {"negatives": negatives, "run": "start-train"}}
        analyses = {"the student as shipped": HARDNESS}
        stages |= {
            SCORES: {"stage": "evaluate", "runs": runs, **measured, "by_group": "where_known", **of_split},
            HARDNESS: {"stage": "analyze", "split": "train", "analysis": hardness},
            REPORT: {"stage": "report", "evaluation": SCORES, "analyses": analyses, "training": self.stages},
        }
        return {
            "title": "Bench for negatives",
            "dataset": self.dataset,
            "model": {"name": self.model, "query_length": _TOKENS, "document_length": _TOKENS},
            "seed": self.seed,
            "seeds": [*range(1, 2 if self.tuning else self.seeds + 1)],
            "stages": stages,
            "outputs": {"model": RANDOM, "index": f"{RANDOM}-index"},
        }

    def plan(self, tell: Callable[[str], None] = warn) -> "Plan":
        """Its steps.

        Raises:
            RecipeError: it has mistakes; all of them are told.
            HardnegError: the dataset or the model is not there.
        """
        from hardneg.recipe.yaml_load import as_yaml

        with TemporaryDirectory() as folder:
            path = Path(folder) / "bench.yaml"
            path.write_text(as_yaml(self.tree), "utf-8")
            try:
                return planned_recipe(str(path), None, self.settings, tell)
            except RecipeError as error:
                raise RecipeError("hardneg bench", error.problems) from None
