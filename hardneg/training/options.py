"""What can be said about a training run."""

import sys
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from hardneg.distributed import world
from hardneg.seeding import SEED
from hardneg.store.identity import in_words_of_keys, options_in_key
from hardneg.training.drawing import Drawing, Drawn, Windows


def below(options: object, least: int, *names: str) -> list[str]:
    """One line for each of these options that is given and is not `least` or above."""
    values = ((name, getattr(options, name)) for name in names)
    return [
        f"{name} must be {least} or above, not {value}"
        for name, value in values
        if value is not None and not value >= least
    ]


@dataclass(frozen=True)
class TrainOptions:
    """The options of one training run; a step is one update of the weights.

    Attributes:
        batch_size: queries that are scored together, each against the documents of all of them.
        negatives_per_query: documents drawn from each query's negatives, anew in each epoch; 0 leaves
            the other queries' documents as the only negatives.
        positive: a query's positive is `drawn` from all that are known, anew in each epoch, or is the `first` one of
            the judgements, as DPR's files have the gold passage first.
        iterate_negatives: an epoch has each query once for each `negatives_per_query` of its negatives, in their order,
            one time after the other, as ANCE's program has a query's triples; otherwise once, its negatives drawn.
        negatives_drawn: a query's negatives are drawn `uniformly`, or by `margin_bins`: a bin, of ten of equal width
            from the least to the largest of the query's margins by the teacher, each that has any as likely; then any
            negative in it, as TAS-B does.
        rank_windows: pairs [skip, depth]: epoch e, from 0, draws from ranks skip + 1 to depth of a query's negatives as
            the e-th pair says, and the last pair holds on; a list that ends before draws from its end. So negatives can
            become harder epoch by epoch.
        epochs: passes over the queries; a fraction stops within one. Not used where `max_steps` is given.
        max_steps: updates of the weights in all.
        stop_at: the step to end at, though the learning rate goes on as if all steps were to come; a training that has
            fewer ends with its last. None goes to the end.
        keep_every: steps between the models that are kept, each as a folder that opens like the last one; none keeps
            the last one alone.
        optimizer: `adamw` or `lamb`.
        learning_rate: its peak, reached when the warm-up is over.
        epsilon: added to the root of the second moment, in both optimizers.
        weight_decay: applied to all weights but biases and those of LayerNorm.
        warmup_steps: steps during which the learning rate rises: step s of them, from 0, has (s + 1) / (warmup_steps +
            1) of its peak; goes before `warmup_ratio`.
        warmup_ratio: the same as a part of all steps.
        warmup_from_zero: step s of the warm-up, from 0, has s / warmup_steps of the peak instead, so the first one has
            rate 0, as schedules of transformers and of the papers' programs do.
        decay: the learning rate after the warm-up: `linear` or `cosine` to 0 at the end, or `constant`.
        decay_from_start: the rate after the warm-up is that of a decay which began with the first step, as RocketQA's
            program does: it falls by the warm-up's part at once.
        clip_norm: largest norm of the gradient, all weights together; 0 or none means no clipping.
        accumulate: batches that share one step; each is scored on its own.
        chunk: queries that are encoded at a time, with their documents, so that a batch needs the memory of so many;
            each is encoded twice for it. None encodes the batch at once.
        false_negative_mask: no known positive of a query, nor a copy of one, is a negative of it; otherwise every
            document of the batch but the query's own positive is, as in the published program.
        share_negatives_across: whose documents a query sees when several processes train: those of all `processes`, or
            with `none` those of its own process.
        precision: `bf16` runs the transformer in bfloat16, `auto` does so where a trial finds it faster; a training
            that is gone on with stays with what it began with.
        tf32: whether products in fp32 are of numbers rounded to TF32, which needs a GPU by CUDA.
        passes: `by_length` has a CPU encode a batch in passes of texts of about equal length, with dropout that is
            drawn many times faster; `whole` pads a batch to its longest text and draws as torch does. A GPU always
            takes it whole.
        compile: whether the transformer is compiled by `torch.compile`, which takes minutes first and draws dropout in
            its own way.
        gradient_checkpointing: compute activations twice to need less memory.
        seed: all draws, and dropout, depend on it.
        checkpoint_every: steps between checkpoints; none means by the clock, at evaluations and at the end only.
        checkpoint_minutes: time between checkpoints at most, however many steps that is; none means by steps alone.
        evaluate_every: steps between evaluations on the dev queries; none means at the end only.
        patience: stop after so many evaluations in a row without a new best; none means never.
        metric: the dev metric that decides which weights are best; larger is better.
        keep_best: end with the best weights by `metric` instead of the last ones.
        tracker: where accelerate logs the learning curve, such as `tensorboard` or `wandb`.
    """

    free: ClassVar[frozenset[str]] = frozenset(
        {"checkpoint_every", "checkpoint_minutes", "gradient_checkpointing", "tracker"}
    )
    later: ClassVar[frozenset[str]] = frozenset(
        {
            "positive",
            "iterate_negatives",
            "negatives_drawn",
            "rank_windows",
            "chunk",
            "false_negative_mask",
            "share_negatives_across",
            "stop_at",
            "keep_every",
            "epsilon",
            "passes",
            "compile",
            "tf32",
            "warmup_from_zero",
            "decay_from_start",
        }
    )
    of_batches: ClassVar[tuple[str, ...]] = ("chunk", "false_negative_mask", "share_negatives_across")
    """Options of training where each query meets the documents of its batch."""

    batch_size: int = 32
    negatives_per_query: int = 1
    positive: Literal["drawn", "first"] = "drawn"
    iterate_negatives: bool = False
    negatives_drawn: Drawn = "uniformly"
    rank_windows: Windows | None = None
    epochs: float | None = 1.0
    max_steps: int | None = None
    stop_at: int | None = None
    keep_every: int | None = None
    optimizer: Literal["adamw", "lamb"] = "adamw"
    learning_rate: float = 2e-5
    epsilon: float = 1e-8
    weight_decay: float = 0.01
    warmup_steps: int | None = None
    warmup_ratio: float = 0.1
    warmup_from_zero: bool = False
    decay: Literal["linear", "cosine", "constant"] = "linear"
    decay_from_start: bool = False
    clip_norm: float | None = 1.0
    accumulate: int = 1
    chunk: int | None = None
    false_negative_mask: bool = True
    share_negatives_across: Literal["processes", "none"] = "processes"
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    tf32: bool = False
    passes: Literal["whole", "by_length"] = "whole"
    compile: bool = False
    gradient_checkpointing: bool = False
    seed: int = SEED
    checkpoint_every: int | None = 1000
    checkpoint_minutes: float | None = 10.0
    evaluate_every: int | None = None
    patience: int | None = None
    metric: str = "mrr@10"
    keep_best: bool = True
    tracker: str | None = None

    def identity(self) -> dict[str, Any]:
        """The options that may change the trained weights; and the number of processes, where each is on its own."""
        alone = {"processes": world().size} if self.share_negatives_across == "none" else {}
        return in_words_of_keys(options_in_key(self)) | alone

    @property
    def drawing(self) -> Drawing:
        """How a query's positive and negatives are drawn."""
        return Drawing(self.positive, self.iterate_negatives, self.negatives_drawn, self.rank_windows)

    def given_of_batches(self) -> list[str]:
        """Those `of_batches` that have another value than their default."""
        return [name for name in self.of_batches if getattr(self, name) != getattr(TrainOptions, name)]

    def total_steps(self, queries: int) -> int:
        """How many steps the schedule has for so many queries; the last one may begin another pass to be full."""
        if self.max_steps is not None:
            return self.max_steps
        examples = round((self.epochs or 0) * queries)
        return max(1, -(-examples // (self.batch_size * self.accumulate)))

    def last_step(self, queries: int) -> int:
        """The step to end at for so many queries."""
        return min(self.total_steps(queries), self.stop_at or sys.maxsize)

    @property
    def known_end(self) -> int | None:
        """The step to end at where the number of queries does not matter; None where it does."""
        return min((step for step in (self.max_steps, self.stop_at) if step is not None), default=None)

    def problems(self) -> list[str]:
        """One line for each option that makes no sense."""
        steps = ("max_steps", "stop_at", "keep_every", "checkpoint_every", "evaluate_every", "patience")
        found = below(self, 1, "batch_size", "accumulate", "chunk", *steps)
        found += [
            f"{name} must be above 0, not {value}"
            for name in ("learning_rate", "epsilon", "epochs", "checkpoint_minutes")
            if (value := getattr(self, name)) is not None and not value > 0
        ]
        found += below(self, 0, "negatives_per_query", "weight_decay", "warmup_steps", "clip_norm")
        if not 0 <= self.warmup_ratio <= 1:
            found.append(f"warmup_ratio must be between 0 and 1, not {self.warmup_ratio}")
        if self.epochs is None and self.max_steps is None:
            found.append("give epochs or max_steps")
        return found + self._of_drawing() + self._at_odds() + self._never_reached()

    def _of_drawing(self) -> list[str]:
        windows = self.rank_windows or ()
        given = {"negatives_drawn": self.negatives_drawn != "uniformly", "rank_windows": self.rank_windows is not None}
        named = [name for name, is_given in given.items() if is_given]
        found = [
            f"rank_windows: need 0 <= skip < depth, not {[*pair]}" for pair in windows if not 0 <= pair[0] < pair[1]
        ]
        found += ["rank_windows: give one pair [skip, depth] or more"] if self.rank_windows == () else []
        if named and self.iterate_negatives:
            found.append(f"{' and '.join(named)}: iterate_negatives draws nothing: leave one of them out")
        if named and not self.negatives_per_query:
            found.append(f"{' and '.join(named)}: negatives_per_query is 0, so that nothing is drawn: leave it out")
        return found

    def _at_odds(self) -> list[str]:
        """Options that leave another without effect, or that draw dropout in a way which another cannot repeat."""
        found = []
        if self.decay_from_start and self.decay == "constant":
            found.append("decay_from_start goes with decay linear or cosine: leave decay_from_start out")
        if self.gradient_checkpointing and self.passes == "by_length":
            found.append("gradient_checkpointing cannot repeat the dropout of passes by_length: leave one of them out")
        if self.compile and self.passes == "by_length":
            found.append("compile draws dropout in its own way, and so does passes by_length: leave one of them out")
        if self.compile and self.chunk is not None:
            found.append("chunk cannot repeat the dropout of what is compiled: leave chunk or compile out")
        return found

    def _never_reached(self) -> list[str]:
        found = []
        if self.stop_at is not None and self.max_steps is not None and self.stop_at > self.max_steps:
            found.append(f"stop_at must be {self.max_steps} (max_steps) or below, not {self.stop_at}")
        if self.keep_every is not None and self.known_end is not None and self.keep_every > self.known_end:
            found.append(f"keep_every must be {self.known_end}, the last step, or below, not {self.keep_every}")
        return found


@dataclass(frozen=True)
class RerankerOptions(TrainOptions):
    """The options of a training run, with other defaults: four negatives a query, a lower rate.

    `batch_size` counts queries, as everywhere: of 1 + `negatives_per_query` pairs each.

    Attributes:
        adversarial: how far the word embeddings are moved, along the gradient of the whole table, before the pass that
            is learnt from (the fast gradient method); RocketQA's program does so by 0.01. 0 leaves it out.

    Source: Qu et al., RocketQA (NAACL 2021), section 4.1; Miyato et al., Adversarial Training Methods for
    Semi-Supervised Text Classification (ICLR 2017), Eq. 5.
    """

    negatives_per_query: int = 4
    learning_rate: float = 1e-5
    adversarial: float = 0.0

    def problems(self) -> list[str]:
        """One line for each option that makes no sense."""
        found = super().problems()
        if self.negatives_per_query == 0:
            found.append("negatives_per_query must be 1 or above: a reranker is shown its query's documents alone")
        found += below(self, 0, "adversarial")
        found += [
            f"{name} has no effect on a reranker, which is shown each query's own documents: leave it out"
            for name in self.given_of_batches()
        ]
        return found
