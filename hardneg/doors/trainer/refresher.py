"""One refresh inside a trainer: its recipe, the model as it is in a folder, mined with, and its negatives published."""

import json
import os
import random
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from hardneg.api.adhoc_recipe import AdhocRecipe, list_options, mining_stage
from hardneg.api.content_store import make_dataset, make_from
from hardneg.api.workplace import Workplace
from hardneg.doors.trainer.rows import ENDED, LISTS, RefreshedRows, kept_share, table_of
from hardneg.formats.negatives import read_negatives
from hardneg.records.depths import MINED_DEPTH
from hardneg.records.errors import ArtifactError, TrainingError
from hardneg.records.layout import NEGATIVES, RUN
from hardneg.records.named_plugins import BM25, CROSS_ENCODER, MINER, RANDOM
from hardneg.runtime.distributed import barrier, from_first, world
from hardneg.store.atomic_write import link_file, replace_text, replacing
from hardneg.store.digest import digest, file_digest
from hardneg.training.refresh.folder import Refresh, RefreshFolder

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
        return {INDEXED: first, SEARCHED: self._search(INDEXED), RERANKED: scored}


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


_SETTINGS = "settings.json"
_MODEL = "model"


@dataclass
class Refresher:
    """Makes the refreshes of one training run; of several processes each calls the same.

    recipe: of a refresh. rows: the training data. workplace: the store of vectors and lists, the device
    and the seed; refresh n draws with the seed + n. every: the steps between two of them.
    """

    recipe: RefreshRecipe
    rows: RefreshedRows
    workplace: Workplace
    every: int | None = None

    @property
    def refreshes(self) -> RefreshFolder:
        return self.rows.refreshes

    def begin(self, step: int) -> None:
        """Remove the refreshes of an earlier run, or in a resumed run those after its step.

        Raises:
            TrainingError: the resumed run mined with other settings.
        """
        if world().first:
            self.refreshes.folder.mkdir(parents=True, exist_ok=True)
            (self.refreshes.folder / ENDED).unlink(missing_ok=True)
            settings = self.refreshes.folder / _SETTINGS
            if step and settings.exists() and json.loads(settings.read_text(encoding="utf-8")) != self._identity:
                raise TrainingError(f"{self.refreshes.folder}: mined with other settings: start the training afresh")
            for number in [] if step else self.refreshes.numbers():
                self.refreshes.remove(number)
            self.refreshes.forget_after(step)
            replace_text(settings, json.dumps(self._identity) + "\n")
        barrier()

    def end(self) -> None:
        """Tells workers that are ahead that there will be no more refreshes."""
        if world().first:
            (self.refreshes.folder / ENDED).touch()

    def has(self, number: int) -> bool:
        """Whether a refresh is there, as the first process sees it."""
        return bool(from_first(world().first and (self.refreshes.negatives(number).parent / LISTS).exists()))

    def refresh(self, model: Any, number: int, step: int, oldest: int) -> dict[str, float]:
        """Mine with the model as it is and publish refresh `number`; return its metrics for the log.

        oldest: the first refresh that is kept.
        """
        began = time.monotonic()
        with _undisturbed():
            folder = saved(model, self.refreshes.folder / _MODEL)
            plan = self.recipe.plan(str(folder), self.workplace.seed + number)
            mined = mine_with(self.recipe, plan, self.workplace)
            metrics = from_first({} if mined is None else self._publish(mined, number, step, oldest))
            barrier()  # one that finds all in the store may be done before another has read the model
            for key in () if mined is None else mined[2]:
                self.workplace.store.discard(key)
            if world().first:
                shutil.rmtree(folder, ignore_errors=True)
        return {**metrics, "refresh_seconds": round(time.monotonic() - began, 3)}

    def _publish(self, refresh: MinedRefresh, number: int, step: int, oldest: int) -> dict[str, float]:
        plan, mined, facts = self.rows.plan, refresh[0].path / NEGATIVES, refresh[1]
        file = read_negatives(mined)
        table, repeated = table_of(file, plan.query_ids, self.rows.corpus, plan.negatives)
        folder = self.refreshes.partial(number)
        link_file(mined, folder / NEGATIVES)
        with replacing(folder / LISTS) as lists:
            np.lib.format.write_array(lists, table, allow_pickle=False)
        kept = {}
        with suppress(OSError, ValueError):  # there is none before, or it is damaged
            path = self.refreshes.negatives(number - 1).parent / LISTS
            before = np.load(path, mmap_mode="r", allow_pickle=False)
            kept = {"refresh_kept": round(kept_share(table, before, plan.negatives), 4)}
        self.refreshes.publish(Refresh(number, step, len(file), int(facts["negatives"])), oldest)
        filled = int(facts.get("queries with random negatives", 0))
        return {"refresh": number, **kept, "refresh_filled": filled, "refresh_repeated": repeated}

    @cached_property
    def _identity(self) -> dict[str, Any]:
        """The settings that must be the same in a resumed run."""
        plan, recipe = self.rows.plan, self.recipe
        of_all = {name: value for name, value in asdict(recipe).items() if name != "filters" or value}
        return {
            "form": plan.form,
            "negatives": plan.negatives,
            "seed": self.workplace.seed,
            "collection": self.rows.key,
            "every": self.every,
            "mining": digest({**of_all, "dataset": None, "run": recipe.run and file_digest(recipe.run)}),
        }


@contextmanager
def _undisturbed() -> Iterator[None]:
    states = random.getstate(), np.random.get_state()
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])
