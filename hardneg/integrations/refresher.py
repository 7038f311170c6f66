"""Refreshes inside trainers of sentence-transformers: a recipe, mined with the model as it is; `RefreshedNegatives`."""

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
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import TrainerCallback

from hardneg.formats.collection import StoredCollection
from hardneg.formats.negatives import read_negatives
from hardneg.functions import given
from hardneg.functions.arguments import Setting, plugin_setting, plugin_settings, whole_number
from hardneg.functions.mine import list_options
from hardneg.functions.session import AdhocRecipe, Session, setting_texts, usual_store
from hardneg.integrations.rows import (
    ENDED,
    LISTS,
    CarryingBatchSampler,
    RefreshedRows,
    RefreshSchedule,
    plan_rows,
    table_of,
)
from hardneg.records import errors, layout
from hardneg.runtime import barrier, from_first, world
from hardneg.store import Artifact, digest, file_digest, link_file, replace_text, replacing
from hardneg.training.checkpoint import Refresh, RefreshFolder

if TYPE_CHECKING:
    from hardneg.recipes import Plan

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
        return self.candidates is not None or self.run is not None

    def plan(self, model: str, seed: int) -> "Plan":
        """Its steps for the model in a folder; `seed` is that of miners that draw.

        Raises:
            RecipeError: the recipe has mistakes; all of them.
        """
        stages: dict[str, Any] = {ENCODED: {"stage": "encode"}}
        listed, index, named = SEARCHED, ENCODED, model
        if self.reranks:  # with a given run the index only stands for it
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
        return AdhocRecipe(_NAME, self.dataset, {**stages, MINED: mining}, named or None, self.settings, seed).plan()

    def read(self, session: Session) -> "Artifact":
        """The stored collection, read now unless it is in the store; several processes each call this."""
        stages = {MINED: {"stage": "mine", "split": self.split, "miner": {"name": layout.RANDOM}}}
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
            mined, _ = session.make_from(plan, MINED, dataset, {"runs.dense": scored.path / layout.RUN})
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
            raise errors.ArtifactError(f"{folder}: the model cannot be written ({error.strerror or error})") from error
    barrier()
    return folder


@dataclass
class Refresher:
    """Makes the refreshes of one training run; of several processes each calls the same.

    recipe: of a refresh. rows: the training data. session: the store of vectors and lists, the device and the seed;
    refresh n draws with the seed + n. every: the steps between two of them.
    """

    recipe: RefreshRecipe
    rows: RefreshedRows
    session: Session
    every: int | None = None

    def __post_init__(self) -> None:
        self.refreshes = self.rows.refreshes

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
                raise errors.TrainingError(
                    f"{self.refreshes.folder}: mined with other settings: start the training afresh"
                )
            for number in [] if step else self.refreshes.numbers():
                self.refreshes.remove(number)
            self.refreshes.forget_after(step)
            replace_text(settings, json.dumps(self._identity) + "\n")
        barrier()

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
        plan, file = self.rows.plan, read_negatives(mined.path / layout.NEGATIVES)
        table = table_of(file, plan.query_ids, self.rows.corpus, plan.negatives)
        folder = self.refreshes.partial(number)
        link_file(mined.path / layout.NEGATIVES, folder / layout.NEGATIVES)
        with replacing(folder / LISTS) as lists:
            np.lib.format.write_array(lists, table, allow_pickle=False)
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
            raise errors.TrainingError("ignore_data_skip: leave it out, or rows get the negatives of other steps")
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
        """Tell workers that are ahead that there will be no more refreshes."""
        if world().first:
            (self._refresher.refreshes.folder / ENDED).touch()

    def _ensure(self, number: int, mined_at: int, step: int) -> None:
        """Makes a refresh that is not there; `mined_at` is the step of the model that mines it."""
        refreshes = self._refresher.refreshes
        if from_first(world().first and (refreshes.negatives(number).parent / LISTS).exists()):
            return
        if mined_at != step:
            where = f"{refreshes.folder}: refresh {number}, which step {step + 1} is trained on"
            advice = f"resume from a checkpoint of step {mined_at}, or start afresh"
            raise errors.TrainingError(f"{where}, is gone, and so is the model that mined it: {advice}")
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
        names = (path.name for path in Path(self._trainer.args.output_dir).glob("checkpoint-*"))
        steps = [int(match[1]) for match in map(re.compile(r"checkpoint-(\d+)").fullmatch, names) if match]
        firsts = [each - each % self._steps_an_epoch for each in steps]
        if self._schedule.every is None:
            return min([self._schedule.epoch, *(first // self._steps_an_epoch for first in firsts)])
        return min([self._schedule.first_step, *firsts]) // self._schedule.every


class RefreshedNegatives:
    """Training data whose negatives the model mines again as it trains, for sentence-transformers' trainers.

    `dataset` goes into the trainer, `attach` adds mining to it. The training waits meanwhile. The negatives of a step
    depend on the seeds and the step alone. A refresh mined after step n is used from step n + 2, as the batch of step
    n + 1 has been read by then, or from the first step of an epoch.

    Source: Xiong et al., Approximate Nearest Neighbor Negative Contrastive Learning for Dense Text Retrieval
    (ICLR 2021), section 4, where another process mines meanwhile.
    """

    def __init__(
        self,
        dataset: Any,
        arguments: Any,
        *,
        every: int | None = None,
        negatives: int = 1,
        form: str = "n-tuple",
        miner: Setting = layout.MINER,
        filters: Sequence[Setting] = (),
        split: str | None = None,
        depth: int = layout.MINED_DEPTH,
        index: Setting | None = None,
        candidates: str | None = None,
        run: Any = None,
        settings: Sequence[str] | Mapping[str, Any] = (),
        store: str | Path | None = None,
    ) -> None:
        """Set what is mined, and when; nothing is read yet.

        Args:
            dataset: a name such as `beir:FOLDER`, a folder, a `datasets.Dataset` or dicts.
            arguments: those of the trainer; the refreshes go to `negatives/` in its `output_dir`.
            every: steps between refreshes; None makes one as each epoch begins.
            negatives: how many each query has at a time; a short list gets random documents of the corpus.
            form: `n-tuple`, `labeled-pair` or `labeled-list`: the columns of the rows.
            miner: one of `hardneg plugins list miners`, or a dict of its options with its `name`.
            filters: leave candidates out before the miner selects: names, or dicts of options with their `name`.
            split: whose queries are trained on; `train`, or the only one in memory.
            depth: how many documents are searched for each query, or scored.
            index: a backend to search in place of exact search.
            candidates: of a reranker, what retrieves its candidates: `bm25` or a model.
            run: of a reranker, the ranked lists of its candidates instead: a TREC run, or scores in a dict.
            settings: anything else of the recipe, as `settings` of the functions.
            store: a folder for vectors and lists; else one beside the refreshes.

        Raises:
            UsageError: an argument makes no sense.
        """
        for name, value in {"every": 1 if every is None else every, "negatives": negatives, "depth": depth}.items():
            whole_number(name, value, 1)
        if candidates is not None and run is not None:
            raise errors.UsageError("RefreshedNegatives: candidates: goes without run; leave one of them out")
        self._dataset, self._arguments, self._every = dataset, arguments, every
        self._negatives, self._form, self._candidates, self._run = negatives, form, candidates, run
        self._miner, self._filters = plugin_setting("miner", miner), plugin_settings("filters", filters)
        self._split, self._depth, self._index = split, depth, None if index is None else plugin_setting("index", index)
        self._settings, self.folder = settings, Path(arguments.output_dir) / "negatives"
        self._store = store or self.folder / "store"

    @cached_property
    def dataset(self) -> RefreshedRows:
        """The rows, a `datasets.Dataset`: one for each positive of each query; the collection is read now."""
        read = self.recipe.read(self.session)
        collection = StoredCollection.open(read.path)
        plan = plan_rows(collection, self.recipe.split, self._form, self._negatives)
        rows = RefreshedRows.of(plan, collection.corpus, RefreshFolder(self.folder))
        rows.key = read.key
        return rows

    @cached_property
    def session(self) -> Session:
        """The store, device and seed of mining, by the trainer's arguments."""
        device = str(self._arguments.device)  # by this the processes that a launcher started have met
        return Session(usual_store(self._store), device, self._arguments.seed)

    @cached_property
    def recipe(self) -> RefreshRecipe:
        """What each refresh runs."""
        store = self.session.store
        return RefreshRecipe(
            dataset=given.named_dataset(self._dataset, store),
            split=given.split_of(self._dataset, self._split, "train"),
            miner=self._miner,
            filters=self._filters,
            depth=self._depth,
            index=self._index,
            candidates=self._candidates,
            run=None if self._run is None else given.run_file(self._run, store),
            fill_to=self._negatives,
            settings=setting_texts(self._settings),
        )

    def attach(self, trainer: Any) -> None:
        """Has a trainer, whose training data is `dataset`, mine.

        Raises:
            UsageError: it trains on something else, evaluates on the same, mines already, or its model cannot be taken
                as it is.
        """
        rows, held, problems = self.dataset, trainer.eval_dataset, list[str]()
        if trainer.train_dataset is not rows:
            problems.append("train_dataset must be this object's `dataset` itself, neither shuffled nor one of several")
        if any(each is rows for each in (held.values() if isinstance(held, Mapping) else [held])):
            problems.append("eval_dataset must be other data: its negatives change with training")
        if any(isinstance(each, RefreshCallback) for each in trainer.callback_handler.callbacks):
            problems.append("this trainer mines already: attach once")
        if trainer.is_deepspeed_enabled or trainer.is_fsdp_enabled:
            problems.append("the model is in parts on several devices: train without DeepSpeed and FSDP")
        reranks = type(trainer).__name__ == "CrossEncoderTrainer"
        if reranks and not self.recipe.reranks:
            problems.append("a reranker scores what something else has found: give candidates, or a run")
        if not reranks and self.recipe.reranks:
            problems.append("candidates and a run are for a CrossEncoder: leave them out")
        if problems:
            raise errors.UsageError("RefreshedNegatives.attach: " + "; ".join(problems))
        schedule, sampler_of = RefreshSchedule(self._every), trainer.get_batch_sampler
        rows.attached = True

        def carrying(dataset: Any, *options: Any, **named: Any) -> Any:
            """Indices of training carry their refresh; other datasets stay as they are."""
            if dataset is not rows:
                return sampler_of(dataset, *options, **named)
            inner = sampler_of(rows.fixed(), *options, **named)
            rows.distinct = "NoDuplicates" in type(inner).__name__
            return CarryingBatchSampler(inner, schedule, len(rows))

        trainer.get_batch_sampler = carrying
        refresher = Refresher(self.recipe, rows, self.session, self._every)
        trainer.add_callback(RefreshCallback(trainer, refresher, schedule))
