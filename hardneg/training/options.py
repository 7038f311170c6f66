"""Options of training runs (a stage's `options` in a recipe) and of refreshes, each declared with `option`."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict

from hardneg.encoders.open.resolved import ResolvedModel
from hardneg.records import TOP_DEPTH
from hardneg.runtime import distributed, seeding
from hardneg.store import FREE, LATER, legacy_key_names, options_in_key


def option(
    default: Any, meaning: str, *, least: float | None = None, above: float | None = None, key: Any = None
) -> Any:
    """Declare an option with help text `meaning`. least, above: bounds (`above` exclusive). key: `FREE` or `LATER`."""
    bounds = {"least": least, "above": above}
    return field(default=default, metadata={"help": meaning, **bounds, **(key or {})})


def with_default(owner: type[Any], name: str, default: Any) -> Any:
    """Redeclare option `name` of the base class `owner` with another default."""
    (inherited,) = (each for each in fields(owner) if each.name == name)
    return field(default=default, metadata=inherited.metadata)


def collect(options: object, hook: str, *arguments: object) -> Iterator[Any]:
    """Yield from the generator method `hook` of the options' class and of each base class that defines its own."""
    for group in type(options).__mro__:
        if hook in vars(group):
            yield from vars(group)[hook](options, *arguments)


@dataclass(frozen=True)
class CheckedOptions:
    """Options with bounds; a subclass may define `mistakes`, which yields one message per conflict."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    def problems(self) -> list[str]:
        """Return one message per option that is out of bounds and per conflict between options."""
        lines = []
        for each in fields(self):
            value, least, above = getattr(self, each.name), each.metadata.get("least"), each.metadata.get("above")
            if value is not None and least is not None and not value >= least:
                lines.append(f"{each.name} must be at least {least}, not {value}")
            if value is not None and above is not None and not value > above:
                lines.append(f"{each.name} must be above {above}, not {value}")
        return [*lines, *collect(self, "mistakes")]


@dataclass(frozen=True)
class LearningOptions(CheckedOptions):
    """Options shared by all training runs; a step is one update of the weights."""

    # data and steps
    batch_size: int = option(32, "Queries per batch; each is scored against all documents of the batch.", least=1)
    accumulate: int = option(1, "Batches per step (gradient accumulation).", least=1)
    epochs: float | None = option(
        1.0, "Passes over the queries; may be fractional. Ignored if `max_steps` is set.", above=0
    )
    max_steps: int | None = option(None, "Total number of steps.", least=1)
    stop_at: int | None = option(
        None, "Step to stop at; does not change the learning-rate schedule.", least=1, key=LATER
    )
    keep_every: int | None = option(None, "Number of steps between saved intermediate models.", least=1, key=LATER)
    seed: int = option(seeding.SEED, "Seed of all sampling and of dropout.")
    # negatives
    negatives_per_query: int = option(
        1, "Negatives per query, redrawn in every epoch; 0 means that only in-batch negatives are used.", least=0
    )
    positive: Literal["drawn", "first"] = option(
        "drawn",
        "`drawn` draws one of the query's positives in every epoch; `first` always uses the first one, which is the "
        "gold passage in DPR's files.",
        key=LATER,
    )
    iterate_negatives: bool = option(
        False,
        "Use a query's negatives in order instead of drawing them, `negatives_per_query` at a time, so that queries "
        "with more negatives occur several times per epoch, as in the code of ANCE.",
        key=LATER,
    )
    negatives_drawn: Literal["uniformly", "margin_bins"] = option(
        "uniformly",
        "How negatives are drawn: `uniformly`, or by `margin_bins`, as in TAS-B: first one of ten equally wide bins of "
        "the teacher's margins is drawn, then a negative from the bin.",
        key=LATER,
    )
    # optimizer and schedule
    optimizer: Literal["adamw", "lamb"] = option("adamw", "Optimizer: `adamw` or `lamb`.")
    learning_rate: float = option(2e-5, "Peak learning rate; the default depends on the kind of model.", above=0)
    epsilon: float = option(1e-8, "Term in the optimizer's denominator for numerical stability.", above=0, key=LATER)
    weight_decay: float = option(0.01, "Weight decay of all weights except biases and LayerNorm weights.", least=0)
    warmup_steps: int | None = option(
        None,
        "Warm-up steps; step s, from 0, uses (s + 1) / (warmup_steps + 1) of the peak. Overrides `warmup_ratio`.",
        least=0,
    )
    warmup_ratio: float = option(0.1, "Warm-up as a fraction of all steps.")
    warmup_from_zero: bool = option(
        False, "Use s / warmup_steps of `learning_rate` at step s, as in transformers.", key=LATER
    )
    decay: Literal["linear", "cosine", "constant"] = option(
        "linear", "Schedule after the warm-up: `linear` or `cosine` decay to 0, or `constant`."
    )
    decay_from_start: bool = option(
        False,
        "Count the decay from the first step, as in RocketQA's code; the learning rate drops abruptly after warm-up.",
        key=LATER,
    )
    clip_norm: float | None = option(
        1.0, "Maximum norm of the gradient of all weights; 0 or none disables clipping.", least=0
    )
    # precision and speed
    precision: Literal["auto", "fp32", "bf16"] = option(
        "auto",
        "`bf16` runs the transformer in bfloat16; `auto` does so if the device supports it in hardware. A resumed run "
        "keeps its choice.",
    )
    tf32: bool = option(False, "Use TF32 for float32 matrix products; needs a CUDA GPU.", key=LATER)
    gradient_checkpointing: bool = option(False, "Recompute activations in the backward pass to save memory.", key=FREE)
    # checkpoints
    checkpoint_every: int | None = option(
        1000, "Steps between checkpoints; also saved every 5 minutes, at evaluations and at the end.", least=1, key=FREE
    )
    # validation
    evaluate_every: int | None = option(
        None, "Steps between evaluations on the dev queries; none means only at the end.", least=1
    )
    patience: int | None = option(None, "Stop after this many evaluations without improvement.", least=1)
    metric: str = option("mrr@10", "Dev metric that selects the best weights; higher is better.")
    keep_best: bool = option(True, "Keep the best weights by `metric` instead of the last ones.")

    def total_steps(self, queries: int) -> int:
        """Return `max_steps`, or the steps that `epochs` passes over `queries` queries take, rounded up, at least 1."""
        if self.max_steps is not None:
            return self.max_steps
        examples = round((self.epochs or 0) * queries)
        return max(1, -(-examples // (self.batch_size * self.accumulate)))

    def last_step(self, queries: int) -> int:
        """Return the step at which training on `queries` queries ends: `total_steps`, or `stop_at` if it is lower."""
        return min(self.total_steps(queries), self.stop_at or sys.maxsize)

    def identity(self) -> dict[str, Any]:
        return legacy_key_names(options_in_key(self))

    def mistakes(self) -> Iterator[str]:
        """Yield a message per conflict between options."""
        if not 0 <= self.warmup_ratio <= 1:
            yield f"warmup_ratio must be between 0 and 1, not {self.warmup_ratio}"
        if self.decay_from_start and self.decay == "constant":
            yield "decay_from_start has no effect with decay constant; remove it"
        if self.negatives_drawn != "uniformly" and (self.iterate_negatives or not self.negatives_per_query):
            yield "negatives_drawn has no effect with iterate_negatives or negatives_per_query 0; remove it"
        if self.epochs is None and self.max_steps is None:
            yield "set epochs or max_steps"
        if self.stop_at is not None and self.max_steps is not None and self.stop_at > self.max_steps:
            yield f"stop_at must be at most {self.max_steps} (max_steps), not {self.stop_at}"
        end = min((step for step in (self.max_steps, self.stop_at) if step is not None), default=sys.maxsize)
        if self.keep_every is not None and self.keep_every > end:
            yield f"keep_every must be at most {end} (the last step), not {self.keep_every}"


@dataclass(frozen=True)
class TrainOptions(LearningOptions):
    """Options of training with in-batch negatives."""

    chunk: int | None = option(
        None, "Queries to encode at a time, with gradient caching to save memory.", least=1, key=LATER
    )
    false_negative_mask: bool = option(
        True,
        "Mask a query's known positives and their duplicates. Otherwise, every document in the batch except its own "
        "positive is a negative, as in the published code.",
        key=LATER,
    )


WITH_EACH_OTHER = ("query_query", "document_document")
"""Fields of a `ScoreBatch` with the model's scores between queries or between documents."""
GUIDES = ("guide", *(f"guide_{part}" for part in WITH_EACH_OTHER))
"""Fields of a `ScoreBatch` with guide scores."""


@dataclass(frozen=True)
class GuidedMask(CheckedOptions):
    """Options of masking by guide scores; kind: whether the margin is absolute or a share of the positive's score."""

    margin: float = option(0.0, "Mask negatives with a guide score above the positive's minus this margin.", least=0)
    kind: Literal["absolute", "relative"] = "absolute"


@dataclass(frozen=True)
class RerankerOptions(LearningOptions):
    """Options of reranker training, whose batches have `batch_size` * (1 + `negatives_per_query`) pairs.

    Source: Qu et al., RocketQA (NAACL 2021), section 4.1; Miyato et al., Adversarial Training Methods for
    Semi-Supervised Text Classification (ICLR 2017), Eq. 5.
    """

    negatives_per_query: int = with_default(LearningOptions, "negatives_per_query", 4)
    learning_rate: float = with_default(LearningOptions, "learning_rate", 1e-5)
    adversarial: float = option(
        0.0,
        "Norm of the adversarial perturbation of the word embeddings (fast gradient method); 0 disables it. RocketQA's "
        "code uses 0.01.",
        least=0,
    )

    def mistakes(self) -> Iterator[str]:
        """Yield a message if `negatives_per_query` is 0, since a reranker has no in-batch negatives."""
        if self.negatives_per_query == 0:
            yield "negatives_per_query must be at least 1, since a reranker has no in-batch negatives"


@dataclass(frozen=True)
class RefreshOptions(CheckedOptions):
    """Options for refreshing negatives during training.

    Source: Xiong et al., Approximate Nearest Neighbor Negative Contrastive Learning for Dense Text Retrieval
    (ICLR 2021), sections 4 and 5.
    """

    policy: Literal["every", "synchronous"] = option(
        "every",
        "`every` mines in another process, with the newest checkpoint, at each multiple of `every` steps; "
        "`synchronous` mines with the current model while training waits, and is bit-for-bit reproducible on a CPU.",
    )
    every: int | None = option(None, "Steps between refreshes, each preceded by a checkpoint.", least=1)
    depth: int = option(TOP_DEPTH, "Number of top hits per query to choose negatives from.", least=1)
    negatives: int = option(20, "Negatives per query; the published code uses 20 of the top 200.", least=1)
    choice: Literal["sampled", "top"] = option(
        "sampled",
        "Choice of negatives without a miner: `sampled` draws them from the top hits; `top` uses the best-ranked ones, "
        "as the published code does with `ann_measure_topk_mrr`.",
    )
    query_chunks: int = option(
        1, "Number of query subsets; refresh n mines subset n modulo this number. The published code uses 5.", least=1
    )
    excluded: Literal["known", "last"] = option(
        "known",
        "Documents excluded from the negatives: all `known` positives and their duplicates, or only the `last` "
        "positive, as in the published code, which trains on that one alone.",
    )
    precision: Literal["auto", "fp32", "bf16"] = option(
        "auto", "Precision for encoding; `auto` uses bfloat16 if the device supports it in hardware."
    )
    without_answers: bool = option(False, "Exclude passages that contain an answer, like the filter `answers`.")
    answer_match: Literal["string", "regex"] = option(
        "string", "How answers are matched: as words, or as regular expressions."
    )

    def identity(self) -> dict[str, Any]:
        """Return the options that can affect the negatives."""
        return options_in_key(self)

    def mistakes(self) -> Iterator[str]:
        """Yield a message if the interval is missing, or if there are more negatives than hits."""
        if self.every is None:
            yield f"policy {self.policy!r} needs an interval in steps; set `every`"
        if self.negatives > self.depth:
            yield f"negatives must be at most {self.depth} (depth), not {self.negatives}"


@dataclass(frozen=True)
class Devices(CheckedOptions):
    """The split of devices between the trainer and the inferencer.

    On a CPU, the two divide the threads. With GPUs, each trainer process uses one GPU, and the inferencer uses a
    proportional number of the remaining GPUs, or shares the trainer's if none remain.
    """

    trainer: int = option(1, "Share of the devices for training.", least=1)
    inferencer: int = option(1, "Share of the devices for mining.", least=1)

    def mining(self, trainer: Any, here: distributed.World, gpus: int) -> Sequence[str]:
        """Return the inferencer's devices; trainer: a trainer's device; here: its `World`; gpus: the number of GPUs."""
        if trainer.type == "cpu":
            return ["cpu"]
        wanted = max(1, here.local_size * self.inferencer // self.trainer)
        free = range(here.local_size, gpus)[:wanted]
        return [f"cuda:{number}" for number in free] or [str(trainer)]

    def threads(self, total: int, here: distributed.World) -> tuple[int, int]:
        """Divide `total` threads; return the numbers for each trainer process and the inferencer, at least 1 each."""
        together = total * self.trainer // (self.trainer + self.inferencer)
        return max(1, together // here.local_size), max(1, total - together)


TRANSFORMER: float = LearningOptions.learning_rate
ADAPTER, TABLE = 2e-4, 0.01
_LARGE_TABLES = {"packaged:wordllama": 0.03}
"""Learning rates of tables with larger weights, since the size of Adam's steps does not depend on the weights."""


def usual_rate(model: ResolvedModel) -> float | None:
    """Return the default learning rate of a model, or None if the kind of model is unknown."""
    if model.spec.adapter is not None:
        return ADAPTER
    if model.known_family is None:
        return None
    return _LARGE_TABLES.get(model.origins[0][0].name, TABLE) if getattr(model.family, "tables", False) else TRANSFORMER
