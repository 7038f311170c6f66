"""Refreshed negatives for sentence-transformers trainers: a recipe mines them with the current model."""

import json
import os
import random
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import TrainerCallback

from hardneg.formats.collection import StoredCollection
from hardneg.formats.negatives import read_negatives
from hardneg.functions import arguments as checked, given
from hardneg.functions.mine import list_options
from hardneg.functions.session import AdhocRecipe, Session, named_dataset, setting_texts, usual_store
from hardneg.integrations.rows import ENDED, LISTS, CarryingBatchSampler, RefreshedRows, RefreshSchedule, plan_rows
from hardneg.recipes import Plan
from hardneg.records import errors, layout
from hardneg.runtime import barrier, from_first, world
from hardneg.store import Artifact, digest, file_digest, link_file, replace_text
from hardneg.training.checkpoint import Refresh, RefreshFolder

_NAME = "RefreshedNegatives"
ENCODED, INDEXED, SEARCHED, RERANKED, MINED = "vectors", "index", "run", "reranked", "negatives"


@dataclass(frozen=True)
class RefreshRecipe:
    """The recipe of every refresh; `plan` adds the model.

    dataset: dataset as in a recipe. miner, filters: names and options. depth: number of documents per query to
    retrieve, or to score with a reranker. index: backend with options, built for each refresh; None for exact search.
    candidates: retriever of the documents to rerank, `bm25` or a model. run: run file to use instead of `candidates`.
    fill_to: length up to which lists are filled with random documents. settings: recipe settings as for `--set`.
    """

    dataset: str
    split: str = "train"
    miner: Mapping[str, Any] = field(default_factory=lambda: {"name": layout.MINER})
    filters: Sequence[Mapping[str, Any]] = ()
    depth: int = layout.MINED_DEPTH
    index: Mapping[str, Any] | None = None
    candidates: str | None = None
    run: Path | None = None
    fill_to: int | None = None
    settings: Sequence[str] = ()

    @property
    def reranks(self) -> bool:
        """Whether the current model is a reranker that scores the documents of `candidates` or `run`."""
        return self.candidates is not None or self.run is not None

    def plan(self, model: str, seed: int) -> Plan:
        """Return the plan for mining with the model in the folder `model`. seed: random seed for miners that sample.

        Raises:
            RecipeError: the recipe has mistakes; the message lists every mistake.
        """
        stages: dict[str, Any] = {ENCODED: {"stage": "encode"}}
        listed, index, named = SEARCHED, ENCODED, model
        if self.reranks:  # a given run replaces the search of this index
            lexical = self.candidates in (None, layout.BM25)
            listed, index = RERANKED, INDEXED
            named = "" if lexical else str(self.candidates)
            stages = {INDEXED: {"stage": "index", "backend": layout.BM25} if lexical else {"stage": "encode"}}
        elif self.index is not None:
            index = INDEXED
            stages[INDEXED] = {"stage": "index", "backend": dict(self.index), "vectors": ENCODED}
        stages[SEARCHED] = {"stage": "search", "index": index, "split": self.split, "depth": self.depth}
        if self.reranks:
            scored = {"run": SEARCHED, "plugin": {"name": layout.CROSS_ENCODER, "source": model}}
            stages[RERANKED] = {"stage": "rerank", **scored, "split": self.split, "depth": self.depth}
        mining = {"stage": "mine", "split": self.split, "miner": dict(self.miner), "seed": seed}
        mining |= {"runs": {"dense": listed}}
        mining |= {"filters": [*self.filters]} if self.filters else {}
        mining |= {} if self.fill_to is None else {"fill_to": self.fill_to}
        stages[listed] |= list_options(mining)
        return AdhocRecipe(_NAME, self.dataset, {**stages, MINED: mining}, named or None, self.settings, seed).plan()

    def read(self, session: Session) -> Artifact:
        """Return the artifact with the collection; read the dataset if necessary. Every process must call this."""
        stages = {MINED: {"stage": "mine", "split": self.split, "miner": {"name": layout.RANDOM}}}
        return session.make_dataset(AdhocRecipe(_NAME, self.dataset, stages).plan())


def mine_with(recipe: RefreshRecipe, plan: Plan, session: Session) -> tuple[Artifact, Sequence[str]] | None:
    """Mine with the model of a plan; return the negatives and the keys of all model-dependent artifacts.

    Every process must call this; each encodes or scores a share. The first process returns the result, others None.
    If the recipe has a run, the first process scores its documents alone, with the launcher's RANK unset meanwhile.
    """
    if recipe.run is None:
        mined = session.execute(plan).artifacts[MINED]
        keys = [step.key for step in plan.dependents(RERANKED if recipe.reranks else ENCODED)]
        return (mined, keys) if world().rank == 0 else None
    refresh, rank = None, os.environ.get("RANK")
    if world().rank == 0:
        os.environ.pop("RANK", None)
        try:
            dataset = session.make_dataset(plan)
            scored, _ = session.make_from(plan, RERANKED, dataset, {"run": recipe.run})
            mined, _ = session.make_from(plan, MINED, dataset, {"runs.dense": scored.path / layout.RUN})
        finally:
            os.environ |= {} if rank is None else {"RANK": rank}
        refresh = mined, (scored.key, mined.key)
    barrier()
    return refresh


def saved(model: Any, folder: Path) -> Path:
    """Save a sentence-transformers model in a folder and return the folder. Every process must call this; one saves.

    Raises:
        ArtifactError: the folder cannot be written.
    """
    if world().rank == 0:
        shutil.rmtree(folder, ignore_errors=True)
        try:
            model.save_pretrained(str(folder), create_model_card=False)
        except OSError as error:
            raise errors.ArtifactError(f"{folder}: the model cannot be written ({error.strerror or error})") from error
    barrier()
    return folder


@dataclass
class Refresher:
    """The object that refreshes the negatives of one training run. Every process must make the same calls.

    recipe: recipe of every refresh. rows: training data. session: store for vectors and lists, device, and seed;
    refresh n uses seed + n. every: number of steps between refreshes; None for one refresh per epoch.
    """

    recipe: RefreshRecipe
    rows: RefreshedRows
    session: Session
    every: int | None = None

    def __post_init__(self) -> None:
        self.refreshes = self.rows.refreshes

    def begin(self, step: int) -> None:
        """Prepare training from `step`: if it is 0, remove all refreshes of earlier runs, else those after `step`.

        Raises:
            TrainingError: the run to resume mined with different settings.
        """
        if world().rank == 0:
            self.refreshes.folder.mkdir(parents=True, exist_ok=True)
            (self.refreshes.folder / ENDED).unlink(missing_ok=True)
            settings = self.refreshes.folder / "settings.json"
            if step and settings.exists() and json.loads(settings.read_text(encoding="utf-8")) != self._identity:
                raise errors.TrainingError(f"{settings.parent}: mined with other settings; start a new training run")
            for number in [] if step else self.refreshes.numbers():
                self.refreshes.remove(number)
            self.refreshes.forget_after(step)
            replace_text(settings, json.dumps(self._identity) + "\n")
        barrier()

    def refresh(self, model: Any, number: int, step: int, oldest: int) -> dict[str, float]:
        """Mine with the current model and publish refresh `number`; return metrics for the log, such as the seconds.

        step: number of steps trained so far. oldest: number of the oldest refresh to keep.
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
        barrier()  # a process that finds everything in the store may finish before another has read the model
        for key in () if mined is None else mined[1]:
            self.session.store.discard(key)
        if world().rank == 0:
            shutil.rmtree(folder, ignore_errors=True)
        return {**metrics, "refresh_seconds": round(time.monotonic() - began, 3)}

    def _publish(self, mined: Artifact, number: int, step: int, oldest: int) -> dict[str, float]:
        file, folder = read_negatives(mined.path / layout.NEGATIVES), self.refreshes.partial(number)
        link_file(mined.path / layout.NEGATIVES, folder / layout.NEGATIVES)
        self.rows.write_lists(file, folder)
        self.refreshes.publish(Refresh(number, step, len(file), int(mined.facts["negatives"])), oldest)
        return {"refresh": number, "refresh_filled": int(mined.facts.get("queries with random negatives", 0))}

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


class RefreshCallback(TrainerCallback):  # type: ignore[misc]
    """A callback that refreshes negatives on a schedule; training pauses during a refresh."""

    def __init__(self, trainer: Any, refresher: Refresher, schedule: RefreshSchedule) -> None:
        self._trainer, self._refresher, self._schedule = trainer, refresher, schedule
        self._steps_an_epoch, self._epochs, self._started = 1, 0, False

    def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Mine the refreshes that the first step needs, unless a resumed run already has them.

        Raises:
            TrainingError: a refresh that a resumed run needs is missing, or rows would get negatives of other steps.
        """
        step, schedule = state.global_step, self._schedule
        if step and args.ignore_data_skip:
            raise errors.TrainingError("resuming needs ignore_data_skip=False, or rows get negatives of other steps")
        batches = len(self._trainer.callback_handler.train_dataloader)
        self._steps_an_epoch = max(1, -(-batches // args.gradient_accumulation_steps))
        accelerator = self._trainer.accelerator
        processes = 1 if accelerator.split_batches else accelerator.num_processes
        schedule.batches_a_step = args.gradient_accumulation_steps * processes
        self._epochs, self._started = step // self._steps_an_epoch, False
        schedule.first_step = step - step % self._steps_an_epoch
        self._refresher.begin(step)
        for number in () if schedule.every is None else sorted({schedule.number_at(step), step // schedule.every}):
            self._ensure(number, number * schedule.every, step)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Mine the refresh of this epoch if the schedule has one refresh per epoch."""
        schedule, step = self._schedule, state.global_step
        schedule.epoch = self._epochs
        if self._started:
            schedule.first_step = step
        self._epochs, self._started = self._epochs + 1, True
        if schedule.every is None:
            self._ensure(schedule.epoch, schedule.first_step, step)

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Mine a refresh if one is due at this step and the step is not the last."""
        every = self._schedule.every
        if every is not None and state.global_step % every == 0 and state.global_step < state.max_steps:
            self._make(state.global_step // every, state.global_step)

    def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Signal to waiting data loader workers that no more refreshes will follow."""
        if world().rank == 0:
            (self._refresher.refreshes.folder / ENDED).touch()

    def _ensure(self, number: int, mined_at: int, step: int) -> None:
        """Mine a refresh if it does not exist. mined_at: the step of the model to mine with."""
        refreshes = self._refresher.refreshes
        if from_first(world().rank == 0 and (refreshes.negatives(number).parent / LISTS).exists()):
            return
        if mined_at != step:
            missing = f"{refreshes.folder}: refresh {number}, which step {step + 1} needs, is missing"
            advice = f"resume from the checkpoint of step {mined_at} to mine it, or start a new training run"
            raise errors.TrainingError(f"{missing}; {advice}")
        self._make(number, step)

    def _make(self, number: int, step: int) -> None:
        trainer = self._trainer
        model = trainer.accelerator.unwrap_model(trainer.model)
        metrics = self._refresher.refresh(model, number, step, self._oldest(step))
        due = trainer.control.should_log
        trainer.log(metrics)
        trainer.control.should_log = due  # in addition to the log of the step, not instead of it

    def _oldest(self, step: int) -> int:
        """Return the first refresh that this epoch or a checkpoint may still need."""
        names = (path.name for path in Path(self._trainer.args.output_dir).glob("checkpoint-*"))
        steps = [int(match[1]) for match in map(re.compile(r"checkpoint-(\d+)").fullmatch, names) if match]
        firsts = [each - each % self._steps_an_epoch for each in steps]
        if self._schedule.every is None:
            return min([self._schedule.epoch, *(first // self._steps_an_epoch for first in firsts)])
        return min([self._schedule.first_step, *firsts]) // self._schedule.every


class RefreshedNegatives:
    """Training data for sentence-transformers trainers, with negatives that are re-mined with the current model.

    Pass `dataset` to a trainer, then the trainer to `attach`. Training pauses during mining. The negatives of a step
    depend only on the seeds and the step. A refresh mined after step n is used from step n + 2, because the batch of
    step n + 1 has already been read; if step n ends an epoch, it is used from step n + 1.

    Source: Xiong et al., Approximate Nearest Neighbor Negative Contrastive Learning for Dense Text Retrieval
    (ICLR 2021), section 4, where a separate process mines in parallel.
    """

    def __init__(
        self,
        dataset: Any,
        arguments: Any,
        *,
        every: int | None = None,
        negatives: int = 1,
        form: str = "n-tuple",
        miner: checked.Setting = layout.MINER,
        filters: Sequence[checked.Setting] = (),
        split: str | None = None,
        depth: int = layout.MINED_DEPTH,
        index: checked.Setting | None = None,
        candidates: str | None = None,
        run: Any = None,
        settings: Sequence[str] | Mapping[str, Any] = (),
        store: str | Path | None = None,
    ) -> None:
        """Set the recipe and the schedule, without reading data.

        Args:
            dataset: a name such as `beir:FOLDER`, a folder, a `datasets.Dataset` or dicts.
            arguments: the trainer's arguments; refreshes are written to `negatives/` in `output_dir`.
            every: number of steps between refreshes; None refreshes at the start of each epoch.
            negatives: number of negatives per query and refresh; short lists are filled with random documents.
            form: columns of the rows: `n-tuple`, `labeled-pair` or `labeled-list`.
            miner: a miner from `hardneg plugins list miners`, or a dict with its `name` and options.
            filters: filters that drop candidates before the miner selects: names, or dicts with `name` and options.
            split: split of the queries to train on; default `train`, or the only split of a dataset in memory.
            depth: number of documents per query to retrieve, or to score with a reranker.
            index: index backend; None for exact search.
            candidates: for a reranker, the retriever of its candidates: `bm25` or a model.
            run: for a reranker, a TREC run or a dict of scores that contains its candidates, instead of `candidates`.
            settings: other recipe settings, as in hardneg's functions.
            store: folder for vectors and lists; None for `negatives/store/` in `output_dir`.

        Raises:
            UsageError: an argument is invalid.
        """
        for name, value in {"every": 1 if every is None else every, "negatives": negatives, "depth": depth}.items():
            checked.whole_number(name, value, 1)
        if candidates is not None and run is not None:
            raise errors.UsageError(f"{_NAME}: candidates cannot be combined with run; pass only one of them")
        self._dataset, self._arguments, self._every, self._form = dataset, arguments, every, form
        self._split, self._run, self.folder = split, run, Path(arguments.output_dir) / "negatives"
        self._store = store or self.folder / "store"
        self._options: dict[str, Any] = {"depth": depth, "candidates": candidates, "fill_to": negatives}
        self._options |= {"miner": checked.plugin_setting("miner", miner), "settings": setting_texts(settings)}
        self._options["filters"] = checked.plugin_settings("filters", filters)
        self._options["index"] = None if index is None else checked.plugin_setting("index", index)

    @cached_property
    def dataset(self) -> RefreshedRows:
        """The training rows (see `RowPlan`) as a `datasets.Dataset`; the first access reads the collection."""
        read = self.recipe.read(self.session)
        collection = StoredCollection.open(read.path)
        plan = plan_rows(collection, self.recipe.split, self._form, self._options["fill_to"])
        rows = RefreshedRows.of(plan, collection.corpus, RefreshFolder(self.folder))
        rows.key = read.key
        return rows

    @cached_property
    def session(self) -> Session:
        """The store for mining, and the device and seed from the trainer's arguments."""
        device = str(self._arguments.device)  # reading it joins the processes of a launcher
        return Session(usual_store(self._store), device, self._arguments.seed)

    @cached_property
    def recipe(self) -> RefreshRecipe:
        """The recipe that each refresh runs with the current model."""
        store = self.session.store
        dataset, split = named_dataset(self._dataset, store), self._split or given.split_of(self._dataset, "train")
        run = None if self._run is None else given.run_file(self._run, store)
        return RefreshRecipe(dataset, split, run=run, **self._options)

    def attach(self, trainer: Any) -> None:
        """Add mining to a trainer whose training data is `dataset`.

        Raises:
            UsageError: the trainer does not train on `dataset`, evaluates on it, is already attached, or splits the
                model over devices; or `candidates` and `run` do not fit the model.
        """
        rows, held, problems = self.dataset, trainer.eval_dataset, list[str]()
        if trainer.train_dataset is not rows:
            problems.append("train_dataset must be this object's `dataset`, without shuffling or other datasets")
        if any(each is rows for each in (held.values() if isinstance(held, Mapping) else [held])):
            problems.append("eval_dataset must be other data, since the negatives of `dataset` change during training")
        if any(isinstance(each, RefreshCallback) for each in trainer.callback_handler.callbacks):
            problems.append("the trainer is already attached")
        if trainer.is_deepspeed_enabled or trainer.is_fsdp_enabled:
            problems.append("DeepSpeed and FSDP are not supported, because they split the model over devices")
        reranks = type(trainer).__name__ == "CrossEncoderTrainer"
        if reranks and not self.recipe.reranks:
            problems.append("a CrossEncoder needs `candidates` or `run`")
        if not reranks and self.recipe.reranks:
            problems.append("`candidates` and `run` are only for a CrossEncoder")
        if problems:
            raise errors.UsageError(f"{_NAME}.attach: {'; '.join(problems)}")
        schedule, sampler_of = RefreshSchedule(self._every), trainer.get_batch_sampler
        rows.attached = True

        def carrying(dataset: Any, *options: Any, **named: Any) -> Any:
            if dataset is not rows:
                return sampler_of(dataset, *options, **named)
            inner = sampler_of(rows.fixed(), *options, **named)
            rows.distinct = "NoDuplicates" in type(inner).__name__
            return CarryingBatchSampler(inner, schedule, len(rows))

        trainer.get_batch_sampler = carrying
        refresher = Refresher(self.recipe, rows, self.session, self._every)
        trainer.add_callback(RefreshCallback(trainer, refresher, schedule))
