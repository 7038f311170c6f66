"""Training of queries and documents together: every query is scored against the documents of the whole batch."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.spec import Side
from hardneg.encoders.towers import placed
from hardneg.records.errors import UsageError
from hardneg.records.types import ScoreBatch
from hardneg.registry.protocols import Loss
from hardneg.runtime.distributed import World, gather, world
from hardneg.runtime.progress import Progress
from hardneg.training.batches import (
    Batch,
    Features,
    Parts,
    apart,
    best_segments,
    cut_slots,
    in_parts,
    in_passes,
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
from hardneg.training.step import ExampleTraining, Minimised, Objective, dropout_of


class TwoTowers(nn.Module):
    """Queries and documents in one forward call, so that a distributed wrapper sees one a step."""

    def __init__(self, encoder: Encoder, by_length: bool = False) -> None:
        """by_length: in several passes, where that saves time."""
        super().__init__()
        self.module = encoder.module
        self._embed = encoder.embed
        self._by_length = by_length and encoder.device.type == "cpu"

    def forward(self, queries: Features, documents: Features) -> tuple[Tensor, Tensor]:
        """float32 [B, d] and [D, d]."""
        return self._one_side(queries, "query"), self._one_side(documents, "document")

    def _one_side(self, features: Features, side: Side) -> Tensor:
        parts = in_passes(features, PASS_TOKENS) if self._by_length else Parts([features], None)
        return parts.through(partial(self._embed, side=side))


PASS_TOKENS = 2048
"""Padded tokens of a pass on a CPU: what stays in its caches. It does not follow the machine, as dropout's draws do."""

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
        self.forward_module = TwoTowers(encoder, options.passes == "by_length")
        self._corpus, self._cut, self._guide = data.corpus, data.segments, data.guide
        self._unmasked = not options.false_negative_mask
        self._here, self._chunk, self._options = world(), options.chunk, options
        if self._chunk is not None and max(world().shares(options.batch_size)) <= self._chunk:
            self._chunk = None  # the largest of the shares is small enough to be encoded at once
        if options.each_has_its_loss:
            if options.batch_size % world().size:
                unequal = f"{world().size} processes have no equal shares of batch_size {options.batch_size}"
                advice = f"give a multiple of {world().size}"
                raise UsageError(f"training options: share_negatives_across none: {unequal}: {advice}")
            self._here = World()
        self.examples, self._losses = data.examples(options), data.losses

    def make(self, drawn: SampledBatch) -> Batch:
        """The batch of what was drawn, or of this process's own queries where it shares with no other."""
        if self._here.size < world().size:
            drawn = drawn.part(world().share(len(drawn.query_ids)))
        drawn = drawn.unmasked() if self._unmasked else drawn
        return make_batch(self.encoder, self._corpus, drawn, self._cut, self._here, self._guide)

    def digest(self) -> str:
        return self._terms.named_with(self.examples.digest())

    def scores(self, model: Any, batch: Batch, half: bool) -> ScoreBatch:
        """Each query against each document of the batch, those of all processes that share."""
        return self._scored(*self._gathered(model, batch, half), batch)

    def minimised(self, loss: Objective, model: Any, batch: Batch, half: bool, done: float) -> Minimised:
        """The loss of the masked scores, at each of `dims` and `precisions`, and the regularizer's penalty."""
        queries, documents = self._gathered(model, batch, half)
        loss = loss if batch.source is None else self._losses.get(batch.source, loss)
        needs = self._terms.needs(loss)

        def loss_of(cut: Change, stored: Change) -> Tensor:
            def changed(vectors: Tensor) -> Tensor:
                return stored(cut(vectors))

            kept = changed(documents) if batch.counts is None else cut_slots(documents, changed)
            return loss(self._terms.masked(self._scored(cut(queries), kept, batch, needs)))

        penalty = self._terms.penalty(queries, documents, batch.column, done)
        return Minimised(self._terms.loss(self.encoder, loss_of), penalty)

    def _gathered(self, model: Any, batch: Batch, half: bool) -> tuple[Tensor, Tensor]:
        """Queries float32 [B, ...] and documents [D, ...], or slots of segments, of all processes that share."""
        queries, documents = self._vectors(model, batch, half)
        queries = gather(queries, batch.columns.queries, self._here)
        if batch.counts is not None and self._cut is not None:
            documents = in_slots(documents, batch.counts, self._cut.count)
        return queries, gather(documents, batch.distinct, self._here)

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
        return encode_twice(queries, documents, Towers(self.encoder.embed, model, partial(self._drawing, half)))

    def _precision(self, half: bool) -> torch.autocast:
        return torch.autocast(self.encoder.device.type, torch.bfloat16, enabled=half)

    @contextmanager
    def _drawing(self, half: bool) -> Iterator[None]:
        with self._precision(half), dropout_of(self._options, self.encoder.device):
            yield


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
