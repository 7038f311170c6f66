"""The method of stage `train-reranker`: each query's documents are scored beside it, against each other alone."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hardneg.encoders import protocol, towers
from hardneg.evaluation.metrics import ranked_metrics
from hardneg.formats.runs import EMPTY
from hardneg.protocols import Loss
from hardneg.records import errors, types
from hardneg.rerankers.network import PairNetwork, PairScorer
from hardneg.runtime import gather, world
from hardneg.store import digest
from hardneg.training import batches, examples, validation
from hardneg.training.options import RerankerOptions
from hardneg.training.step import ExampleTraining

_PAIRS_A_PASS = 16  # on a CPU, where padding costs more than a second pass


@dataclass(frozen=True, slots=True)
class PairBatch:
    """One batch of B queries with their own documents, W each, the positive first.

    features: of this process's share of the pairs. valid: bool [B, W], as in a `ScoreBatch`. teacher: float32 [B, W],
    its scores, nan where it has none; None without a teacher.
    """

    query_ids: list[str]
    features: batches.Features
    valid: Tensor
    teacher: Tensor | None = None


class PairTower(nn.Module):
    """All pairs of a batch in one forward pass, so that a distributed wrapper sees one a step."""

    def __init__(self, network: PairNetwork) -> None:
        super().__init__()
        self.module = network.module
        self._logits, self._cpu = network.logits, network.device.type == "cpu"

    def forward(self, features: batches.Features) -> Tensor:
        """float32 [n], the logit of each pair."""
        return batches.in_parts(features, _PAIRS_A_PASS).through(self._logits) if self._cpu else self._logits(features)


class RerankerTraining(ExampleTraining):
    """Trains a network that scores pairs; a query's positive and its negatives are drawn anew in each epoch.

    A loss may learn a teacher's scores of these documents, where the data has some.

    Source: Qu et al., RocketQA (NAACL 2021), section 3.3, step 2.
    """

    def __init__(self, network: PairNetwork, data: examples.TrainingData, loss: Loss, options: RerankerOptions) -> None:
        self.encoder = network
        self.trainable: nn.Module = network.module
        self.forward_module: nn.Module = PairTower(network)
        self._corpus, self._loss, self._size = data.corpus, loss, options.adversarial
        self.examples = examples.Examples(data, options.negatives_per_query, options.seed, options)

    def digest(self) -> str:
        return digest([self.examples.digest(), self.encoder.module.max_seq_length])

    def scores(self, model: Any, batch: PairBatch, half: bool) -> types.ScoreBatch:
        """Each query against its own documents, of all processes; by moved embeddings in adversarial training."""
        if not self._size:
            return self._scores(model, batch, half)
        layer = self.encoder.embeddings
        with towers.evaluating(self.trainable):  # the step along which the loss, without dropout, grows fastest
            loss = self._loss(self._scores(self.forward_module, batch, half))
        with moved(layer, ascent(loss, next(layer.parameters()), self._size)):
            return self._scores(model, batch, half)

    def make(self, drawn: examples.SampledBatch) -> PairBatch:
        """The pairs of this process's share of what was drawn."""
        own, width = batches.own_share(len(drawn.texts)), drawn.documents.shape[1]
        documents = self._corpus.contents(drawn.documents[own].reshape(-1))
        queries = [text for text in drawn.texts[own] for _ in range(width)]
        teacher = None if drawn.teacher is None else torch.from_numpy(drawn.teacher)
        # a drawn document that is another known positive of its query, or a copy of one, is no negative
        blocked = batches.BatchColumns.of(drawn, self._corpus.content_hash).blocked()
        valid = ~torch.from_numpy(blocked.reshape(len(drawn.texts), -1, width)).diagonal().T
        valid[:, 0] = True
        return PairBatch(drawn.query_ids, self.encoder.features(queries, documents), valid, teacher)

    def _scores(self, model: Any, batch: PairBatch, half: bool) -> types.ScoreBatch:
        device = self.encoder.device
        with torch.autocast(device.type, torch.bfloat16, enabled=half):
            logits = model(batch.features)
        scores = gather(logits.view(-1, batch.valid.shape[1]), len(batch.query_ids))
        positive = torch.zeros_like(scores, dtype=torch.bool)
        positive[:, 0] = True
        teacher = None if batch.teacher is None else batch.teacher.to(scores)
        return types.ScoreBatch(scores, positive, ~positive, batch.valid.to(device), teacher=teacher)


def rerank_validation(
    network: PairNetwork, data: validation.ValidationData, depth: int, options: protocol.EncodeOptions
) -> Callable[[], dict[str, float]]:
    """A function that measures `mrr@10`, `ndcg@10` and `recall@100` of the network as it is when called.

    The first `depth` documents of each dev query's list are ranked anew; relevant ones that the list lacks are missed.

    Raises:
        TrainingError: no dev query has a relevant document.
    """
    judged = [
        (query_id, text, {doc_id: gain for doc_id, gain in data.qrels.get(query_id, {}).items() if gain > 0})
        for query_id, text in zip(data.query_ids, data.texts, strict=True)
    ]
    judged = [each for each in judged if each[2]]
    if not judged:
        raise errors.TrainingError("no dev query has a relevant document: check its qrels")
    query_ids, texts, known = zip(*judged, strict=True)
    listed = [data.run.get(query_id, EMPTY).doc_ids[:depth] for query_id in query_ids]
    gains = np.array([gain for each in known for gain in each.values()], np.int64)
    query = np.repeat(np.arange(len(known)), [len(each) for each in known])

    def validate() -> dict[str, float]:
        contents = (data.corpus.contents(data.corpus.rows(doc_ids)) for doc_ids in listed)
        scorer = PairScorer.of(network.module, str(network.device), options)
        ranked = np.zeros((len(known), depth), np.int64)
        for row, scores in enumerate(scorer.rerank(zip(texts, contents, strict=True))):
            order = np.argsort(-np.asarray(scores), stable=True)
            ranked[row, : len(order)] = [known[row].get(listed[row][rank], 0) for rank in order]
        return ranked_metrics(ranked, gains, query)

    return validate


def ascent(loss: Tensor, weight: Tensor, size: float) -> Tensor:
    """A step of 2-norm `size` along the loss's gradient with respect to `weight`, of the same shape; 0 where it is 0.

    Of several processes that computed one loss from what all gathered, each gets the same step.
    """
    (gradient,) = torch.autograd.grad(loss, weight)
    if world().size > 1:
        torch.distributed.all_reduce(gradient)
    norm = gradient.norm()
    return gradient * (size / norm if norm > 0 else 0.0)


@contextmanager
def moved(embeddings: nn.Module, step: Tensor) -> Iterator[None]:
    """Has an embedding layer look up its weights plus `step`; the weights themselves stay, and get their gradients."""

    def add(layer: nn.Module, inputs: tuple[Any, ...], vectors: Tensor) -> Tensor:
        return vectors + nn.functional.embedding(inputs[0], step).to(vectors.dtype)

    handle = embeddings.register_forward_hook(add)
    try:
        yield
    finally:
        handle.remove()
