"""The recipe of `bench`: one training protocol, with each file's negatives, random ones, and more in-batch ones."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from hardneg.api.adhoc_recipe import planned_recipe, training_stage, warn
from hardneg.records.errors import RecipeError, UsageError
from hardneg.records.named_plugins import HARDNESS, RANDOM, TOPK

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
"""Within which systems are equivalent, by default; that of `bases/doses` too."""
_MOST = 1000
"""Negatives of a query that are trained with: the first ones of the file."""
_UNUSED = ("permuted-negatives", "permuted", "top-10-negatives", "top-10")


@dataclass(frozen=True)
class BenchRecipe:
    """A recipe over `bases/doses`, which has the student, the loss and the arms `in-batch` and `random`.

    files: of negatives, by the label of their row. options: of all trainings. seeds: how many. rates: the learning
    rate of each arm, the base's where there is none. tuning: whether it is the one that rates are chosen by: one seed,
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
        return f"{self.stages[label]}-negatives"

    @property
    def tree(self) -> dict[str, Any]:
        """The recipe as YAML has it."""
        stages: dict[str, Any] = dict.fromkeys(_UNUSED)
        for label, name in self.stages.items():
            stages[name] = {"options": {"learning_rate": self.rates[label]}} if label in self.rates else {}
        for label, path in self.files.items():
            reading = {"file": str(path), "form": self.form, "miner": {"name": TOPK, "depth": _MOST}, "fill_to": 1}
            stages[self.negatives_of(label)] = {"stage": "mine", **reading}
            trained = {"stage": "train", "system": label, "negatives": self.negatives_of(label)}
            stages[self.stages[label]] = {**trained, **stages[self.stages[label]]}
        of_split, training = {"split": "dev"} if self.tuning else {}, training_stage({}, self.options)
        measured = {"baselines": [*BASELINES], "equivalence_margin": self.equivalence_margin, **of_split}
        negatives = {RANDOM: "random-negatives", **{label: self.negatives_of(label) for label in self.files}}
        hardness = {HARDNESS: {"negatives": negatives, "run": "start-train"}}
        stages |= {
            SCORES: measured,
            HARDNESS: {"stage": "analyze", "split": "train", "analysis": hardness},
            REPORT: {"analyses": {"the student as shipped": HARDNESS}},
        }
        return {
            "extends": "bases/doses",
            "title": "Bench for negatives",
            "dataset": self.dataset,
            "model": {"name": self.model},
            "seed": self.seed,
            "seeds": [*range(1, 2 if self.tuning else self.seeds + 1)],
            "defaults": {"search": of_split, "train": {k: v for k, v in training.items() if k != "stage"}},
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
