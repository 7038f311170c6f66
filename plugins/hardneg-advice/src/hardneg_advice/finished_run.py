"""A finished run as checks read it (recipe, artifacts, collection, a sample of what was mined), and what they say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hardneg.plugin import (
    ArtifactError,
    Measured,
    ModelSpec,
    Negatives,
    RankedList,
    Store,
    StoredCollection,
    ValidationOptions,
    check_recipe,
    generator,
    layout,
    negatives_files,
    read_lock,
    read_metrics,
    resolve_model,
    run_files,
)

DATASET, START = "dataset", "start"
State = Literal["suspect", "fine", "unknown"]
Figures = dict[str, float | int | str]
"""Of a check, as JSON holds them."""

SAMPLED = 1_000
"""The most queries, documents or vectors that a check looks at."""


@dataclass(frozen=True)
class CheckResult:
    """What one check says of one subject.

    check: its name. subject: a stage, a row of the metrics or a side; empty for the whole run. state: `unknown` where
    the check could not be made, or decides nothing. advice: what to change; empty where there is nothing to.
    """

    state: State
    sentence: str
    figures: Figures = field(default_factory=dict)
    advice: str = ""
    check: str = ""
    subject: str = ""

    @classmethod
    def of(cls, suspect: bool, sentence: str, figures: Figures, advice: str) -> "CheckResult":
        """Suspect, with what to change, or fine."""
        return cls("suspect", sentence, figures, advice) if suspect else cls("fine", sentence, figures)


def sample(count: int, purpose: str) -> NDArray[np.int64]:
    """Numbers below `count` drawn at random, ascending: all of them, or `SAMPLED`."""
    drawn = generator(0, "diagnosis", purpose).choice(count, min(count, SAMPLED), replace=False, shuffle=False)
    return np.sort(drawn).astype(np.int64)


@dataclass(frozen=True)
class MinedSample:
    """Mined negatives of some queries, and the lists that they were mined from.

    lists: by query; one that the run lacks is missing, all where it was not mined from a run.
    """

    negatives: Sequence[Negatives]
    lists: Mapping[str, RankedList]


@dataclass(frozen=True)
class FinishedRun:
    """A run folder and the store that its artifacts are in; what is missing raises ArtifactError when it is read."""

    folder: Path
    recipe: Any
    keys: Mapping[str, str]
    store: Store
    _mined: dict[str, MinedSample] = field(default_factory=dict, repr=False)

    @classmethod
    def open(cls, folder: Path, store: Store) -> "FinishedRun":
        """The run of a folder.

        Raises:
            DataError: it is no run folder, or its lock file is damaged.
            RecipeError: the recipe is not one of this hardneg's.
        """
        lock = read_lock(folder)
        return cls(folder, check_recipe(lock["tree"], folder / "recipe.lock.yaml", lock["preset"]), lock["keys"], store)

    @cached_property
    def measured(self) -> Measured:
        """Its metrics. Raises ArtifactError where there are none, or they are damaged."""
        return read_metrics(self.folder / "metrics.json")

    def stages(self, *verbs: str) -> list[str]:
        """The stages of these verbs; of those with several seeds the first copy."""
        later = {name for copies in self.recipe.copies.values() for name in list(copies.values())[1:]}
        return [name for name, spec in self.recipe.stages.items() if spec.stage in verbs and name not in later]

    def copies(self, stage: str) -> list[str]:
        """The stage with all its seeds."""
        families = (list(copies.values()) for copies in self.recipe.copies.values())
        return next((names for names in families if stage in names), [stage])

    def artifact(self, stage: str) -> Any:
        """What a stage made. Raises ArtifactError where the store lacks it."""
        key = self.keys.get(stage, "")
        artifact = self.store.find(key) if key.isalnum() else None
        if artifact is None:
            raise ArtifactError(f"the store {self.store.root} lacks what {stage} made; name the store of the run")
        return artifact

    def part(self, stage: str, part: str) -> Path:
        """The folder of a model or an index, in the run folder or the store. Raises ArtifactError without one."""
        if self.recipe.outputs.get(part) == stage and (self.folder / part).is_dir():
            return self.folder / part
        return Path(self.artifact(stage).path, self.recipe.stages[stage].parts.get(part, "."))

    def dataset_of(self, stage: str) -> str:
        """The stage whose collection a stage reads: `dataset`, or one that makes a collection."""
        return str(self.recipe.stages[stage].dataset or DATASET)

    def datasets_of(self, training: str) -> list[str]:
        """The stages whose collections a training reads: one, or that of each of its sources."""
        view = self.recipe.view(training)
        inputs = {path: name for path, name, _ in view.stages[training].references()}
        inputs |= view.stages[training].implied(view)
        sources = [name for path, name in inputs.items() if path.startswith("datasets.") and path.endswith(".dataset")]
        return sources or [self.dataset_of(training)]

    def collection(self, maker: str = DATASET) -> StoredCollection:
        """The collection that a stage made. Raises ArtifactError where the store lacks it."""
        return StoredCollection.open(self.artifact(maker).path)

    def model(self) -> tuple[Path, ModelSpec]:
        """The model that the recipe hands out, and its spec; without one that it begins with."""
        if stage := self.recipe.outputs.get(layout.MODEL_FOLDER):
            folder = self.part(stage, layout.MODEL_FOLDER)
            return folder, resolve_model(ModelSpec(str(folder))).full
        resolved = self.recipe.models.of(self.recipe.model)
        return resolved.path, resolved.full

    def encoder_of(self, index: str) -> str:
        """`start`, the training or average whose model encodes the queries of an index, or nothing."""
        maker = self.recipe.view(index).query_model(index) if index in self.recipe.stages else None
        return (
            maker if maker and (maker == START or isinstance(self.recipe.stages.get(maker), ValidationOptions)) else ""
        )

    def mined(self, stage: str) -> MinedSample:
        """A sample of the queries of a mine stage, with the lists of the first run that it mined from.

        Raises:
            ArtifactError: the store lacks the negatives or the run.
        """
        if stage not in self._mined:
            runs = list(self.recipe.stages[stage].runs.values())
            file = negatives_files.read_negatives(self.artifact(stage).path / layout.NEGATIVES)
            rows = [file[row] for row in sample(len(file), "queries").tolist()]
            lists = _lists(self.artifact(runs[0]).path / layout.RUN, rows) if runs else {}
            self._mined[stage] = MinedSample(rows, lists)
        return self._mined[stage]


def _lists(path: Path, rows: Sequence[Negatives]) -> dict[str, RankedList]:
    """The lists of these queries; the run is read as far as it has them."""
    wanted, lists = {row.query_id for row in rows}, dict[str, RankedList]()
    for query_id, ranked in run_files.stream_run(path):
        if query_id in wanted:
            lists[query_id] = ranked
        if len(lists) == len(wanted):
            break
    return lists
