"""The recipe of a refresh: that of `hardneg mine`, for the model as it is."""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardneg.api.adhoc_recipe import AdhocRecipe, list_options, mining_stage
from hardneg.api.single_stage import make_dataset, make_from
from hardneg.api.workplace import Workplace
from hardneg.records.depths import MINED_DEPTH
from hardneg.records.errors import ArtifactError
from hardneg.records.layout import RUN
from hardneg.records.named_plugins import BM25, CROSS_ENCODER, MINER, RANDOM
from hardneg.runtime.distributed import barrier, world

if TYPE_CHECKING:
    from hardneg.recipe.plan import Plan
    from hardneg.store.artifacts import Artifact

_NAME = "RefreshedNegatives"
ENCODED, INDEXED, SEARCHED, RERANKED, MINED = "vectors", "index", "run", "reranked", "negatives"


@dataclass(frozen=True)
class RefreshRecipe:
    """The recipe of every refresh, without its model.

    dataset: as a recipe names it. miner: its name and options. filters: the same of each. depth: how many documents are
    searched for each query, or scored by a reranker. index: a backend with its options, built anew for each refresh;
    None searches the vectors themselves, exactly. candidates, run: of a reranker, what finds the documents that it
    scores: `bm25` or a model's name; or the file of a run. fill_to: shorter lists get random documents of the corpus.
    settings: as `--set`.
    """

    dataset: str
    split: str = "train"
    miner: Mapping[str, Any] = field(default_factory=lambda: {"name": MINER})
    filters: Sequence[Mapping[str, Any]] = ()
    depth: int = MINED_DEPTH
    index: Mapping[str, Any] | None = None
    candidates: str | None = None
    run: Path | None = None
    fill_to: int | None = None
    settings: Sequence[str] = ()

    @property
    def reranks(self) -> bool:
        """Whether a reranker mines."""
        return self.candidates is not None or self.run is not None

    def plan(self, model: str, seed: int) -> "Plan":
        """Its steps for the model in a folder; `seed` is that of miners that draw.

        Raises:
            RecipeError: the recipe has mistakes; all of them.
        """
        listed, stages = RERANKED if self.reranks else SEARCHED, dict[str, Any]()
        stages |= self._reranking(model) if self.reranks else self._searching()
        mining = {**mining_stage(self.miner, self.split), "seed": seed, "runs": {"dense": listed}}
        mining |= {"filters": [*self.filters]} if self.filters else {}
        mining |= {} if self.fill_to is None else {"fill_to": self.fill_to}
        stages[listed] |= list_options(mining)
        stages[MINED] = mining
        first = None if self.candidates == BM25 else self.candidates
        named = first if self.reranks else model
        return AdhocRecipe(_NAME, self.dataset, stages, named, self.settings, seed).plan()

    def _searching(self) -> dict[str, Any]:
        encoded = {"stage": "encode"}
        if self.index is None:
            return {ENCODED: encoded, SEARCHED: self._search(ENCODED)}
        indexed = {"stage": "index", "backend": dict(self.index), "vectors": ENCODED}
        return {ENCODED: encoded, INDEXED: indexed, SEARCHED: self._search(INDEXED)}

    def _search(self, index: str) -> dict[str, Any]:
        return {"stage": "search", "index": index, "split": self.split, "depth": self.depth}

    def _reranking(self, model: str) -> dict[str, Any]:
        """With a given run the index only stands for it."""
        first = {"stage": "encode"} if self.candidates not in (None, BM25) else {"stage": "index", "backend": BM25}
        plugin = {"name": CROSS_ENCODER, "source": model}
        scored = {"stage": "rerank", "run": SEARCHED, "plugin": plugin, "split": self.split, "depth": self.depth}
        return {INDEXED: first, SEARCHED: self._search(INDEXED), RERANKED: {**scored, "keep_scores": False}}


MinedRefresh = tuple["Artifact", Mapping[str, Any], Sequence[str]]
"""The negatives of a refresh, their facts, and the keys of all artifacts that depend on its model."""


def read_dataset(dataset: str, split: str, workplace: Workplace) -> "Artifact":
    """The stored collection, read now unless it is in the store; several processes each call this."""
    return make_dataset(AdhocRecipe(_NAME, dataset, {MINED: mining_stage(RANDOM, split)}).plan(), workplace)


def mine_with(recipe: RefreshRecipe, plan: "Plan", workplace: Workplace) -> MinedRefresh | None:
    """Mine with the model of a plan; None in all but the first of several processes.

    Each of them calls this, and encodes or scores a part. Candidates of a given run are scored by the first one alone.
    """
    if recipe.run is not None:
        refresh: MinedRefresh | None = None
        if world().first:
            with _alone():
                dataset = make_dataset(plan, workplace)
                scored, _ = make_from(plan, RERANKED, dataset, {"run": recipe.run}, workplace)
                negatives, facts = make_from(plan, MINED, dataset, {"runs.dense": scored.path / RUN}, workplace)
                refresh = negatives, facts, (scored.key, negatives.key)
        barrier()
        return refresh
    mined = workplace.execute(plan).artifacts[MINED]
    keys = [step.key for step in plan.dependents(RERANKED if recipe.reranks else ENCODED)]
    return (mined, mined.facts, keys) if world().first else None


@contextmanager
def _alone() -> Iterator[None]:
    """Inside, this process is the only one: the launcher's number for it is put aside."""
    number = os.environ.pop("RANK", None)
    try:
        yield
    finally:
        if number is not None:
            os.environ["RANK"] = number


def saved(model: Any, folder: Path) -> Path:
    """Write a model of sentence-transformers into a folder, visible to all processes.

    Raises:
        ArtifactError: the folder cannot be written.
    """
    if world().first:
        shutil.rmtree(folder, ignore_errors=True)
        try:
            model.save_pretrained(str(folder), create_model_card=False)
        except OSError as error:
            raise ArtifactError(f"{folder}: the model cannot be written ({error.strerror or error})") from error
    barrier()
    return folder
