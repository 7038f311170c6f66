"""The options of a training run, a stage's `options` in a recipe, and of its refreshes.

`option` declares each once: its default, meaning and bounds, and whether it counts in keys.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import ConfigDict

from hardneg.records import TOP_DEPTH
from hardneg.runtime import distributed, seeding
from hardneg.store import FREE, LATER, legacy_key_names, options_in_key

if TYPE_CHECKING:
    import torch

    from hardneg.encoders.open.resolved import ResolvedModel


def option(
    default: Any, meaning: str, *, least: float | None = None, above: float | None = None, key: Any = None
) -> Any:
    """A field of a dataclass of options; `key`: `FREE` or `LATER`, where it does not always count in keys."""
    bounds = {"least": least, "above": above}
    return field(default=default, metadata={"help": meaning, **bounds, **(key or {})})


def again(owner: type[Any], name: str, default: Any) -> Any:
    """Repeat the option of another class, with another default."""
    (inherited,) = (each for each in fields(owner) if each.name == name)
    return field(default=default, metadata=inherited.metadata)


def gathered(options: object, hook: str, *arguments: object) -> Iterator[Any]:
    """Yield the results of a hook, of the options' class and of each of its groups that defines it."""
    for group in type(options).__mro__:
        if hook in vars(group):
            yield from vars(group)[hook](options, *arguments)


@dataclass(frozen=True)
class CheckedOptions:
    """Options with bounds; the hook `mistakes` of a class yields lines on those that do not go together."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    def problems(self) -> list[str]:
        """One line for each option, or each few, that make no sense."""
        lines = []
        for each in fields(self):
            value, least, above = getattr(self, each.name), each.metadata.get("least"), each.metadata.get("above")
            if value is not None and least is not None and not value >= least:
                lines.append(f"{each.name} must be {least} or above, not {value}")
            if value is not None and above is not None and not value > above:
                lines.append(f"{each.name} must be above {above}, not {value}")
        return [*lines, *gathered(self, "mistakes")]


@dataclass(frozen=True)
class LearningOptions(CheckedOptions):
    """The options of every training run; a step is one update of the weights."""

    # data and steps
    batch_size: int = option(32, "Queries scored together, each against the documents of all of them.", least=1)
    accumulate: int = option(1, "Batches that share one step; each is scored on its own.", least=1)
    epochs: float | None = option(
        1.0, "Passes over the queries; a fraction stops within one. Not used where `max_steps` is given.", above=0
    )
    max_steps: int | None = option(None, "Updates of the weights in all.", least=1)
    stop_at: int | None = option(
        None, "The step to end at; the learning rate goes on as if all steps were to come.", least=1, key=LATER
    )
    keep_every: int | None = option(None, "Steps between the models to keep beside the last one.", least=1, key=LATER)
    seed: int = option(seeding.SEED, "All draws, and dropout, depend on it.")
    # negatives
    negatives_per_query: int = option(
        1,
        "Documents drawn from each query's negatives, anew in each epoch; 0 leaves the other queries' documents as the "
        "only negatives.",
        least=0,
    )
    positive: Literal["drawn", "first"] = option(
        "drawn",
        "A query's positive is `drawn` from all that are known, anew in each epoch, or is the `first` one of the "
        "judgements, as DPR's files have the gold passage first.",
        key=LATER,
    )
    iterate_negatives: bool = option(
        False,
        "An epoch has each query once for each `negatives_per_query` of its negatives, in their order, one time after "
        "the other, as ANCE's program has a query's triples; otherwise once, its negatives drawn.",
        key=LATER,
    )
    negatives_drawn: Literal["uniformly", "margin_bins"] = option(
        "uniformly",
        "A query's negatives are drawn `uniformly`, or by `margin_bins`: a bin, of ten of equal width from the least "
        "to the largest of the query's margins by the teacher, each that has any as likely; then any negative in it, "
        "as TAS-B does.",
        key=LATER,
    )
    # optimizer and schedule
    optimizer: Literal["adamw", "lamb"] = option("adamw", "`adamw` or `lamb`.")
    learning_rate: float = option(2e-5, "Its peak after the warm-up; by the model's kind where none is given.", above=0)
    epsilon: float = option(1e-8, "Added to the root of the second moment.", above=0, key=LATER)
    weight_decay: float = option(0.01, "Applied to all weights but biases and those of LayerNorm.", least=0)
    warmup_steps: int | None = option(
        None,
        "Steps during which the learning rate rises: step s of them, from 0, has (s + 1) / (warmup_steps + 1) of its "
        "peak; goes before `warmup_ratio`.",
        least=0,
    )
    warmup_ratio: float = option(0.1, "The same as a part of all steps.")
    warmup_from_zero: bool = option(
        False,
        "Step s has s / warmup_steps of the peak instead, as in transformers and the papers' programs.",
        key=LATER,
    )
    decay: Literal["linear", "cosine", "constant"] = option(
        "linear", "The rate after the warm-up: `linear` or `cosine` to 0, or `constant`."
    )
    decay_from_start: bool = option(
        False,
        "The rate after the warm-up is that of a decay which began with the first step, as RocketQA's program does: it "
        "falls by the warm-up's part at once.",
        key=LATER,
    )
    clip_norm: float | None = option(
        1.0, "Largest norm of the gradient, all weights together; 0 or none means no clipping.", least=0
    )
    # precision and speed
    precision: Literal["auto", "fp32", "bf16"] = option(
        "auto",
        "`bf16` runs the transformer in bfloat16, `auto` does so where the device has units for it; a resumed "
        "training keeps what it began with.",
    )
    tf32: bool = option(False, "Round the factors of fp32 products to TF32; needs a GPU by CUDA.", key=LATER)
    gradient_checkpointing: bool = option(False, "Compute activations twice to need less memory.", key=FREE)
    # checkpoints
    checkpoint_every: int | None = option(
        1000, "Steps between checkpoints; none means at evaluations and at the end.", least=1, key=FREE
    )
    # validation
    evaluate_every: int | None = option(
        None, "Steps between evaluations on the dev queries; none means at the end.", least=1
    )
    patience: int | None = option(None, "Stop after so many evaluations in a row without a new best.", least=1)
    metric: str = option("mrr@10", "The dev metric that decides which weights are best; larger is better.")
    keep_best: bool = option(True, "End with the best weights by `metric` instead of the last ones.")

    def total_steps(self, queries: int) -> int:
        """How many steps the schedule has for so many queries; the last one may begin another pass to be full."""
        if self.max_steps is not None:
            return self.max_steps
        examples = round((self.epochs or 0) * queries)
        return max(1, -(-examples // (self.batch_size * self.accumulate)))

    def last_step(self, queries: int) -> int:
        """The step to end at for so many queries."""
        return min(self.total_steps(queries), self.stop_at or sys.maxsize)

    def identity(self) -> dict[str, Any]:
        return legacy_key_names(options_in_key(self))

    def mistakes(self) -> Iterator[str]:
        """Options that do not go together, in the order in which they are told."""
        if not 0 <= self.warmup_ratio <= 1:
            yield f"warmup_ratio must be between 0 and 1, not {self.warmup_ratio}"
        if self.decay_from_start and self.decay == "constant":
            yield "decay_from_start goes with decay linear or cosine: leave decay_from_start out"
        if self.negatives_drawn != "uniformly" and (self.iterate_negatives or not self.negatives_per_query):
            yield "negatives_drawn: nothing is drawn by iterate_negatives, or for 0 negatives_per_query: leave it out"
        if self.epochs is None and self.max_steps is None:
            yield "give epochs or max_steps"
        if self.stop_at is not None and self.max_steps is not None and self.stop_at > self.max_steps:
            yield f"stop_at must be {self.max_steps} (max_steps) or below, not {self.stop_at}"
        end = min((step for step in (self.max_steps, self.stop_at) if step is not None), default=sys.maxsize)
        if self.keep_every is not None and self.keep_every > end:
            yield f"keep_every must be {end}, the last step, or below, not {self.keep_every}"


@dataclass(frozen=True)
class TrainOptions(LearningOptions):
    """The options of a training with in-batch negatives."""

    chunk: int | None = option(
        None, "Queries encoded at a time, each twice, so that a batch needs the memory of so many.", least=1, key=LATER
    )
    false_negative_mask: bool = option(
        True,
        "No known positive of a query, nor a copy of one, is a negative of it; otherwise every document of the batch "
        "but the query's own positive is, as in the published program.",
        key=LATER,
    )


@dataclass(frozen=True)
class RerankerOptions(LearningOptions):
    """The options of a reranker's training; `batch_size` queries are of 1 + `negatives_per_query` pairs each.

    Source: Qu et al., RocketQA (NAACL 2021), section 4.1; Miyato et al., Adversarial Training Methods for
    Semi-Supervised Text Classification (ICLR 2017), Eq. 5.
    """

    negatives_per_query: int = again(LearningOptions, "negatives_per_query", 4)
    learning_rate: float = again(LearningOptions, "learning_rate", 1e-5)
    adversarial: float = option(
        0.0,
        "How far the word embeddings are moved, along the gradient of the whole table, before the pass that is learnt "
        "from (the fast gradient method); RocketQA's program does so by 0.01. 0 leaves it out.",
        least=0,
    )

    def mistakes(self) -> Iterator[str]:
        """No documents but the query's own are shown, so it needs some."""
        if self.negatives_per_query == 0:
            yield "negatives_per_query must be 1 or above: a reranker is shown its query's documents alone"


@dataclass(frozen=True)
class RefreshOptions(CheckedOptions):
    """When negatives are mined again, and which are kept.

    Source: Xiong et al., Approximate Nearest Neighbor Negative Contrastive Learning for Dense Text Retrieval
    (ICLR 2021), sections 4 and 5.
    """

    policy: Literal["every", "synchronous"] = option(
        "every",
        "`every` mines beside the training, once for each multiple of `every` steps, from the newest checkpoint then; "
        "`synchronous` has the training wait at multiples of `every` until the model as it is there has mined, on a "
        "CPU reproducible to the bit.",
    )
    every: int | None = option(None, "Steps between refreshes, and between the checkpoints written for them.", least=1)
    depth: int = option(
        TOP_DEPTH, "The top of the corpus that negatives are taken from, by the model that mines.", least=1
    )
    negatives: int = option(
        20,
        "How many are kept for each query, of what a miner takes the first ones; the published program keeps 20 of the "
        "top 200.",
        least=1,
    )
    choice: Literal["sampled", "top"] = option(
        "sampled",
        "What takes them where no miner is named: `sampled`, that miner, draws them from the top; `top`, the miner "
        "`topk`, takes the best-ranked ones, as the published program does with `ann_measure_topk_mrr`.",
    )
    query_chunks: int = option(
        1,
        "Parts that the queries are cut into; refresh n mines, and is trained on, part n modulo `query_chunks`, of "
        "which the last takes the remainder. The published program has 5.",
        least=1,
    )
    excluded: Literal["known", "last"] = option(
        "known",
        "What is no negative of a query: `known`, any of its positives, or a copy of one; `last`, only the last of its "
        "positives, as in the published program, which trains on no other and so may draw those as negatives.",
    )
    precision: Literal["auto", "fp32", "bf16"] = option(
        "auto", "What the corpus and the queries are encoded in; `auto` is bfloat16 where the device has units for it."
    )
    without_answers: bool = option(
        False, "The filter `answers`; as many as before are kept, of the others among the top."
    )
    answer_match: Literal["string", "regex"] = option(
        "string", "How answers are looked for: as words, or as regular expressions."
    )

    def identity(self) -> dict[str, Any]:
        """The options that may change what is mined."""
        return options_in_key(self)

    def mistakes(self) -> Iterator[str]:
        """A missing interval, and more negatives than are searched for."""
        if self.every is None:
            yield f"policy {self.policy}: give every"
        if self.negatives > self.depth:
            yield f"negatives must be {self.depth} (depth) or below, not {self.negatives}"


@dataclass(frozen=True)
class Devices(CheckedOptions):
    """The share of each of the two.

    On a CPU shares divide the threads. On GPUs the trainer's is its processes, one GPU each; the inferencer has in
    proportion those that follow, or the trainer's where there are no more.
    """

    trainer: int = option(1, "Of the process that trains.", least=1)
    inferencer: int = option(1, "Of the process that mines.", least=1)

    def mining(self, trainer: "torch.device", here: distributed.World, gpus: int) -> Sequence[str]:
        """The inferencer's devices; `trainer` is the device of one trainer, `gpus` the number of GPUs."""
        if trainer.type == "cpu":
            return ["cpu"]
        wanted = max(1, here.local_size * self.inferencer // self.trainer)
        free = range(here.local_size, gpus)[:wanted]
        return [f"cuda:{number}" for number in free] or [str(trainer)]

    def threads(self, total: int, here: distributed.World) -> tuple[int, int]:
        """Divide `total` threads between a trainer process and the inferencer; at least one each."""
        together = total * self.trainer // (self.trainer + self.inferencer)
        return max(1, together // here.local_size), max(1, total - together)


TRANSFORMER: float = LearningOptions.learning_rate
ADAPTER, TABLE = 2e-4, 0.01
_LARGE_TABLES = {"packaged:wordllama": 0.03}
"""Tables of larger numbers: Adam's steps are as long as the rate, whatever the size of a weight."""


def usual_rate(model: "ResolvedModel") -> float | None:
    """The rate that a training takes where its recipe gives none; None where the kind of the model is not known yet."""
    if model.spec.adapter is not None:
        return ADAPTER
    if model.known_family is None:
        return None
    return _LARGE_TABLES.get(model.origins[0][0].name, TABLE) if getattr(model.family, "tables", False) else TRANSFORMER
