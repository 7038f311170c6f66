"""Training of a dual encoder (stage `train`): masks and terms of the loss, and gradient caching."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.towers import placed
from hardneg.records import errors, types
from hardneg.registry import needs_of
from hardneg.runtime import Progress, gather, world
from hardneg.store import digest, plugin_identity
from hardneg.training import batches, examples, loop, options, sources, step
from hardneg.training.batches import Features, Parts

Vectors = tuple[Tensor, ...]
_Pass = Callable[[], Vectors]


def guide_masked(batch: types.ScoreBatch, mask: options.GuidedMask) -> types.ScoreBatch:
    """Mask negatives whose guide score exceeds the positive's minus the margin. Raises TrainingError without a guide.

    The batch's scores `guide`, `guide_query_query` and `guide_document_document` are compared with the guide's score
    for the row's query and its positive, or with the lowest such score if there are several positives.

    Source: Solatorio, GISTEmbed (2024), section 3; margins as in sentence-transformers' `GISTEmbedLoss`.
    """
    if batch.guide is None:
        raise errors.TrainingError("guided_mask: the batch has no guide scores; set `guide` to an encode stage")
    highest = _lowest_positive(batch.guide, batch)
    highest = highest - mask.margin * (highest.abs() if mask.kind == "relative" else 1)
    return _mask(batch, (batch.guide, batch.guide_query_query, batch.guide_document_document), highest)


def self_masked(batch: types.ScoreBatch, margin: float) -> types.ScoreBatch:
    """Mask negatives that the model itself scores above the positive plus `margin`; they are probably false negatives.

    Scores between queries and between documents are masked as well. No gradient flows through the comparison.

    Source: Zhang et al., Qwen3 Embedding (2025), Eq. 1 and the mask below it, with a margin of 0.1 for cosines.
    """
    parts = (batch.scores, batch.query_query, batch.document_document)
    scores = [None if part is None else part.detach() for part in parts]
    return _mask(batch, scores, _lowest_positive(batch.scores.detach(), batch) + margin)


def _lowest_positive(scores: Tensor, batch: types.ScoreBatch) -> Tensor:
    """Return the lowest score of each row's positives, float [B, 1]; infinite for a row without positives."""
    return scores.masked_fill(~(batch.positive & batch.valid), torch.inf).amin(1, keepdim=True)


def _mask(batch: types.ScoreBatch, parts: Sequence[Tensor | None], highest: Tensor) -> types.ScoreBatch:
    """Mask scores above `highest`, float [B, 1]; parts: scores [B, M], [B, B] or None, [M, M] or None."""
    scores, query_query, document_document = parts
    assert scores is not None
    valid = batch.valid & (batch.positive | (scores <= highest))
    queries, documents = batch.query_query, batch.document_document
    if queries is not None and query_query is not None:
        queries = queries.masked_fill(query_query > highest, -torch.inf)
    if documents is not None and document_document is not None:
        owner = (batch.positive | batch.own).int().argmax(0)
        documents = documents.masked_fill(document_document > highest[owner], -torch.inf)
    return replace(batch, valid=valid, query_query=queries, document_document=documents)


Change = Callable[[Tensor], Tensor]
"""A function that truncates encoded texts, or quantizes them as an index does."""


def stored(vectors: Tensor, precision: types.StoredPrecision) -> Tensor:
    """Return vectors, float [n, d], as an index of this precision would decode them, with a straight-through gradient.

    `float32` is the identity. `int8` matches index `sq8`: 255 steps between each dimension's minimum and maximum.
    `binary` matches index `binary`: the sign of each number, scaled to the mean norm of the vectors.

    Source: Bengio, Léonard and Courville, Estimating or Propagating Gradients Through Stochastic Neurons for
    Conditional Computation (2013), section 5, for the gradients.
    """
    if precision == "float32":
        return vectors
    exact = vectors.detach()
    if precision == "int8":
        least, width = exact.amin(0), (exact.amax(0) - exact.amin(0)).clamp_min(torch.finfo(exact.dtype).tiny)
        decoded = least + ((255 * ((exact - least) / width)).floor() + 0.5) / 255 * width
    else:
        decoded = torch.where(exact > 0, 1, -1) * exact.norm(dim=1).mean() / exact.shape[1] ** 0.5
    return vectors + (decoded - exact)


@dataclass(frozen=True)
class LossTerms:
    """Additions to a loss: truncated dimensions, index precisions, a regularizer, and masks of false negatives.

    dims: weight of the loss at each number of dimensions; empty means one loss on all dimensions. precisions:
    precisions of the document vectors, each with its own loss. regularizer: plugin that computes a penalty to add.
    guided_mask: mask by guide scores. self_mask: negatives are masked if they score above the positive plus this.

    Source: Kusupati et al., Matryoshka Representation Learning (NeurIPS 2022), Eq. 1.
    """

    dims: Mapping[int, float] = field(default_factory=dict)
    regularizer: Callable[[types.EncodedBatch], Tensor] | None = None
    guided_mask: options.GuidedMask | None = None
    self_mask: float | None = None
    precisions: tuple[types.StoredPrecision, ...] = ()

    def named_with(self, examples: str) -> str:
        """Return a digest of these terms and `examples`, the examples' digest; without terms, return `examples`."""
        if self == LossTerms():
            return examples
        guided, of = None if self.guided_mask is None else asdict(self.guided_mask), self.regularizer
        named = None if of is None else plugin_identity(type(of).__qualname__, of)
        masks = [mask for mask in (guided, self.self_mask) if mask is not None]
        return digest([examples, [[dim, weight] for dim, weight in self.dims.items()], named, *masks, *self.precisions])

    def needs(self, loss: object) -> frozenset[str]:
        """Return the optional fields of a `ScoreBatch` that a loss and the masks use."""
        named = frozenset(needs_of(loss))
        if self.guided_mask is None:
            return named
        return named | {"guide", *(f"guide_{part}" for part in options.WITH_EACH_OTHER if part in named)}

    def masked(self, batch: types.ScoreBatch) -> types.ScoreBatch:
        """Return the batch with all masks applied."""
        batch = batch if self.guided_mask is None else guide_masked(batch, self.guided_mask)
        return batch if self.self_mask is None else self_masked(batch, self.self_mask)

    def check(self, encoder: Any) -> None:
        """Check that the encoder's vectors can be truncated and quantized.

        Raises:
            UsageError: the encoder has too few dimensions.
            ModelError: the encoder's vectors cannot be truncated.
        """
        if not self.dims and not self.precisions:
            return
        if (most := max(self.dims, default=0)) > encoder.dimension:
            raise errors.UsageError(f"dims: {most} exceeds the model's {encoder.dimension} dimensions; use fewer")
        encoder.truncated(torch.zeros(1, encoder.dimension), min(self.dims, default=encoder.dimension))

    def loss(self, encoder: Any, loss_of: Callable[[Change, Change], Tensor]) -> Tensor:
        """Return the sum of the losses over all `precisions` and `dims`, weighted as in `dims`.

        loss_of: function that returns the loss, given a function that truncates texts and one that quantizes documents.
        """
        if not self.dims and not self.precisions:
            return loss_of(lambda encoded: encoded, lambda encoded: encoded)
        losses = [
            weight * loss_of(partial(encoder.truncated, dimension=dim), partial(stored, precision=precision))
            for dim, weight in (self.dims or {encoder.dimension: 1.0}).items()
            for precision in self.precisions or ("float32",)
        ]
        return torch.stack(losses).sum()

    def penalty(self, queries: Tensor, documents: Tensor, column: Tensor, done: float) -> Tensor | None:
        """Return the regularizer's penalty, if any, for encoded queries, float [B, ...], and documents, float [D, ...].

        column: int64 [M], index of the document in each score column. done: the fraction of finished steps.
        """
        if self.regularizer is None:
            return None
        counts = column.bincount(minlength=len(documents)).to(documents.device)
        return self.regularizer(types.EncodedBatch(queries, documents, counts, done))


_LOSS_ALONE = LossTerms()


class TwoTowers(nn.Module):
    """An encoder of queries and documents in one forward call, as distributed wrappers require."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.module = encoder.module
        self._embed = encoder.embed

    def forward(self, queries: Features, documents: Features) -> tuple[Tensor, Tensor]:
        """Return the vectors of queries and documents, float32 [B, d] and [D, d]."""
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
        """Raise UsageError or ModelError if the encoder does not support `terms`."""
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
        if self._unmasked:
            drawn = replace(drawn, known=drawn.known[:0], owner=drawn.owner[:0])
        return batches.make_batch(self.encoder, self._corpus, drawn, self._cut, self._guide)

    def digest(self) -> str:
        return self._terms.named_with(self.examples.digest())

    def scores(self, model: Any, batch: batches.Batch, half: bool) -> types.ScoreBatch:
        """Return the `ScoreBatch` of the whole batch, with the queries and the documents of all processes."""
        return self._scored(*self._encoded(model, batch, half), batch)

    def minimised(
        self, loss: step.Objective, model: Any, batch: batches.Batch, half: bool, done: float
    ) -> tuple[Tensor, Tensor | None]:
        """Return the loss of the masked scores over all `dims` and `precisions`, and the regularizer's penalty."""
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
        """Encode queries, float32 [B, ...], and documents [D, ...] or slots of segments, of all processes."""
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
    ) -> types.ScoreBatch:
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
                raise errors.UsageError("segmented documents have no scores with each other; use another loss")
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
    """Train both sides of `encoder` in place; files, resuming, errors and the result are as in `learn`."""
    loop.check_options(options)
    method = DualEncoderTraining(encoder, data, options, terms)
    return loop.learn(method, loss, options, folder, progress=progress, validate=validate)


@dataclass(frozen=True, slots=True)
class Towers:
    """Functions that encode one side or both sides; `context` creates the context manager of a pass.

    `both` may be wrapped for distributed training, whereas `one` bypasses the wrapper. In the pass with a graph, `both`
    is called last, so that its wrapper reduces the gradients that all calls have accumulated.
    """

    one: Callable[[Features, Any], Tensor]
    both: Callable[[Features, Features], Vectors]
    context: Callable[[], Any]


def encode_twice(queries: Parts, documents: Parts, towers: Towers) -> tuple[Tensor, Tensor]:
    """Encode both sides so that gradients reach the weights part by part (gradient caching).

    A batch of any size needs only the memory of one part. All parts are first encoded without a graph. The loss of the
    whole batch then determines the gradient of each vector. Finally each part is encoded again, with a graph and the
    same dropout, to propagate these gradients to the weights.

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
    """Encoding without a graph, repeated with one in the backward pass; `anchor` makes autograd call `backward`."""

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
