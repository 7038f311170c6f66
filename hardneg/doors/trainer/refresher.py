"""One refresh inside a trainer: the model as it is goes to a folder, mines there, and its negatives are published."""

import json
import random
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from hardneg.api.workplace import Workplace
from hardneg.doors.trainer.refresh_recipe import MinedRefresh, RefreshRecipe, mine_with, saved
from hardneg.doors.trainer.rows import ENDED, LISTS, RefreshedRows, kept_share, table_of
from hardneg.formats.negatives import read_negatives
from hardneg.records.errors import TrainingError
from hardneg.records.layout import NEGATIVES
from hardneg.runtime.distributed import barrier, from_first, world
from hardneg.store.atomic_write import link_file, replace_text, replacing
from hardneg.store.digest import digest, file_digest
from hardneg.training.refresh.folder import Refresh, RefreshFolder

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
        """Where they are published."""
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
    """Restore the random states of the training afterwards."""
    states = random.getstate(), np.random.get_state()
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=devices):
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])
