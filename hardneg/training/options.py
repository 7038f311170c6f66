"""Options of a training run, a stage's `options` in a recipe, and of its refreshes; `option` declares each."""

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
    """A field of an options dataclass with bounds; key: `FREE` or `LATER` if the field does not always enter keys."""
    bounds = {"least": least, "above": above}
    return field(default=default, metadata={"help": meaning, **bounds, **(key or {})})


def with_default(owner: type[Any], name: str, default: Any) -> Any:
    """An option inherited from another class, with another default."""
    (inherited,) = (each for each in fields(owner) if each.name == name)
    return field(default=default, metadata=inherited.metadata)


def collect(options: object, hook: str, *arguments: object) -> Iterator[Any]:
    """Yield the results of a hook from the options' class and from each base class that defines the hook."""
    for group in type(options).__mro__:
        if hook in vars(group):
            yield from vars(group)[hook](options, *arguments)


@dataclass(frozen=True)
class CheckedOptions:
    """Options with bounds; a class may define `mistakes`, which yields lines about options that conflict."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    def problems(self) -> list[str]:
        """Return one line per out-of-bounds option and per conflict between options."""
        lines = []
        for each in fields(self):
            value, least, above = getattr(self, each.name), each.metadata.get("least"), each.metadata.get("above")
            if value is not None and least is not None and not value >= least:
                lines.append(f"{each.name} must be {least} or above, not {value}")
            if value is not None and above is not None and not value > above:
                lines.append(f"{each.name} must be above {above}, not {value}")
        return [*lines, *collect(self, "mistakes")]


@dataclass(frozen=True)
class LearningOptions(CheckedOptions):
    """Options of every training run; a step is one update of the weights."""

    # data and steps
    batch_size: int = option(32, "Queries per batch, each scored against the documents of all of them.", least=1)
    accumulate: int = option(1, "Batches per step, each scored on its own.", least=1)
    epochs: float | None = option(
        1.0, "Passes over the queries; may be fractional. Ignored if `max_steps` is given.", above=0
    )
    max_steps: int | None = option(None, "Total number of steps.", least=1)
    stop_at: int | None = option(
        None, "Step to stop at, without changing the learning-rate schedule.", least=1, key=LATER
    )
    keep_every: int | None = option(None, "Steps between intermediate models that are saved.", least=1, key=LATER)
    seed: int = option(seeding.SEED, "Seed of all draws and of dropout.")
    # negatives
    negatives_per_query: int = option(
        1, "Negatives drawn for each query, anew in each epoch; with 0 only in-batch negatives are used.", least=0
    )
    positive: Literal["drawn", "first"] = option(
        "drawn",
        "`drawn` draws a query's positive anew in each epoch; `first` uses the first judgement, the gold passage in "
        "DPR's files.",
        key=LATER,
    )
    iterate_negatives: bool = option(
        False,
        "Repeat each query in an epoch for each `negatives_per_query` of its negatives, in order, as ANCE's program "
        "does with a query's triples, instead of drawing its negatives.",
        key=LATER,
    )
    negatives_drawn: Literal["uniformly", "margin_bins"] = option(
        "uniformly",
        "`uniformly`, or by `margin_bins` as TAS-B does: draw one of ten equal bins of the teacher's margins, then a "
        "negative in it.",
        key=LATER,
    )
    # optimizer and schedule
    optimizer: Literal["adamw", "lamb"] = option("adamw", "`adamw` or `lamb`.")
    learning_rate: float = option(2e-5, "Peak learning rate; the default depends on the kind of model.", above=0)
    epsilon: float = option(1e-8, "Added to the root of the second moment.", above=0, key=LATER)
    weight_decay: float = option(0.01, "Weight decay, except of biases and LayerNorm weights.", least=0)
    warmup_steps: int | None = option(
        None,
        "Steps of the warm-up: step s, from 0, has (s + 1) / (warmup_steps + 1) of the peak; overrides `warmup_ratio`.",
        least=0,
    )
    warmup_ratio: float = option(0.1, "Warm-up as a fraction of all steps.")
    warmup_from_zero: bool = option(
        False, "Step s has s / warmup_steps of the peak, as in transformers and the papers' programs.", key=LATER
    )
    decay: Literal["linear", "cosine", "constant"] = option(
        "linear", "Learning rate after the warm-up: `linear` or `cosine` decay to 0, or `constant`."
    )
    decay_from_start: bool = option(
        False,
        "Start the decay with the first step, as RocketQA's program does; the rate drops at the end of the warm-up.",
        key=LATER,
    )
    clip_norm: float | None = option(
        1.0, "Largest norm of the gradient of all weights; 0 or none means no clipping.", least=0
    )
    # precision and speed
    precision: Literal["auto", "fp32", "bf16"] = option(
        "auto",
        "`bf16` runs the transformer in bfloat16, `auto` does so if the device has units for it; a resumed training "
        "keeps its choice.",
    )
    tf32: bool = option(False, "Round the factors of fp32 products to TF32; needs a CUDA GPU.", key=LATER)
    gradient_checkpointing: bool = option(False, "Recompute activations to save memory.", key=FREE)
    # checkpoints
    checkpoint_every: int | None = option(
        1000, "Steps between checkpoints; none means at evaluations and at the end.", least=1, key=FREE
    )
    # validation
    evaluate_every: int | None = option(
        None, "Steps between evaluations on the dev queries; none means at the end.", least=1
    )
    patience: int | None = option(None, "Evaluations without a new best before training stops.", least=1)
    metric: str = option("mrr@10", "Dev metric that selects the best weights; larger is better.")
    keep_best: bool = option(True, "End with the best weights by `metric` instead of the last ones.")

    def total_steps(self, queries: int) -> int:
        """The steps of the schedule for a number of queries; another pass may start to fill the last batch."""
        if self.max_steps is not None:
            return self.max_steps
        examples = round((self.epochs or 0) * queries)
        return max(1, -(-examples // (self.batch_size * self.accumulate)))

    def last_step(self, queries: int) -> int:
        """The last step of the run for a number of queries."""
        return min(self.total_steps(queries), self.stop_at or sys.maxsize)

    def identity(self) -> dict[str, Any]:
        return legacy_key_names(options_in_key(self))

    def mistakes(self) -> Iterator[str]:
        """Yield conflicts between options."""
        if not 0 <= self.warmup_ratio <= 1:
            yield f"warmup_ratio must be between 0 and 1, not {self.warmup_ratio}"
        if self.decay_from_start and self.decay == "constant":
            yield "decay_from_start needs decay linear or cosine: drop decay_from_start"
        if self.negatives_drawn != "uniformly" and (self.iterate_negatives or not self.negatives_per_query):
            yield "negatives_drawn has no effect with iterate_negatives or negatives_per_query 0: drop it"
        if self.epochs is None and self.max_steps is None:
            yield "give epochs or max_steps"
        if self.stop_at is not None and self.max_steps is not None and self.stop_at > self.max_steps:
            yield f"stop_at must be {self.max_steps} (max_steps) or below, not {self.stop_at}"
        end = min((step for step in (self.max_steps, self.stop_at) if step is not None), default=sys.maxsize)
        if self.keep_every is not None and self.keep_every > end:
            yield f"keep_every must be {end}, the last step, or below, not {self.keep_every}"


@dataclass(frozen=True)
class TrainOptions(LearningOptions):
    """Options of training with in-batch negatives."""

    chunk: int | None = option(
        None, "Queries encoded at a time, each twice (gradient caching), to save memory.", least=1, key=LATER
    )
    false_negative_mask: bool = option(
        True,
        "Mask a query's known positives and their copies; otherwise every document of the batch except its own "
        "positive is a negative, as in the published program.",
        key=LATER,
    )


WITH_EACH_OTHER = ("query_query", "document_document")
"""Fields of a `ScoreBatch` with the model's scores of texts of the same side."""
GUIDES = ("guide", *(f"guide_{part}" for part in WITH_EACH_OTHER))
"""Fields with a guide's scores."""


@dataclass(frozen=True)
class GuidedMask(CheckedOptions):
    """Options of the mask by a guide's scores; kind: absolute margin, or margin relative to the positive's score."""

    margin: float = option(0.0, "Least distance of a negative's score below the positive's.", least=0)
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
        "Norm of the perturbation of the word embeddings along their gradient (the fast gradient method); 0.01 in "
        "RocketQA's program, 0 turns it off.",
        least=0,
    )

    def mistakes(self) -> Iterator[str]:
        """Yield a mistake if there are no negatives per query, since a reranker has no in-batch negatives."""
        if self.negatives_per_query == 0:
            yield "negatives_per_query must be 1 or above: a reranker has no in-batch negatives"


@dataclass(frozen=True)
class RefreshOptions(CheckedOptions):
    """Options of the refreshes of negatives during training.

    Source: Xiong et al., Approximate Nearest Neighbor Negative Contrastive Learning for Dense Text Retrieval
    (ICLR 2021), sections 4 and 5.
    """

    policy: Literal["every", "synchronous"] = option(
        "every",
        "`every` mines in another process, with the newest checkpoint at each multiple of `every` steps; `synchronous` "
        "mines with the current model while training waits, reproducible to the bit on a CPU.",
    )
    every: int | None = option(None, "Steps between refreshes and their checkpoints.", least=1)
    depth: int = option(TOP_DEPTH, "Hits of each query that negatives are taken from.", least=1)
    negatives: int = option(20, "Negatives of each query; the published program takes 20 of the top 200.", least=1)
    choice: Literal["sampled", "top"] = option(
        "sampled",
        "Without a miner, `sampled` draws negatives from the top; `top` takes the best-ranked ones, as the published "
        "program does with `ann_measure_topk_mrr`.",
    )
    query_chunks: int = option(
        1, "Parts of the queries; refresh n mines part n modulo `query_chunks`. The published program has 5.", least=1
    )
    excluded: Literal["known", "last"] = option(
        "known",
        "Documents that are not negatives: `known` positives and their copies, or only the `last` positive, as in the "
        "published program, which trains on that one alone.",
    )
    precision: Literal["auto", "fp32", "bf16"] = option(
        "auto", "Precision of encoding; `auto` is bfloat16 if the device has units for it."
    )
    without_answers: bool = option(False, "Exclude passages that contain an answer, as the filter `answers`.")
    answer_match: Literal["string", "regex"] = option(
        "string", "Matching of answers: as words, or as regular expressions."
    )

    def identity(self) -> dict[str, Any]:
        """The options that can affect the negatives."""
        return options_in_key(self)

    def mistakes(self) -> Iterator[str]:
        """Yield mistakes such as a missing interval, or more negatives than hits."""
        if self.every is None:
            yield f"policy {self.policy}: give every"
        if self.negatives > self.depth:
            yield f"negatives must be {self.depth} (depth) or below, not {self.negatives}"


@dataclass(frozen=True)
class Devices(CheckedOptions):
    """The split of devices between the trainer and the inferencer.

    On a CPU, they divide the threads. With GPUs, each trainer process has one GPU. The inferencer has a proportional
    number of the following GPUs, or shares the trainer's GPUs if there are no others.
    """

    trainer: int = option(1, "Share of the process that trains.", least=1)
    inferencer: int = option(1, "Share of the process that mines.", least=1)

    def mining(self, trainer: Any, here: distributed.World, gpus: int) -> Sequence[str]:
        """The inferencer's devices; trainer: the `torch.device` of one trainer; gpus: the number of GPUs."""
        if trainer.type == "cpu":
            return ["cpu"]
        wanted = max(1, here.local_size * self.inferencer // self.trainer)
        free = range(here.local_size, gpus)[:wanted]
        return [f"cuda:{number}" for number in free] or [str(trainer)]

    def threads(self, total: int, here: distributed.World) -> tuple[int, int]:
        """Divide `total` threads among the trainer processes and the inferencer, with at least one each."""
        together = total * self.trainer // (self.trainer + self.inferencer)
        return max(1, together // here.local_size), max(1, total - together)


TRANSFORMER: float = LearningOptions.learning_rate
ADAPTER, TABLE = 2e-4, 0.01
_LARGE_TABLES = {"packaged:wordllama": 0.03}
"""Tables with larger weights, since Adam's steps are independent of the size of a weight."""


def usual_rate(model: ResolvedModel) -> float | None:
    """The default learning rate of a model, or None if the kind of model is unknown."""
    if model.spec.adapter is not None:
        return ADAPTER
    if model.known_family is None:
        return None
    return _LARGE_TABLES.get(model.origins[0][0].name, TABLE) if getattr(model.family, "tables", False) else TRANSFORMER
