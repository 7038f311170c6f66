"""Training of queries and documents together: every query is scored against the documents of the whole batch."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.towers import placed
from hardneg.protocols import Loss
from hardneg.records import ScoreBatch, UsageError
from hardneg.runtime import Progress, gather, world
from hardneg.training.batches import (
    Batch,
    Features,
    apart,
    best_segments,
    cut_slots,
    in_parts,
    in_slots,
    make_batch,
    masked,
)
from hardneg.training.examples import SampledBatch, TrainingData
from hardneg.training.gradient_cache import Towers, encode_twice
from hardneg.training.loop import TrainingResult, Validate, check_options, learn
from hardneg.training.loss_terms import Change, LossTerms
from hardneg.training.options import TrainOptions
from hardneg.training.sources import Mixture
from hardneg.training.step import ExampleTraining, Objective


class TwoTowers(nn.Module):
    """Queries and documents in one forward call, so that a distributed wrapper sees one a step."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.module = encoder.module
        self._embed = encoder.embed

    def forward(self, queries: Features, documents: Features) -> tuple[Tensor, Tensor]:
        """float32 [B, d] and [D, d]."""
        return self._embed(queries, "query"), self._embed(documents, "document")


_LOSS_ALONE = LossTerms()


class DualEncoderTraining(ExampleTraining):
    """The method of stage `train`: documents are drawn for each query, and both sides learn."""

    def __init__(
        self, encoder: Encoder, data: TrainingData | Mixture, options: TrainOptions, terms: LossTerms = _LOSS_ALONE
    ) -> None:
        """terms: UsageError or ModelError where the encoder does not fit them."""
        terms.check(encoder)
        self.encoder, self._terms = encoder, terms
        self.trainable: nn.Module = encoder.module
        self.forward_module = TwoTowers(encoder)
        self._corpus, self._cut, self._guide = data.corpus, data.segments, data.guide
        self._unmasked = not options.false_negative_mask
        # where the largest of the shares is small enough, it is encoded at once
        fits = options.chunk is None or max(world().shares(options.batch_size)) <= options.chunk
        self._chunk = None if fits else options.chunk
        self.examples = data.examples(options)

    def make(self, drawn: SampledBatch) -> Batch:
        drawn = drawn.unmasked() if self._unmasked else drawn
        return make_batch(self.encoder, self._corpus, drawn, self._cut, self._guide)

    def digest(self) -> str:
        return self._terms.named_with(self.examples.digest())

    def scores(self, model: Any, batch: Batch, half: bool) -> ScoreBatch:
        """Each query against each document of the batch, those of all processes."""
        return self._scored(*self._gathered(model, batch, half), batch)

    def minimised(
        self, loss: Objective, model: Any, batch: Batch, half: bool, done: float
    ) -> tuple[Tensor, Tensor | None]:
        """The loss of the masked scores, at each of `dims` and `precisions`, and the regularizer's penalty."""
        queries, documents = self._gathered(model, batch, half)
        needs = self._terms.needs(loss)

        def loss_of(cut: Change, stored: Change) -> Tensor:
            def changed(vectors: Tensor) -> Tensor:
                return stored(cut(vectors))

            kept = changed(documents) if batch.counts is None else cut_slots(documents, changed)
            return loss(self._terms.masked(self._scored(cut(queries), kept, batch, needs)))

        penalty = self._terms.penalty(queries, documents, batch.column, done)
        return self._terms.loss(self.encoder, loss_of), penalty

    def _gathered(self, model: Any, batch: Batch, half: bool) -> tuple[Tensor, Tensor]:
        """Queries float32 [B, ...] and documents [D, ...], or slots of segments, of all processes."""
        queries, documents = self._vectors(model, batch, half)
        queries = gather(queries, batch.columns.queries)
        if batch.counts is not None and self._cut is not None:
            documents = in_slots(documents, batch.counts, self._cut.count)
        return queries, gather(documents, batch.distinct)

    def _scored(
        self, queries: Tensor, documents: Tensor, batch: Batch, needs: frozenset[str] = frozenset()
    ) -> ScoreBatch:
        column, of = placed(batch.column.numpy(), documents.device), batch.columns
        if batch.counts is None or self._cut is None:
            scored = masked(self.encoder.score(queries, documents, column), of)
        else:
            scored = masked(best_segments(queries, documents)[:, column], of)
        parts: dict[str, Tensor] = {}
        if batch.guide is not None:
            parts = batch.guide.scores(column, needs | ({"guide"} if "teacher" in needs else set()))
            if "teacher" in needs and scored.teacher is None:  # the guide teaches where no run does
                parts["teacher"] = parts["guide"]
        if "query_query" in needs:
            parts["query_query"] = apart(self.encoder.score(queries, queries), of.related_queries())
        if "document_document" in needs and batch.counts is not None:
            raise UsageError("documents in segments have no scores with each other: take another loss, or no segments")
        if "document_document" in needs:
            scores = self.encoder.score(documents, documents, column)[column]
            parts["document_document"] = apart(scores, of.related_documents())
        return replace(scored, **parts)

    def _vectors(self, model: Any, batch: Batch, half: bool) -> tuple[Tensor, Tensor]:
        if self._chunk is None:
            with self._precision(half):
                vectors: tuple[Tensor, Tensor] = model(batch.queries, batch.documents)
            return vectors
        rows = batch.columns.width * (1 if self._cut is None else self._cut.count)
        queries, documents = in_parts(batch.queries, self._chunk), in_parts(batch.documents, self._chunk * rows)
        return encode_twice(queries, documents, Towers(self.encoder.embed, model, partial(self._precision, half)))

    def _precision(self, half: bool) -> torch.autocast:
        return torch.autocast(self.encoder.device.type, torch.bfloat16, enabled=half)


def train(
    encoder: Encoder,
    data: TrainingData | Mixture,
    loss: Loss,
    options: TrainOptions,
    folder: Path,
    *,
    progress: Progress,
    validate: Validate | None = None,
    terms: LossTerms = _LOSS_ALONE,
) -> TrainingResult:
    """Train both sides of `encoder` in place, as `learn` does."""
    check_options(options)
    way = DualEncoderTraining(encoder, data, options, terms)
    return learn(way, loss, options, folder, progress=progress, validate=validate)
