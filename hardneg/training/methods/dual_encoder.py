"""Training of a dual encoder (stage `train`), with a gradient cache for batches of any size."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.towers import placed
from hardneg.records import ScoreBatch, UsageError
from hardneg.runtime import Progress, gather, world
from hardneg.training import batches, examples, loop, options, sources, step
from hardneg.training.batches import Features, Parts
from hardneg.training.loss_terms import Change, LossTerms

Vectors = tuple[Tensor, ...]
_Pass = Callable[[], Vectors]
_LOSS_ALONE = LossTerms()


class TwoTowers(nn.Module):
    """An encoder of queries and documents in one forward call, as a distributed wrapper needs."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.module = encoder.module
        self._embed = encoder.embed

    def forward(self, queries: Features, documents: Features) -> tuple[Tensor, Tensor]:
        """Vectors of queries and documents, float32 [B, d] and [D, d]."""
        return self._embed(queries, "query"), self._embed(documents, "document")


class DualEncoderTraining(step.ExampleTraining):
    """Training of both sides of an encoder on documents drawn for each query."""

    def __init__(
        self,
        encoder: Encoder,
        data: examples.TrainingData | sources.Mixture,
        options: options.TrainOptions,
        terms: LossTerms = _LOSS_ALONE,
    ) -> None:
        """terms: raise UsageError or ModelError if the encoder does not fit them."""
        terms.check(encoder)
        self.encoder, self._terms = encoder, terms
        self.trainable: nn.Module = encoder.module
        self.forward_module = TwoTowers(encoder)
        self._corpus, self._cut, self._guide = data.corpus, data.segments, data.guide
        self._unmasked = not options.false_negative_mask
        fits = options.chunk is None or max(world().shares(options.batch_size)) <= options.chunk
        self._chunk = None if fits else options.chunk
        self.examples = data.examples(options)

    def make(self, drawn: examples.SampledBatch) -> batches.Batch:
        drawn = drawn.unmasked() if self._unmasked else drawn
        return batches.make_batch(self.encoder, self._corpus, drawn, self._cut, self._guide)

    def digest(self) -> str:
        return self._terms.named_with(self.examples.digest())

    def scores(self, model: Any, batch: batches.Batch, half: bool) -> ScoreBatch:
        """Scores of each query against each document of the batch, of all processes."""
        return self._scored(*self._encoded(model, batch, half), batch)

    def minimised(
        self, loss: step.Objective, model: Any, batch: batches.Batch, half: bool, done: float
    ) -> tuple[Tensor, Tensor | None]:
        """The loss of the masked scores, at each of `dims` and `precisions`, and the regularizer's penalty."""
        queries, documents = self._encoded(model, batch, half)
        needs = self._terms.needs(loss)

        def loss_of(cut: Change, stored: Change) -> Tensor:
            def changed(vectors: Tensor) -> Tensor:
                return stored(cut(vectors))

            if batch.counts is None:
                found = changed(documents)
            else:  # slots of segments, whose last column is a mark
                vectors = changed(documents[..., :-1].flatten(0, 1)).view(*documents.shape[:2], -1)
                found = torch.cat([vectors, documents[..., -1:]], dim=2)
            return loss(self._terms.masked(self._scored(cut(queries), found, batch, needs)))

        penalty = self._terms.penalty(queries, documents, batch.column, done)
        return self._terms.loss(self.encoder, loss_of), penalty

    def _encoded(self, model: Any, batch: batches.Batch, half: bool) -> tuple[Tensor, Tensor]:
        """Queries float32 [B, ...] and documents [D, ...], or slots of segments, of all processes."""
        precision = partial(torch.autocast, self.encoder.device.type, torch.bfloat16, enabled=half)
        if self._chunk is None:
            with precision():
                queries, documents = model(batch.queries, batch.documents)
        else:
            rows = self._chunk * batch.columns.width * (1 if self._cut is None else self._cut.count)
            parts = batches.in_parts(batch.queries, self._chunk), batches.in_parts(batch.documents, rows)
            queries, documents = encode_twice(*parts, Towers(self.encoder.embed, model, precision))
        queries = gather(queries, batch.columns.queries)
        if batch.counts is not None and self._cut is not None:
            documents = batches.in_slots(documents, batch.counts, self._cut.count)
        return queries, gather(documents, batch.distinct)

    def _scored(
        self, queries: Tensor, documents: Tensor, batch: batches.Batch, needs: frozenset[str] = frozenset()
    ) -> ScoreBatch:
        column, of, score = placed(batch.column.numpy(), documents.device), batch.columns, self.encoder.score
        if batch.counts is None:
            scored = batches.masked(score(queries, documents, column), of)
        else:
            scored = batches.masked(batches.best_segments(queries, documents)[:, column], of)
        parts: dict[str, Tensor] = {}
        if batch.guide:
            parts = batches.guide_scores(batch.guide, column, needs | ({"guide"} if "teacher" in needs else set()))
            if "teacher" in needs and scored.teacher is None:  # the guide is the teacher unless a run is
                parts["teacher"] = parts["guide"]
        if "query_query" in needs:
            parts["query_query"] = batches.apart(score(queries, queries), of.related_queries())
        if "document_document" in needs:
            if batch.counts is not None:
                raise UsageError("documents in segments have no scores with each other: choose another loss")
            scores = score(documents, documents, column)[column]
            parts["document_document"] = batches.apart(scores, of.related_documents())
        return replace(scored, **parts)


def train(
    encoder: Encoder,
    data: examples.TrainingData | sources.Mixture,
    loss: step.Objective,
    options: options.TrainOptions,
    folder: Path,
    *,
    progress: Progress,
    validate: loop.Validate | None = None,
    terms: LossTerms = _LOSS_ALONE,
) -> loop.TrainingResult:
    """Train both sides of `encoder` in place, as `learn` does."""
    loop.check_options(options)
    method = DualEncoderTraining(encoder, data, options, terms)
    return loop.learn(method, loss, options, folder, progress=progress, validate=validate)


@dataclass(frozen=True, slots=True)
class Towers:
    """Functions that encode the texts of one side, or of both; `context` makes the context of a pass.

    `both` may be wrapped for several processes. It is called once with a graph, after all other parts, as the wrapper
    expects, and then reduces the gradients that all parts have accumulated; the other parts bypass it.
    """

    one: Callable[[Features, Any], Tensor]
    both: Callable[[Features, Features], Vectors]
    context: Callable[[], Any]


def encode_twice(queries: Parts, documents: Parts, towers: Towers) -> tuple[Tensor, Tensor]:
    """The vectors of both sides, with gradients that reach the weights part by part (gradient caching).

    A batch of any size takes the memory of one part. All parts are encoded without a graph; the loss of the whole batch
    gives each vector its gradient; then each part is encoded again, with a graph and the same dropout, to propagate its
    vectors' gradients to the weights.

    Source: Gao et al., Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup (RepL4NLP 2021),
    section 3.
    """
    sides: list[tuple[Parts, str]] = [(queries, "query"), (documents, "document")]
    passes: list[_Pass] = [
        partial(lambda features, side: (towers.one(features, side),), features, side)
        for parts, side in sides
        for features in parts.features[:-1]
    ]
    passes.append(partial(towers.both, queries.features[-1], documents.features[-1]))
    first = int(torch.randint(2**62, ()))

    def with_seed(seed: int, encode: _Pass) -> Vectors:
        torch.manual_seed(seed)
        with towers.context():
            return encode()

    seeded = [partial(with_seed, first + number, encode) for number, encode in enumerate(passes)]
    *vectors, query, document = _Twice.apply(torch.empty(0, requires_grad=True), seeded)  # type: ignore[no-untyped-call]
    others = len(queries.features) - 1
    return queries.join([*vectors[:others], query]), documents.join([*vectors[others:], document])


class _Twice(torch.autograd.Function):
    """Encoding without a graph, repeated with one in the backward pass; `anchor` makes autograd call it."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, passes: Sequence[_Pass]) -> Vectors:
        encoded = [encode() for encode in passes]
        ctx.passes, ctx.counts = passes, [len(vectors) for vectors in encoded]
        return tuple(part for vectors in encoded for part in vectors)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None]:
        waiting = iter(gradients)
        for encode, count in zip(ctx.passes, ctx.counts, strict=True):
            with torch.enable_grad():
                vectors = encode()
            torch.autograd.backward(vectors, list(islice(waiting, count)))
        return None, None
