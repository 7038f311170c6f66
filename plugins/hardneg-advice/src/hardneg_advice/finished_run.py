"""A finished run for checks: recipe, artifacts, collection, and a sample of mined negatives."""

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
"""The maximum number of queries or vectors in a check."""


def sample(count: int, purpose: str) -> NDArray[np.int64]:
    """Return at most `SAMPLED` distinct numbers below `count`, random but fixed by `purpose`: int64 [n], ascending."""
    drawn = runtime.generator(0, "diagnosis", purpose).choice(count, min(count, SAMPLED), replace=False, shuffle=False)
    return np.sort(drawn).astype(np.int64)


@dataclass(frozen=True)
class FinishedRun:
    """A run folder, its recipe, its artifact keys by stage, and its store; a missing artifact raises ArtifactError."""

    folder: Path
    recipe: Any
    keys: Mapping[str, str]
    store: stores.Store

    @classmethod
    def open(cls, folder: Path, store: stores.Store) -> "FinishedRun":
        """Read the lock file of a run folder and check its recipe.

        Raises:
            DataError: the folder is not a run folder, or its lock file is damaged.
            RecipeError: the recipe does not fit this version of hardneg.
        """
        lock = recipes.read_lock(folder)
        return cls(
            folder, recipes.check_recipe(lock["tree"], folder / "recipe.lock.yaml", lock["preset"]), lock["keys"], store
        )

    @cached_property
    def measured(self) -> metrics_files.Measured:
        """The evaluation in metrics.json. Raises ArtifactError if the file is missing or damaged."""
        return metrics_files.read_metrics(self.folder / "metrics.json")

    def stages(self, *verbs: str) -> list[str]:
        """Return the names of the stages with one of these verbs; of copies for several seeds, only the first."""
        later = {name for copies in self.recipe.copies.values() for name in list(copies.values())[1:]}
        return [name for name, spec in self.recipe.stages.items() if spec.stage in verbs and name not in later]

    def copies(self, stage: str) -> list[str]:
        """Return the names of a stage's copies, one per seed; if it has none, only the stage's own name."""
        families = (list(copies.values()) for copies in self.recipe.copies.values())
        return next((names for names in families if stage in names), [stage])

    def artifact(self, stage: str) -> Any:
        """Return the artifact of a stage. Raises ArtifactError if it is not in the store."""
        key = self.keys.get(stage, "")
        artifact = self.store.find(key) if key.isalnum() else None
        if artifact is None:
            raise errors.ArtifactError(
                f"the artifact of {stage} is not in the store {self.store.root}; use the store of this run"
            )
        return artifact

    def index(self, stage: str) -> Path:
        """Return the folder of an index, in the run folder or the store. Raises ArtifactError if it is missing."""
        if self.recipe.outputs.get("index") == stage and (self.folder / "index").is_dir():
            return self.folder / "index"
        return Path(self.artifact(stage).path, self.recipe.stages[stage].parts.get("index", "."))

    def dataset_of(self, stage: str) -> str:
        """Return the name of the stage that provides a stage's collection: `dataset`, or a stage that writes one."""
        return str(self.recipe.stages[stage].dataset or DATASET)

    def collection(self, maker: str) -> StoredCollection:
        """Return the collection that the stage `maker` wrote. Raises ArtifactError if it is not in the store."""
        return StoredCollection.open(self.artifact(maker).path)

    def encoder_of(self, index: str) -> str:
        """Return the stage that trained or averaged the query encoder of an index, or `start`; empty if unknown."""
        maker = self.recipe.view(index).query_model(index) if index in self.recipe.stages else None
        trained = isinstance(self.recipe.stages.get(maker), train_config.ValidationOptions)
        return maker if maker and (maker == START or trained) else ""

    def mined(self, stage: str) -> list[Negatives]:
        """Return a stage's negatives for a `sample` of queries. Raises ArtifactError if they are not in the store."""
        file = negatives_files.read_negatives(self.artifact(stage).path / layout.NEGATIVES)
        return [file[row] for row in sample(len(file), "queries").tolist()]

    def listed(self, stage: str) -> Iterator[tuple[Negatives, RankedList]]:
        """Yield each sampled query's negatives, and its list in the first run mined by `stage`; the list may be empty.

        Raises:
            ArtifactError: the negatives or the run are not in the store, or the stage does not mine from a run.
        """
        rows, runs = self.mined(stage), list(self.recipe.stages[stage].runs.values())
        if not runs:
            raise errors.ArtifactError(f"{stage} does not mine from a run")
        lists = _lists(self.artifact(runs[0]).path / layout.RUN, {row.query_id for row in rows})
        return ((row, lists.get(row.query_id, _NOT_LISTED)) for row in rows)


_NOT_LISTED = RankedList([], np.empty(0, np.float32))


def _lists(path: Path, wanted: set[str]) -> Mapping[str, RankedList]:
    """Return the lists of these queries, reading the run only until all are found."""
    lists = dict[str, RankedList]()
    for query_id, ranked in run_files.stream_run(path):
        if query_id in wanted:
            lists[query_id] = ranked
        if len(lists) == len(wanted):
            break
    return lists
