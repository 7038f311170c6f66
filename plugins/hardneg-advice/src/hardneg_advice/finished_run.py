"""A finished run as checks read it: recipe, artifacts, collection, and a sample of what was mined."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.plugin import (
    Negatives,
    RankedList,
    StoredCollection,
    errors,
    layout,
    metrics_files,
    negatives_files,
    recipes,
    run_files,
    runtime,
    stores,
    train_config,
)

DATASET, START = "dataset", "start"
SAMPLED = 1_000
"""The most queries or vectors that a check looks at."""


def sample(count: int, purpose: str) -> NDArray[np.int64]:
    """Numbers below `count` drawn at random, ascending: all of them, or `SAMPLED`."""
    drawn = runtime.generator(0, "diagnosis", purpose).choice(count, min(count, SAMPLED), replace=False, shuffle=False)
    return np.sort(drawn).astype(np.int64)


@dataclass(frozen=True)
class FinishedRun:
    """A run folder and the store that its artifacts are in; what is missing raises ArtifactError when it is read."""

    folder: Path
    recipe: Any
    keys: Mapping[str, str]
    store: stores.Store

    @classmethod
    def open(cls, folder: Path, store: stores.Store) -> "FinishedRun":
        """The run of a folder.

        Raises:
            DataError: it is no run folder, or its lock file is damaged.
            RecipeError: the recipe is not one of this hardneg's.
        """
        lock = recipes.read_lock(folder)
        return cls(
            folder, recipes.check_recipe(lock["tree"], folder / "recipe.lock.yaml", lock["preset"]), lock["keys"], store
        )

    @cached_property
    def measured(self) -> metrics_files.Measured:
        """Its metrics. Raises ArtifactError where there are none, or they are damaged."""
        return metrics_files.read_metrics(self.folder / "metrics.json")

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
            raise errors.ArtifactError(
                f"the store {self.store.root} lacks what {stage} made; name the store of the run"
            )
        return artifact

    def index(self, stage: str) -> Path:
        """The folder of an index, in the run folder or the store. Raises ArtifactError without one."""
        if self.recipe.outputs.get("index") == stage and (self.folder / "index").is_dir():
            return self.folder / "index"
        return Path(self.artifact(stage).path, self.recipe.stages[stage].parts.get("index", "."))

    def dataset_of(self, stage: str) -> str:
        """The stage whose collection a stage reads: `dataset`, or one that makes a collection."""
        return str(self.recipe.stages[stage].dataset or DATASET)

    def collection(self, maker: str) -> StoredCollection:
        """The collection that a stage made. Raises ArtifactError where the store lacks it."""
        return StoredCollection.open(self.artifact(maker).path)

    def encoder_of(self, index: str) -> str:
        """`start`, the training or average whose model encodes the queries of an index, or nothing."""
        maker = self.recipe.view(index).query_model(index) if index in self.recipe.stages else None
        trained = isinstance(self.recipe.stages.get(maker), train_config.ValidationOptions)
        return maker if maker and (maker == START or trained) else ""

    def mined(self, stage: str) -> list[Negatives]:
        """A sample of what a stage mined. Raises ArtifactError: the store lacks it."""
        file = negatives_files.read_negatives(self.artifact(stage).path / layout.NEGATIVES)
        return [file[row] for row in sample(len(file), "queries").tolist()]

    def listed(self, stage: str) -> Iterator[tuple[Negatives, RankedList]]:
        """The sample with the lists of the first run that it was mined from, empty where that lacks the query.

        Raises:
            ArtifactError: the store lacks the negatives or the run, or they were mined from none.
        """
        rows, runs = self.mined(stage), list(self.recipe.stages[stage].runs.values())
        if not runs:
            raise errors.ArtifactError(f"{stage} has no run that it mines from")
        lists = _lists(self.artifact(runs[0]).path / layout.RUN, {row.query_id for row in rows})
        return ((row, lists.get(row.query_id, _NOT_LISTED)) for row in rows)


_NOT_LISTED = RankedList([], np.empty(0, np.float32))


def _lists(path: Path, wanted: set[str]) -> Mapping[str, RankedList]:
    """The lists of these queries; the run is read as far as it has them."""
    lists = dict[str, RankedList]()
    for query_id, ranked in run_files.stream_run(path):
        if query_id in wanted:
            lists[query_id] = ranked
        if len(lists) == len(wanted):
            break
    return lists
