"""Refreshes inside a trainer: the recipe of one, mined with the model as it is, and the callback that has them made."""

import json
import os
import random
import re
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import BatchSampler
from transformers import TrainerCallback

from hardneg.formats.negatives import read_negatives
from hardneg.functions.mine import list_options
from hardneg.functions.session import AdhocRecipe, Session
from hardneg.integrations.rows import ENDED, LISTS, RefreshedRows, kept_share, table_of
from hardneg.records.depths import MINED_DEPTH
from hardneg.records.errors import ArtifactError, TrainingError
from hardneg.records.layout import NEGATIVES, RUN
from hardneg.records.named_plugins import BM25, CROSS_ENCODER, MINER, RANDOM
from hardneg.runtime.distributed import barrier, from_first, world
from hardneg.store.atomic_write import link_file, replace_text, replacing
from hardneg.store.digest import digest, file_digest
from hardneg.training.refresh.folder import Refresh, RefreshFolder

if TYPE_CHECKING:
    from hardneg.recipes.plan import Plan
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
        stages: dict[str, Any] = {ENCODED: {"stage": "encode"}}
        named: str | None = model
        listed, index = SEARCHED, ENCODED
        if self.reranks:  # with a given run the index only stands for it
            lexical = self.candidates in (None, BM25)
            listed, index = RERANKED, INDEXED
            named = None if lexical else self.candidates
            stages = {INDEXED: {"stage": "index", "backend": BM25} if lexical else {"stage": "encode"}}
        elif self.index is not None:
            index = INDEXED
            stages[INDEXED] = {"stage": "index", "backend": dict(self.index), "vectors": ENCODED}
        stages[SEARCHED] = {"stage": "search", "index": index, "split": self.split, "depth": self.depth}
        if self.reranks:
            scored = {"run": SEARCHED, "plugin": {"name": CROSS_ENCODER, "source": model}}
            stages[RERANKED] = {"stage": "rerank", **scored, "split": self.split, "depth": self.depth}
        mining = {
            "stage": "mine",
            "split": self.split,
            "miner": dict(self.miner),
            "seed": seed,
            "runs": {"dense": listed},
        }
        mining |= {"filters": [*self.filters]} if self.filters else {}
        mining |= {} if self.fill_to is None else {"fill_to": self.fill_to}
        stages[listed] |= list_options(mining)
        return AdhocRecipe(_NAME, self.dataset, {**stages, MINED: mining}, named, self.settings, seed).plan()

    def read(self, session: Session) -> "Artifact":
        """The stored collection, read now unless it is in the store; several processes each call this."""
        stages = {MINED: {"stage": "mine", "split": self.split, "miner": {"name": RANDOM}}}
        return session.make_dataset(AdhocRecipe(_NAME, self.dataset, stages).plan())


def mine_with(recipe: RefreshRecipe, plan: "Plan", session: Session) -> tuple["Artifact", Sequence[str]] | None:
    """Mine with the model of a plan; the negatives, and the keys of all artifacts that depend on the model.

    None in all but the first of several processes. Each of them calls this, and encodes or scores a part. Candidates of
    a given run are scored by the first one alone, for which the launcher's number of it is put aside.
    """
    if recipe.run is None:
        mined = session.execute(plan).artifacts[MINED]
        keys = [step.key for step in plan.dependents(RERANKED if recipe.reranks else ENCODED)]
        return (mined, keys) if world().first else None
    refresh, rank = None, os.environ.get("RANK")
    if world().first:
        os.environ.pop("RANK", None)
        try:
            dataset = session.make_dataset(plan)
            scored, _ = session.make_from(plan, RERANKED, dataset, {"run": recipe.run})
            mined, _ = session.make_from(plan, MINED, dataset, {"runs.dense": scored.path / RUN})
        finally:
            os.environ |= {} if rank is None else {"RANK": rank}
        refresh = mined, (scored.key, mined.key)
    barrier()
    return refresh


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


@dataclass
class Refresher:
    """Makes the refreshes of one training run; of several processes each calls the same.

    recipe: of a refresh. rows: the training data. session: the store of vectors and lists, the device
    and the seed; refresh n draws with the seed + n. every: the steps between two of them.
    """

    recipe: RefreshRecipe
    rows: RefreshedRows
    session: Session
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
            settings = self.refreshes.folder / "settings.json"
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
        began, states = time.monotonic(), (random.getstate(), np.random.get_state())
        devices = list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []
        with torch.random.fork_rng(devices=devices):
            try:
                folder = saved(model, self.refreshes.folder / "model")
                plan = self.recipe.plan(str(folder), self.session.seed + number)
                mined = mine_with(self.recipe, plan, self.session)
                metrics = from_first({} if mined is None else self._publish(mined[0], number, step, oldest))
            finally:
                random.setstate(states[0])
                np.random.set_state(states[1])
        barrier()  # one that finds all in the store may be done before another has read the model
        for key in () if mined is None else mined[1]:
            self.session.store.discard(key)
        if world().first:
            shutil.rmtree(folder, ignore_errors=True)
        return {**metrics, "refresh_seconds": round(time.monotonic() - began, 3)}

    def _publish(self, mined: "Artifact", number: int, step: int, oldest: int) -> dict[str, float]:
        plan, file = self.rows.plan, read_negatives(mined.path / NEGATIVES)
        table = table_of(file, plan.query_ids, self.rows.corpus, plan.negatives)
        folder, kept = self.refreshes.partial(number), dict[str, float]()
        link_file(mined.path / NEGATIVES, folder / NEGATIVES)
        with replacing(folder / LISTS) as lists:
            np.lib.format.write_array(lists, table, allow_pickle=False)
        with suppress(OSError, ValueError):  # there is none before, or it is damaged
            path = self.refreshes.negatives(number - 1).parent / LISTS
            before = np.load(path, mmap_mode="r", allow_pickle=False)
            kept = {"refresh_kept": round(kept_share(table, before, plan.negatives), 4)}
        self.refreshes.publish(Refresh(number, step, len(file), int(mined.facts["negatives"])), oldest)
        return {"refresh": number, **kept, "refresh_filled": int(mined.facts.get("queries with random negatives", 0))}

    @cached_property
    def _identity(self) -> dict[str, Any]:
        """The settings that must be the same in a resumed run."""
        plan, recipe = self.rows.plan, self.recipe
        of_all = {name: value for name, value in asdict(recipe).items() if name != "filters" or value}
        return {
            "form": plan.form,
            "negatives": plan.negatives,
            "seed": self.session.seed,
            "collection": self.rows.key,
            "every": self.every,
            "mining": digest({**of_all, "dataset": None, "run": recipe.run and file_digest(recipe.run)}),
        }


@dataclass
class RefreshSchedule:
    """The steps at which refreshes are mined and used.

    Refresh n is mined by the model after n * `every` steps, or as epoch n begins. The batch of a step has been fetched
    before the step in front of it ends: the trainer reads one batch ahead, with or without workers. So a refresh is
    used from the second step after it, or from the first one of an epoch.

    every: steps between refreshes; None makes one each epoch. batches_a_step: those of all processes and of gradient
    accumulation. epoch: the one that is read. first_step: how many steps there were before it.
    """

    every: int | None
    batches_a_step: int = 1
    epoch: int = 0
    first_step: int = 0

    def number(self, batch: int) -> int:
        """The refresh of a batch, counted from 0 in its epoch."""
        return self.number_at(self.first_step + batch // self.batches_a_step)

    def number_at(self, step: int) -> int:
        """The refresh that is used when there have been so many steps."""
        return self.epoch if self.every is None else max(step - 1, self.first_step) // self.every


class CarryingBatchSampler(BatchSampler):
    """The trainer's own batch sampler, whose indices carry the number of their refresh: row + number * rows.

    Its attributes, such as a seeded sampler, are those of the sampler that it holds.
    """

    def __init__(self, held: Any, schedule: RefreshSchedule, rows: int) -> None:
        self.held, self.schedule, self.rows = held, schedule, rows
        self.batch_size, self.drop_last = held.batch_size, held.drop_last

    def __iter__(self) -> Iterator[list[int]]:
        parts: tuple[Any, ...] = (self.held, getattr(self.held, "sampler", None))
        for part in parts:
            if hasattr(part, "set_epoch"):  # the trainer does not reach it where a resumed run skips what it has seen
                part.set_epoch(self.schedule.epoch)
        for batch, indices in enumerate(self.held):
            offset = self.schedule.number(batch) * self.rows
            yield [index + offset for index in indices]

    def __len__(self) -> int:
        return len(self.held)

    def set_epoch(self, epoch: int) -> None:
        if hasattr(self.held, "set_epoch"):
            self.held.set_epoch(epoch)

    @property
    def sampler(self) -> Any:
        """The sampler of the batch sampler; accelerate replaces it by a seeded one."""
        return self.held.sampler

    @sampler.setter
    def sampler(self, sampler: Any) -> None:
        self.held.sampler = sampler


_CHECKPOINT = re.compile(r"checkpoint-(\d+)")


class RefreshCallback(TrainerCallback):  # type: ignore[misc]
    """Refreshes negatives by the schedule; the training waits meanwhile."""

    def __init__(self, trainer: Any, refresher: Refresher, schedule: RefreshSchedule) -> None:
        self._trainer, self._refresher, self._schedule = trainer, refresher, schedule
        self._steps_an_epoch, self._epochs, self._begun = 1, 0, False

    def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Mine the first refresh, unless the resumed run has it.

        Raises:
            TrainingError: what a resumed run used at its checkpoint is gone, or its rows would come in another order.
        """
        step, schedule = state.global_step, self._schedule
        if step and args.ignore_data_skip:
            raise TrainingError("ignore_data_skip: leave it out, or rows get the negatives of other steps")
        batches = len(self._trainer.callback_handler.train_dataloader)
        self._steps_an_epoch = max(1, -(-batches // args.gradient_accumulation_steps))
        accelerator = self._trainer.accelerator
        processes = 1 if accelerator.split_batches else accelerator.num_processes
        schedule.batches_a_step = args.gradient_accumulation_steps * processes
        self._epochs, self._begun = step // self._steps_an_epoch, False
        schedule.first_step = step - step % self._steps_an_epoch
        self._refresher.begin(step)
        for number in () if schedule.every is None else sorted({schedule.number_at(step), step // schedule.every}):
            self._ensure(number, number * schedule.every, step)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Mine the refresh of this epoch, where each epoch has one."""
        schedule, step = self._schedule, state.global_step
        schedule.epoch = self._epochs
        if self._begun:
            schedule.first_step = step
        self._epochs, self._begun = self._epochs + 1, True
        if schedule.every is None:
            self._ensure(schedule.epoch, schedule.first_step, step)

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Mine the refresh that is due at this step; none after the last step."""
        every = self._schedule.every
        if every is not None and state.global_step % every == 0 and state.global_step < state.max_steps:
            self._make(state.global_step // every, state.global_step)

    def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """No worker waits any longer."""
        self._refresher.end()

    def _ensure(self, number: int, mined_at: int, step: int) -> None:
        """Makes a refresh that is not there; `mined_at` is the step of the model that mines it."""
        if self._refresher.has(number):
            return
        if mined_at != step:
            where = f"{self._refresher.refreshes.folder}: refresh {number}, which step {step + 1} is trained on"
            advice = f"resume from a checkpoint of step {mined_at}, or start afresh"
            raise TrainingError(f"{where}, is gone, and so is the model that mined it: {advice}")
        self._make(number, step)

    def _make(self, number: int, step: int) -> None:
        trainer = self._trainer
        model = trainer.accelerator.unwrap_model(trainer.model)
        metrics = self._refresher.refresh(model, number, step, self._oldest(step))
        due = trainer.control.should_log
        trainer.log(metrics)
        trainer.control.should_log = due  # this line stands beside the step's own, not in its place

    def _oldest(self, step: int) -> int:
        """The first refresh that this epoch or a checkpoint may still ask for."""
        folder = Path(self._trainer.args.output_dir)
        matches = (_CHECKPOINT.fullmatch(path.name) for path in folder.glob("checkpoint-*"))
        steps = [int(match[1]) for match in matches if match]
        firsts = [each - each % self._steps_an_epoch for each in steps]
        if self._schedule.every is None:
            return min([self._schedule.epoch, *(first // self._steps_an_epoch for first in firsts)])
        return min([self._schedule.first_step, *firsts]) // self._schedule.every
