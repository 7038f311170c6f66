"""Training of a reranker (stage `train-reranker`) on each query's own documents."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from hardneg.encoders.towers import evaluating
from hardneg.records import ScoreBatch
from hardneg.rerankers.network import PairNetwork
from hardneg.runtime import gather, world
from hardneg.store import digest
from hardneg.training import batches, examples, options, step

_PAIRS_PER_PASS = 16  # on a CPU, where padding costs more than a second pass


@dataclass(frozen=True, slots=True)
class PairBatch:
    """A batch of B queries with W documents each, the positive first.

    features: features of this process's share of the pairs. valid: bool [B, W], as in a `ScoreBatch`. teacher: float32
    [B, W], teacher scores, nan if missing; None without a teacher.
    """

    query_ids: list[str]
    features: batches.Features
    valid: Tensor
    teacher: Tensor | None = None


class PairTower(nn.Module):
    """A network that scores all pairs of a batch in one forward call, as distributed wrappers require."""

    def __init__(self, network: PairNetwork) -> None:
        super().__init__()
        self.module = network.module
        self._logits, self._cpu = network.logits, network.device.type == "cpu"

    def forward(self, features: batches.Features) -> Tensor:
        """Return the logit of each pair, float32 [n]."""
        return (
            batches.in_parts(features, _PAIRS_PER_PASS).through(self._logits) if self._cpu else self._logits(features)
        )


class RerankerTraining(step.ExampleTraining):
    """Training of a network that scores query-document pairs; positives and negatives are redrawn in every epoch.

    A distillation loss uses teacher scores of these documents, if the data has any.

    Source: Qu et al., RocketQA (NAACL 2021), section 3.3, step 2.
    """

    def __init__(
        self, network: PairNetwork, data: examples.TrainingData, loss: step.Objective, options: options.RerankerOptions
    ) -> None:
        self.encoder = network
        self.trainable: nn.Module = network.module
        self.forward_module: nn.Module = PairTower(network)
        self._corpus, self._loss, self._size = data.corpus, loss, options.adversarial
        self.examples = data.examples(options)

    def digest(self) -> str:
        return digest([self.examples.digest(), self.encoder.module.max_seq_length])

    def scores(self, model: Any, batch: PairBatch, half: bool) -> ScoreBatch:
        """Return scores [B, W] of each query's own documents, from all processes; `adversarial` perturbs embeddings."""
        if not self._size:
            return self._scores(model, batch, half)
        layer = self.encoder.embeddings
        with evaluating(self.trainable):  # the gradient is taken without dropout
            loss = self._loss(self._scores(self.forward_module, batch, half))
        with perturbed(layer, ascent(loss, next(layer.parameters()), self._size)):
            return self._scores(model, batch, half)

    def make(self, drawn: examples.SampledBatch) -> PairBatch:
        """Create the pairs of this process's share of a sampled batch."""
        own, width = batches.own_share(len(drawn.texts)), drawn.documents.shape[1]
        documents = self._corpus.contents(drawn.documents[own].reshape(-1))
        queries = [text for text in drawn.texts[own] for _ in range(width)]
        teacher = None if drawn.teacher is None else torch.from_numpy(drawn.teacher)
        # another known positive of the query, or a copy of one, is not a negative
        blocked = batches.BatchColumns.of(drawn, self._corpus.content_hash).blocked()
        valid = ~torch.from_numpy(blocked.reshape(len(drawn.texts), -1, width)).diagonal().T
        valid[:, 0] = True
        return PairBatch(drawn.query_ids, self.encoder.features(queries, documents), valid, teacher)

    def _scores(self, model: Any, batch: PairBatch, half: bool) -> ScoreBatch:
        device = self.encoder.device
        with torch.autocast(device.type, torch.bfloat16, enabled=half):
            logits = model(batch.features)
        scores = gather(logits.view(-1, batch.valid.shape[1]), len(batch.query_ids))
        positive = torch.zeros_like(scores, dtype=torch.bool)
        positive[:, 0] = True
        teacher = None if batch.teacher is None else batch.teacher.to(scores)
        return ScoreBatch(scores, positive, ~positive, batch.valid.to(device), teacher=teacher)


def ascent(loss: Tensor, weight: Tensor, size: float) -> Tensor:
    """Return a step of 2-norm `size` along the gradient of the loss with respect to `weight`; 0 if the gradient is 0.

    In a distributed run, gradients are summed over all processes, so all get the same step.
    """
    (gradient,) = torch.autograd.grad(loss, weight)
    if world().size > 1:
        torch.distributed.all_reduce(gradient)
    norm = gradient.norm()
    return gradient * (size / norm if norm > 0 else 0.0)


@contextmanager
def perturbed(embeddings: nn.Module, step: Tensor) -> Iterator[None]:
    """Add `step` to the weights of an embedding layer during lookups; the weights keep their values and gradients."""

    def add(layer: nn.Module, inputs: tuple[Any, ...], vectors: Tensor) -> Tensor:
        return vectors + nn.functional.embedding(inputs[0], step).to(vectors.dtype)

    handle = embeddings.register_forward_hook(add)
    try:
        yield
    finally:
        handle.remove()
