"""`RefreshedNegatives`: refreshed negatives for users of sentence-transformers' trainers."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardneg.functions.arguments import Setting, plugin_setting, plugin_settings, whole_number
from hardneg.functions.given import named_dataset, run_file, split_of
from hardneg.functions.session import Session, setting_texts, usual_store
from hardneg.records.depths import MINED_DEPTH
from hardneg.records.errors import UsageError
from hardneg.records.named_plugins import MINER

if TYPE_CHECKING:
    from hardneg.integrations.refresher import RefreshRecipe
    from hardneg.integrations.rows import RefreshedRows

FOLDER = "negatives"


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
        miner: Setting = MINER,
        filters: Sequence[Setting] = (),
        split: str | None = None,
        depth: int = MINED_DEPTH,
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
            form: `n-tuple`, `triplet`, `labeled-pair` or `labeled-list`: the columns of the rows.
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
            raise UsageError("RefreshedNegatives: candidates: goes without run; leave one of them out")
        self._dataset, self._arguments, self._every = dataset, arguments, every
        self._negatives, self._form, self._candidates, self._run = negatives, form, candidates, run
        self._miner, self._filters = plugin_setting("miner", miner), plugin_settings("filters", filters)
        self._split, self._depth, self._index = split, depth, None if index is None else plugin_setting("index", index)
        self._settings, self.folder = settings, Path(arguments.output_dir) / FOLDER
        self._store = store or self.folder / "store"

    @cached_property
    def dataset(self) -> "RefreshedRows":
        """The rows, a `datasets.Dataset`: one for each positive of each query; the collection is read now."""
        from hardneg.formats.collection import StoredCollection
        from hardneg.integrations.rows import RefreshedRows, plan_rows
        from hardneg.training.refresh.folder import RefreshFolder

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
    def recipe(self) -> "RefreshRecipe":
        from hardneg.integrations.refresher import RefreshRecipe

        store = self.session.store
        return RefreshRecipe(
            dataset=named_dataset(self._dataset, store),
            split=split_of(self._dataset, self._split, "train"),
            miner=self._miner,
            filters=self._filters,
            depth=self._depth,
            index=self._index,
            candidates=self._candidates,
            run=None if self._run is None else run_file(self._run, store),
            fill_to=self._negatives,
            settings=setting_texts(self._settings),
        )

    def attach(self, trainer: Any) -> None:
        """Has a trainer, whose training data is `dataset`, mine.

        Raises:
            UsageError: it trains on something else, evaluates on the same, mines already, or its model cannot be taken
                as it is.
        """
        from hardneg.integrations.refresher import CarryingBatchSampler, RefreshCallback, Refresher, RefreshSchedule

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
            raise UsageError("RefreshedNegatives.attach: " + "; ".join(problems))
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
