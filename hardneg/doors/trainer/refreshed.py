"""`RefreshedNegatives`: refreshed negatives for users of sentence-transformers' trainers."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, Unpack

from hardneg.api.argument_values import plugin_setting, plugin_settings
from hardneg.api.arguments import AnyRun, Arg, Dataset, Settings, spelled_out
from hardneg.api.dataset_argument import named_dataset, split_of
from hardneg.api.run_argument import run_file
from hardneg.api.workplace import Workplace, setting_texts, usual_store
from hardneg.records.depths import MINED_DEPTH
from hardneg.records.errors import UsageError
from hardneg.records.named_plugins import MINER

if TYPE_CHECKING:
    from hardneg.doors.trainer.refresher import RefreshRecipe
    from hardneg.doors.trainer.rows import RefreshedRows

FOLDER = "negatives"
_RANDOM, _REPEAT = "random", "repeat"


class RefreshArguments(TypedDict, total=False):
    """Further options of a refresh."""

    filters: Annotated[
        Sequence[str | Mapping[str, Any]],
        Arg("Leave candidates out before the miner selects: names, or dicts of options with their `name`.", default=()),
    ]
    split: Annotated[str | None, Arg("Whose queries are trained on; `train`, or the only one in memory.")]
    depth: Annotated[int, Arg("How many documents are searched for each query, or scored.", default=MINED_DEPTH)]
    index: Annotated[str | Mapping[str, Any] | None, Arg("A backend to search in place of exact search.")]
    candidates: Annotated[str | None, Arg("Of a reranker, what retrieves its candidates: `bm25` or a model.")]
    run: Annotated[AnyRun | None, Arg("Of a reranker, the ranked lists of its candidates instead.")]
    short: Annotated[
        str, Arg("What fills a short list: `random` documents of the corpus, or `repeat`, its own.", default=_RANDOM)
    ]
    settings: Annotated[Settings, Arg("Anything else of the recipe, as `settings` of the functions.", default=())]
    store: Annotated[str | Path | None, Arg("A folder for vectors and lists; else one beside the refreshes.")]


class RefreshedNegatives:
    """Training data whose negatives the model mines again as it trains, for sentence-transformers' trainers.

    `dataset` goes into the trainer, `attach` adds mining to it. The training waits meanwhile. The negatives of a step
    depend on the seeds and the step alone. A refresh mined after step n is used from step n + 2, as the batch of step
    n + 1 has been read by then, or from the first step of an epoch.

    Source: Xiong et al., Approximate Nearest Neighbor Negative Contrastive Learning for Dense Text Retrieval
    (ICLR 2021), section 4, where another process mines meanwhile.
    """

    @spelled_out
    def __init__(
        self,
        dataset: Dataset,
        arguments: Any,
        *,
        every: int | None = None,
        negatives: int = 1,
        form: str = "n-tuple",
        miner: str | Mapping[str, Any] = MINER,
        **options: Unpack[RefreshArguments],
    ) -> None:
        """Set what is mined, and when; nothing is read yet.

        Args:
            dataset: a name such as `beir:FOLDER`, a folder, a `datasets.Dataset` or dicts.
            arguments: those of the trainer; the refreshes go to `negatives/` in its `output_dir`.
            every: steps between refreshes; None makes one as each epoch begins.
            negatives: how many each query has at a time.
            form: `n-tuple`, `triplet`, `labeled-pair` or `labeled-list`: the columns of the rows.
            miner: one of `hardneg plugins list miners`, or a dict of its options with its `name`.
            options: `RefreshArguments`.

        Raises:
            UsageError: an option is unknown or makes no sense.
        """
        _check(every, negatives, options)
        self._dataset, self._arguments, self._options = dataset, arguments, options
        self._every, self._negatives, self._form = every, negatives, form
        self._miner = plugin_setting("miner", miner)
        self.folder = Path(arguments.output_dir) / FOLDER

    @cached_property
    def dataset(self) -> "RefreshedRows":
        """The rows, a `datasets.Dataset`: one for each positive of each query; the collection is read now."""
        from hardneg.doors.trainer.refresher import read_dataset
        from hardneg.doors.trainer.rows import RefreshedRows, plan_rows
        from hardneg.formats.collection import StoredCollection
        from hardneg.training.refresh.folder import RefreshFolder

        split = self.recipe.split
        read = read_dataset(self.recipe.dataset, split, self.workplace)
        collection = StoredCollection.open(read.path)
        plan = plan_rows(collection, split, self._form, self._negatives)
        rows = RefreshedRows.of(plan, collection.corpus, RefreshFolder(self.folder))
        rows.key = read.key
        return rows

    @cached_property
    def workplace(self) -> Workplace:
        """The store, device and seed of mining, by the trainer's arguments."""
        device = str(self._arguments.device)  # by this the processes that a launcher started have met
        return Workplace(usual_store(self._options.get("store") or self.folder / "store"), device, self._arguments.seed)

    @cached_property
    def recipe(self) -> "RefreshRecipe":
        from hardneg.doors.trainer.refresher import RefreshRecipe

        options, store = self._options, self.workplace.store
        index = options.get("index")
        return RefreshRecipe(
            dataset=named_dataset(self._dataset, store),
            split=split_of(self._dataset, options.get("split"), "train"),
            miner=self._miner,
            filters=plugin_settings("filters", options.get("filters", ())),
            depth=options.get("depth", MINED_DEPTH),
            index={"name": index} if isinstance(index, str) else index,
            candidates=options.get("candidates"),
            run=None if (run := options.get("run")) is None else run_file(run, store),
            fill_to=self._negatives if options.get("short", _RANDOM) == _RANDOM else None,
            settings=setting_texts(options.get("settings", ())),
        )

    def attach(self, trainer: Any) -> None:
        """Has a trainer, whose training data is `dataset`, mine.

        Raises:
            UsageError: it trains on something else, evaluates on the same, mines already, or its model cannot be taken
                as it is.
        """
        from hardneg.doors.trainer.callback import RefreshCallback, RefreshSchedule
        from hardneg.doors.trainer.refresher import Refresher

        self._check_trainer(trainer)
        schedule, rows = RefreshSchedule(self._every), self.dataset
        rows.attached = True
        trainer.get_batch_sampler = _carrying(trainer.get_batch_sampler, rows, schedule)
        refresher = Refresher(self.recipe, rows, self.workplace, self._every)
        trainer.add_callback(RefreshCallback(trainer, refresher, schedule))

    def _check_trainer(self, trainer: Any) -> None:
        from hardneg.doors.trainer.callback import RefreshCallback

        problems = []
        if trainer.train_dataset is not self.dataset:
            problems.append("train_dataset must be this object's `dataset` itself, neither shuffled nor one of several")
        held = trainer.eval_dataset
        if any(each is self.dataset for each in (held.values() if isinstance(held, Mapping) else [held])):
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
            raise UsageError("RefreshedNegatives.attach: " + "; ".join(problems))


def _check(every: object, negatives: object, options: Mapping[str, Any]) -> None:
    """Raise UsageError with all mistakes."""
    known = RefreshArguments.__annotations__
    problems = [f"{name}: no such option, there are: {', '.join(known)}" for name in options if name not in known]
    numbers = {"every": every, "negatives": negatives, "depth": options.get("depth")}
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int | None):
            problems.append(f"{name}: must be a whole number, not {value!r}")
        elif value is not None and value < 1:
            problems.append(f"{name}: must be 1 or above, not {value}")
    if (short := options.get("short", _RANDOM)) not in (_RANDOM, _REPEAT):
        problems.append(f"short: {_RANDOM} or {_REPEAT}, not {short!r}")
    if options.get("candidates") is not None and options.get("run") is not None:
        problems.append("candidates: goes without run; leave one of them out")
    if problems:
        raise UsageError("RefreshedNegatives: " + "; ".join(problems))


def _carrying(sampler_of: Any, rows: "RefreshedRows", schedule: Any) -> Any:
    """Wrap the factory of batch samplers: indices of training carry their refresh; other datasets stay as they are."""
    from hardneg.doors.trainer.callback import CarryingBatchSampler

    def get_batch_sampler(dataset: Any, *options: Any, **named: Any) -> Any:
        if dataset is not rows:
            return sampler_of(dataset, *options, **named)
        held = sampler_of(rows.fixed(), *options, **named)
        rows.distinct = "NoDuplicates" in type(held).__name__
        return CarryingBatchSampler(held, schedule, len(rows))

    return get_batch_sampler
