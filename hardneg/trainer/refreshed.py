"""`RefreshedNegatives`: what a user of sentence-transformers' trainers sees of all this."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardneg.errors import UsageError
from hardneg.trainer.refresh_recipe import RefreshRecipe, read_dataset

if TYPE_CHECKING:
    from hardneg.artifacts import Store
    from hardneg.trainer.rows import RefreshedRows

FOLDER = "negatives"
_OPTIONS = ("split", "depth", "index", "candidates", "settings", "short", "store")
_SHORT = ("random", "repeat")


class RefreshedNegatives:
    """Training data whose negatives the model mines again as it trains, for sentence-transformers' trainers.

    `dataset` goes into the trainer, `attach` tells the trainer when to mine. The training waits while it does. What is
    trained on at a step depends on the seeds and the step alone. A refresh made behind step n is used from step n + 2,
    as the batch of step n + 1 has been read by then, or from the first step of an epoch.

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
        miner: str = "topk",
        options: Mapping[str, Any] | None = None,
        **mining: Any,
    ) -> None:
        """Says what is mined, and when; nothing is read yet.

        Args:
            dataset: as `--dataset` of the commands, such as `beir:FOLDER`.
            arguments: those of the trainer; the refreshes go to `negatives/` in its `output_dir`.
            every: steps between refreshes; None makes one as each epoch begins.
            negatives: how many each query has at a time.
            form: `n-tuple`, `triplet`, `labeled-pair` or `labeled-list`: the columns of the rows.
            miner: one of `hardneg plugins list miners`, and its `options`.
            **mining: `split`, `depth`, `index`, `candidates` and `settings` of `RefreshRecipe`; `short`, what a list
                with too few negatives gets: `random` documents of the corpus, or its own in `repeat`; `store`, a
                folder for what is encoded and found, else one beside the refreshes.

        Raises:
            UsageError: an option is unknown or makes no sense.
        """
        short, store = mining.pop("short", "random"), mining.pop("store", None)
        problems = [
            f"{name}: no such option, there are: {', '.join(_OPTIONS)}" for name in mining if name not in _OPTIONS
        ]
        numbers = {"every": every, "negatives": negatives}.items()
        problems += [
            f"{name}: must be 1 or above, not {value}" for name, value in numbers if value is not None and value < 1
        ]
        if short not in _SHORT:
            problems.append(f"short: {' or '.join(_SHORT)}, not {short!r}")
        if problems:
            raise UsageError("RefreshedNegatives: " + "; ".join(problems))
        fill = negatives if short == "random" else None
        self.recipe = RefreshRecipe(dataset, miner={"name": miner, **(options or {})}, fill_to=fill, **mining)
        self.folder = Path(arguments.output_dir) / FOLDER
        self._arguments, self._every, self._negatives, self._form, self._store = (
            arguments,
            every,
            negatives,
            form,
            store,
        )

    @cached_property
    def dataset(self) -> "RefreshedRows":
        """The rows, a `datasets.Dataset`: one for each positive of each query; the dataset is read now."""
        from hardneg.data.collection import StoredCollection
        from hardneg.trainer.row_plan import plan_rows
        from hardneg.trainer.rows import RefreshedRows
        from hardneg.training.refresh.folder import RefreshFolder

        _ = self._arguments.device  # by this the processes that a launcher started have met
        collection = StoredCollection.open(read_dataset(self.recipe, self.store).path)
        plan = plan_rows(collection, self.recipe.split, self._form, self._negatives)
        return RefreshedRows.of(plan, collection.corpus, RefreshFolder(self.folder))

    @property
    def store(self) -> "Store":
        """Where what is encoded and found lies."""
        from hardneg.artifacts import Store

        return Store(Path(self._store) if self._store else self.folder / "store")

    def attach(self, trainer: Any) -> None:
        """Has a trainer, whose training data is `dataset`, mine.

        Raises:
            UsageError: it trains on something else, or its model cannot be taken as it is.
        """
        from hardneg.trainer.callback import RefreshCallback
        from hardneg.trainer.refresher import Refresher
        from hardneg.trainer.schedule import RefreshSchedule

        self._check(trainer)
        schedule, rows = RefreshSchedule(self._every), self.dataset
        rows.attached = True
        trainer.get_batch_sampler = _carrying(trainer.get_batch_sampler, rows, schedule)
        refresher = Refresher(self.recipe, rows, self.store, str(trainer.args.device), trainer.args.seed)
        trainer.add_callback(RefreshCallback(trainer, refresher, schedule))

    def _check(self, trainer: Any) -> None:
        problems = []
        if trainer.train_dataset is not self.dataset:
            problems.append("train_dataset must be this object's `dataset` itself, neither shuffled nor one of several")
        if trainer.is_deepspeed_enabled or trainer.is_fsdp_enabled:
            problems.append("the model is in parts on several devices: train without DeepSpeed and FSDP")
        reranks = type(trainer).__name__ == "CrossEncoderTrainer"
        if reranks and self.recipe.candidates is None:
            problems.append("a reranker scores what something else finds: give candidates, 'bm25' or a model")
        if not reranks and self.recipe.candidates is not None:
            problems.append("candidates are for a CrossEncoder: leave them out")
        if problems:
            raise UsageError("RefreshedNegatives.attach: " + "; ".join(problems))


def _carrying(made: Any, rows: "RefreshedRows", schedule: Any) -> Any:
    """What gives the batch sampler of training, whose indices carry their refresh; others stay as they are."""
    from hardneg.trainer.schedule import CarryingBatchSampler

    def get_batch_sampler(dataset: Any, *given: Any, **named: Any) -> Any:
        if dataset is not rows:
            return made(dataset, *given, **named)
        held = made(rows.fixed(), *given, **named)
        rows.distinct = "NoDuplicates" in type(held).__name__
        return CarryingBatchSampler(held, schedule, len(rows))

    return get_batch_sampler
