"""The record of a run folder: the stages of its results, their inputs and options, and their scores."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from hardneg.api.evaluation import Evaluation
from hardneg.doors.hub.pushable_files import listed_files
from hardneg.doors.hub.upload import HubFile
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
class MeasuredModel:
    """The measures of one model on one split.

    system: its row. scores: means by metric; intervals: their ends, where they are known. queries: how many.
    """

    system: str
    split: str
    queries: int
    scores: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]]


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
    def queries(self) -> str:
        """The kind of queries of the published metrics: `written queries` where a writer made them, else `queries`."""
        spec, recipe = self._evaluation, self.recipe
        return "written queries" if spec and recipe and spec.on_written_queries(recipe.view("")) else "queries"

    def shown_lock(self) -> str:
        """The lock file for publication: paths of this machine are cut to names."""
        tree = {**without_paths(self.lock["tree"]), DATASET: dataset_name(self.lock["tree"].get(DATASET, ""))}
        return yaml.safe_dump({**self.lock, "tree": tree}, sort_keys=False, allow_unicode=True)

    def key(self, stage: str) -> str:
        """The key of a stage's result."""
        return str(self.lock["start_model"] if stage == START else self.lock["keys"].get(stage, ""))

    def artifact(self, stage: str) -> Artifact | None:
        """The result of a stage, where the store still has it."""
        key = self.key(stage)
        return self.store.find(key) if key.isalnum() else None

    def stages(self, output_type: str) -> list[str]:
        """The stages that make a kind, in the recipe's order."""
        return [name for name, spec in self._stages.items() if spec.artifact_type == output_type]

    def output(self, output_type: str) -> str | None:
        """The stage whose model or index the folder holds."""
        return self.recipe.outputs.get(output_type) if self.recipe else None

    def compared_files(
        self, output_type: str, folder: Path, notes: list[str], changed: Iterable[str] = ()
    ) -> list[HubFile] | None:
        """The files of its model or index, each unchanged; None, and a note, where the store has none of it.

        folder: where they lie. changed: names that may differ from what was made.

        Raises:
            ArtifactError: one is missing, or has changed.
            DataError: one is a pickle, or a link that leads out of the folder.
        """
        stage = self.output(output_type)
        artifact = self.artifact(stage) if stage else None
        if stage and artifact:
            return listed_files(folder, artifact, self.part(stage, output_type), notes, changed)
        notes.append(f"its files are not compared with a manifest: the store {self.store.root} has none of it")
        return None

    def split(self, stage: str) -> str:
        """The queries' split that a stage works on."""
        return str(getattr(self._stages[stage], "split", "train"))

    def part(self, stage: str, output_type: str) -> str:
        """The folder of a model or an index in the artifact of its stage."""
        return str(self._stages[stage].parts.get(output_type, "."))

    def references(self, stage: str, output_type: str) -> list[str]:
        """The stages that a stage names and that make this kind."""
        spec = self._stages.get(stage)
        named = [target for _, target, need in spec.references() if output_type in need.artifact_types] if spec else []
        return [target for target in dict.fromkeys(named) if target in self._stages or target == START]

    def query_model(self, index: str) -> str | None:
        """The stage whose model encodes the queries of an index; None where none does."""
        return self.recipe.view(index).query_model(index) if self.recipe else None

    def measured(self, model: str) -> Iterator[MeasuredModel]:
        """The rows of the published metrics that were searched with the model of a stage, and with nothing else."""
        content, spec = self._metrics, self._evaluation
        if content is None or spec is None:
            return
        for system, run in spec.runs.items():
            for seed, name in ({None: run} if isinstance(run, str) else run).items():
                if self._searched_with(name) == model:
                    scores = content.results[system] if seed is None else content.by_seed[system][seed]
                    yield _row(system, spec.split, scores)

    def beside(self, rows: Sequence[MeasuredModel]) -> Iterator[MeasuredModel]:
        """The rows that some rows were compared with: the baselines, or where there are none all others."""
        content, spec = self._metrics, self._evaluation
        if content is None or spec is None:
            return
        own = {row.system for row in rows}
        for system in spec.baselines or spec.runs:
            if system not in own:
                yield _row(system, spec.split, content.results[system])

    @property
    def _evaluation(self) -> Evaluate | None:
        """The stage whose systems are those of the published metrics."""
        stages = (self._stages[stage] for stage in self.stages("metrics"))
        systems = list(self._metrics.results) if self._metrics else None
        return next((spec for spec in stages if isinstance(spec, Evaluate) and list(spec.runs) == systems), None)

    def systems(self) -> dict[str, dict[str, float]]:
        """All means, by system and metric."""
        return Evaluation(self._metrics).metrics if self._metrics else {}

    def _searched_with(self, run: str) -> str | None:
        spec: Any = self._stages.get(run)
        if spec is None or spec.verb != "search" or spec.candidates is not None:
            return None
        return spec.model or self.query_model(spec.index)

    @cached_property
    def _metrics(self) -> Measured | None:
        path = self.folder / METRICS
        return read_metrics(path) if path.is_file() else None

    @property
    def _stages(self) -> Mapping[str, Any]:
        return self.recipe.stages if self.recipe else {}


def _row(system: str, split: str, scores: dict[str, dict[str, float]]) -> MeasuredModel:
    figures = Evaluation(Measured({system: scores})).to_dict()
    intervals = {metric: (ends[0], ends[1]) for metric, ends in figures["intervals"][system].items() if ends}
    queries = max((len(values) for values in scores.values()), default=0)
    return MeasuredModel(system, split, queries, figures["metrics"][system], intervals)
