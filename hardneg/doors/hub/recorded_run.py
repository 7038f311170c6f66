"""The record of a run folder: the stages of its results, their inputs and options, and their scores."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from hardneg.api.evaluation import Evaluation
from hardneg.evaluation.metrics import Scores
from hardneg.evaluation.metrics_json import Measured, read_metrics
from hardneg.recipe.load import Recipe, check_recipe
from hardneg.recipe.run_folder import read_lock
from hardneg.records.errors import HardnegError
from hardneg.records.layout import DATASET, METRICS, START
from hardneg.records.named_plugins import HF
from hardneg.records.private_paths import dataset_name, without_paths
from hardneg.store.artifacts import Artifact, Store
from hardneg.verbs.evaluate import Evaluate


@dataclass(frozen=True)
class RecordedRun:
    """A run folder and its lock file; recipe: None where a plugin that it needs is not installed any more."""

    folder: Path
    store: Store
    lock: Mapping[str, Any]
    recipe: Recipe | None

    @classmethod
    def open(cls, folder: Path, store: Store) -> "RecordedRun":
        """Reads the lock file. Raises DataError where it is not one."""
        lock, recipe = read_lock(folder), None
        with suppress(HardnegError):
            recipe = check_recipe(lock["tree"], Path(f"{lock['recipe']}.yaml"), lock["preset"])
        return cls(folder, store, lock, recipe)

    @property
    def stages(self) -> Mapping[str, Any]:
        """The stages of its recipe; none where that is not known."""
        return self.recipe.stages if self.recipe else {}

    @property
    def dataset(self) -> str:
        """The dataset as the recipe names it, folders cut to their names."""
        named = dataset_name(self.lock["tree"].get(DATASET, ""))
        return str(named.get("source") or named.get("name")) if isinstance(named, Mapping) else str(named)

    @property
    def dataset_id(self) -> str | None:
        """Its id on the hub, where it is from there."""
        loader, _, source = self.dataset.partition(":")
        return source if loader == HF and "/" in source else None

    @property
    def dataset_title(self) -> str:
        """Its name, without a loader's."""
        return self.dataset.rpartition(":")[2].rpartition("/")[2]

    @property
    def shown_lock(self) -> bytes:
        """The lock file for publication: paths of this machine are cut to names."""
        tree = {**without_paths(self.lock["tree"]), DATASET: dataset_name(self.lock["tree"].get(DATASET, ""))}
        return yaml.safe_dump({**self.lock, "tree": tree}, sort_keys=False, allow_unicode=True).encode()

    def key(self, stage: str) -> str:
        """The key of a stage's result."""
        return str(self.lock["start_model"] if stage == START else self.lock["keys"].get(stage, ""))

    def artifact(self, stage: str) -> Artifact | None:
        """The result of a stage, where the store still has it."""
        return self.store.find(key) if (key := self.key(stage)).isalnum() else None

    def output(self, output_type: str) -> str | None:
        """The stage whose model or index the folder holds."""
        return self.recipe.outputs.get(output_type) if self.recipe else None

    def negatives_of(self, stage: str | None) -> list[str]:
        """The stages whose negatives a stage trains with."""
        spec = self.stages.get(stage or "")
        named = [target for _, target, need in spec.references() if "negatives" in need.artifact_types] if spec else []
        return [target for target in dict.fromkeys(named) if target in self.stages]

    def query_model(self, index: str) -> str | None:
        """The stage whose model encodes the queries of an index; None where none does."""
        return self.recipe.view(index).query_model(index) if self.recipe else None

    @cached_property
    def measured(self) -> Measured | None:
        """The published metrics."""
        path = self.folder / METRICS
        return read_metrics(path) if path.is_file() else None

    @cached_property
    def evaluation(self) -> Evaluate | None:
        """The stage whose systems are those of the published metrics."""
        systems = list(self.measured.results) if self.measured else None
        stages = (spec for spec in self.stages.values() if isinstance(spec, Evaluate))
        return next((spec for spec in stages if list(spec.runs) == systems), None)

    @property
    def queries(self) -> str:
        """The kind of queries of the published metrics: `written queries` where a writer made them, else `queries`."""
        spec, recipe = self.evaluation, self.recipe
        return "written queries" if spec and recipe and spec.on_written_queries(recipe.view("")) else "queries"

    def scores(self, model: str) -> tuple[list[str], dict[str, Any]]:
        """The systems that were searched with the model of a stage and nothing else; all that is known of them.

        The second is what a metrics file holds, of these systems and of those beside: the baselines, or where there are
        none all others.
        """
        content, spec = self.measured, self.evaluation
        if content is None or spec is None:
            return [], {}
        shown: dict[str, Scores] = {}
        for system, run in spec.runs.items():
            for seed, name in ({None: run} if isinstance(run, str) else run).items():
                if self._searched_with(name) == model:
                    shown[system] = content.results[system] if seed is None else content.by_seed[system][seed]
        own = list(shown)
        shown |= {name: content.results[name] for name in spec.baselines or spec.runs if name not in own}
        return own, Evaluation(Measured(shown)).to_dict()

    @property
    def means(self) -> dict[str, dict[str, float]]:
        """All published means, by system and metric."""
        return Evaluation(self.measured).metrics if self.measured else {}

    def _searched_with(self, run: str) -> str | None:
        spec: Any = self.stages.get(run)
        if spec is None or spec.verb != "search" or spec.candidates is not None:
            return None
        return spec.model or self.query_model(spec.index)
