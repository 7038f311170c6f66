"""How a refresh mines: the recipe of `hardneg mine`, made in memory for the model as it is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardneg.artifacts import Artifact, Store
    from hardneg.recipe.plan import Plan

ENCODED, INDEXED, SEARCHED, RERANKED, MINED = "vectors", "index", "run", "reranked", "negatives"


@dataclass(frozen=True)
class RefreshRecipe:
    """What every refresh does, but for its model.

    dataset: as `--dataset` of the commands. miner: its name and options. depth: how many documents are searched for
    each query, or scored by a reranker. index: a backend with its options, built anew for each refresh; None searches
    the vectors themselves, exactly. candidates: of a reranker, what finds the documents that it scores: `bm25`, or a
    model's name. fill_to: lists that are shorter get random documents of the corpus. settings: as `--set`.
    """

    dataset: Any
    split: str = "train"
    miner: Mapping[str, Any] = field(default_factory=lambda: {"name": "topk"})
    depth: int = 210
    index: Mapping[str, Any] | None = None
    candidates: str | None = None
    fill_to: int | None = None
    settings: Sequence[str] = ()

    def plan(self, model: str, device: str, seed: int) -> "Plan":
        """Its steps for the model in a folder; `seed` is that of miners that draw.

        Raises:
            RecipeError: something of it makes no sense; all of that is told at once.
        """
        from hardneg.recipe.load import check_recipe
        from hardneg.recipe.plan import make_plan
        from hardneg.recipe.task_prompts import with_prompts_of
        from hardneg.recipe.yaml_load import apply_settings

        name = self.candidates if self.candidates not in (None, "bm25") else model
        stages = self._stages(device) if self.candidates is None else self._reranking(model)
        stages[MINED] = self._mining(seed)
        tree = {"dataset": self.dataset, "model": {"name": name}, "seed": seed, "stages": stages}
        changed, problems = apply_settings(tree, self.settings)
        changed = with_prompts_of(changed, problems)
        return make_plan(check_recipe(changed, Path("RefreshedNegatives"), found=problems))

    def _stages(self, device: str) -> dict[str, Any]:
        """With passes of one size, so that vectors are the same to the bit and depend on no timing."""
        import torch

        from hardneg.encoders.fastest import usual_budget

        budget = usual_budget(torch.device(device))
        found: dict[str, Any] = {ENCODED: {"stage": "encode", "tokens_per_batch": budget}}
        if self.index is not None:
            found[INDEXED] = {"stage": "index", "backend": dict(self.index), "vectors": ENCODED}
        return {**found, SEARCHED: self._search(ENCODED if self.index is None else INDEXED)}

    def _search(self, index: str) -> dict[str, Any]:
        return {"stage": "search", "index": index, "split": self.split, "depth": self.depth}

    def _reranking(self, model: str) -> dict[str, Any]:
        first = {"stage": "index", "backend": "bm25"} if self.candidates == "bm25" else {"stage": "encode"}
        plugin = {"name": "cross-encoder", "source": model}
        scored = {"stage": "rerank", "run": SEARCHED, "plugin": plugin, "split": self.split, "depth": self.depth}
        return {INDEXED: first, SEARCHED: self._search(INDEXED), RERANKED: {**scored, "keep_scores": False}}

    def _mining(self, seed: int) -> dict[str, Any]:
        runs = {"dense": SEARCHED if self.candidates is None else RERANKED}
        mining = {"stage": "mine", "split": self.split, "miner": dict(self.miner), "runs": runs, "seed": seed}
        return mining if self.fill_to is None else {**mining, "fill_to": self.fill_to}


def read_dataset(recipe: RefreshRecipe, store: "Store") -> "Artifact":
    """The stored collection, read now unless it is in the store; several processes each call this."""
    from hardneg.fields import DATASET
    from hardneg.recipe.execute import Options, Watcher, execute
    from hardneg.recipe.load import check_recipe
    from hardneg.recipe.plan import make_plan

    stages = {MINED: {"stage": "mine", "miner": "random", "split": recipe.split}}
    tree = {"dataset": recipe.dataset, "model": {"name": "none"}, "stages": stages}
    plan = make_plan(check_recipe(tree, Path("RefreshedNegatives")))
    return execute(plan, store, Options(until=DATASET), Watcher()).artifacts[DATASET]


def mine_with(plan: "Plan", store: "Store", device: str, until: str | None = None) -> "dict[str, Artifact]":
    """The artifacts of all steps, or of those up to one; several processes each call this, and each makes its part."""
    from hardneg.recipe.execute import Options, Watcher, execute

    return dict(execute(plan, store, Options(until, device=device), Watcher()).artifacts)


def forget(plan: "Plan", store: "Store") -> None:
    """Removes from the store what depends on the model of a refresh, which no later one needs."""
    for step in plan.dependents(RERANKED if RERANKED in plan.steps else ENCODED):
        store.discard(step.key)
