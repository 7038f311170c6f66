"""Training of queries and documents together: every query is scored against the documents of the whole batch."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from hardneg.distributed import gather
from hardneg.models.encoder import Encoder
from hardneg.training.batches import Batch, ahead, make_batch
from hardneg.training.examples import Draw, Examples, TrainingData
from hardneg.training.history import Record
from hardneg.training.options import TrainOptions
from hardneg.training.scoring import masked, score_batch
from hardneg.training.segment_scores import best_segments, gather_slots, in_slots
from hardneg.types import ScoreBatch


class TwoTowers(nn.Module):
    """Queries and documents in one forward pass, so that a distributed wrapper sees one a step."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.module = encoder.module
        self._embed = encoder.embed

    def forward(self, queries: dict[str, Tensor], documents: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """float32 [B, d] and [D, d]."""
        return self._embed(queries, "query"), self._embed(documents, "document")


class BothSides:
    """The approach of stage `train`: documents are drawn for each query, and both sides learn."""

    pause: int | None = None

    def __init__(self, encoder: Encoder, data: TrainingData, options: TrainOptions) -> None:
        self.encoder = encoder
        self.learner: nn.Module = encoder.module
        self.tower = TwoTowers(encoder)
        self._corpus, self._cut = data.corpus, data.segments
        self._examples = Examples(data, options.negatives_per_query, options.seed, options.positive, options.order)

    @property
    def skipped(self) -> Mapping[str, int]:
        """How many queries and positives were left out, by reason."""
        return self._examples.skipped

    def __len__(self) -> int:
        return len(self._examples)

    def digest(self) -> str:
        """That of the examples."""
        return self._examples.digest()

    def prepare(self, step: int) -> None:
        """Nothing: draws depend on the seed alone."""

    def batches(self, starts: range, size: int) -> Iterator[Batch]:
        """The drawn examples, tokenised one batch ahead."""
        return ahead(lambda start: self.make(self._examples.draw(start, size)), starts)

    def make(self, draw: Draw) -> Batch:
        """The batch of what was drawn."""
        return make_batch(self.encoder, self._corpus, draw, self._cut)

    def scores(self, model: Any, batch: Batch, half: bool) -> ScoreBatch:
        """Each query against each document of the batch, those of all processes."""
        with torch.autocast(self.encoder.device.type, torch.bfloat16, enabled=half):
            queries, documents = model(batch.queries, batch.documents)
        queries, column = gather(queries, batch.columns.queries), batch.column.to(documents.device)
        if batch.counts is None or self._cut is None:
            return score_batch(queries, gather(documents, batch.distinct)[column], batch.columns)
        slots = gather_slots(in_slots(documents, batch.counts, self._cut.count), batch.distinct)
        return masked(best_segments(queries, slots)[:, column], batch.columns)

    def look(self, step: int) -> Record:
        """Nothing besides the loss."""
        return {}
