"""The FLOPS regularizer, which makes learned sparse representations cheap to search."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from hardneg.plugin import errors, records

_SCHEDULES: Mapping[str, Callable[[float], float]] = {
    "quadratic": lambda part: part**2,
    "linear": lambda part: part,
    "constant": lambda part: 1.0,
}


@dataclass(frozen=True)
class Flops:
    """A penalty on term weights: the sum over terms of the squared mean weight, for queries and for documents.

    The sum is a smooth estimate of the number of products in a search, so terms that many texts share cost the most. A
    document counts as often as it occurs in the batch.

    Source: Paria et al., Minimizing FLOPs to Learn Efficient Sparse Representations (ICLR 2020), in the form of Formal
    et al., SPLADE: Sparse Lexical and Expansion Model for First Stage Ranking (SIGIR 2021), Eq. 4 and 5. Thresholds:
    Shen et al., Exploring l0 Sparsification for Inference-free Sparse Retrievers (arXiv 2504.14839).

    Attributes:
        query_weight: lambda_q, weight of the penalty on queries; use 0 if queries are not encoded by a network.
        document_weight: lambda_d, weight of the penalty on documents.
        schedule: how the weights rise from 0 at the start of training: `quadratic`, `linear`, or `constant`, which
            uses the full weights from the start.
        ramp: fraction of training during which the weights rise; SPLADE's own code uses a third.
        query_threshold: queries with at most this many terms add nothing to the means; none counts all queries.
        document_threshold: documents with at most this many terms add nothing to the means; none counts all documents.
    """

    version: ClassVar[int] = 1
    form: ClassVar[str] = "weights"

    query_weight: float = 5e-5
    document_weight: float = 3e-5
    schedule: Literal["quadratic", "linear", "constant"] = "quadratic"
    ramp: float = 1 / 3
    query_threshold: int | None = None
    document_threshold: int | None = None

    def __post_init__(self) -> None:
        lowest = {name: getattr(self, name) for name in ("query_weight", "document_weight")}
        lowest |= {name: getattr(self, name) or 0 for name in ("query_threshold", "document_threshold")}
        wrong = [f"{name} must be at least 0, not {value}" for name, value in lowest.items() if not value >= 0]
        if not 0 < self.ramp <= 1:
            wrong.append(f"ramp must be above 0 and at most 1, not {self.ramp}")
        if wrong:
            raise errors.PluginError("flops: " + "; ".join(wrong))

    def __call__(self, batch: records.EncodedBatch) -> Tensor:
        """Return the sum of the weighted penalties on queries and documents, times `share(batch.done)`; a scalar."""
        once = torch.ones(len(batch.queries), device=batch.queries.device)
        queries = flops(batch.queries, once, self.query_threshold)
        documents = flops(batch.documents, batch.counts, self.document_threshold)
        return self.share(batch.done) * (self.query_weight * queries + self.document_weight * documents)

    def share(self, done: float) -> float:
        """Return the fraction of the penalty weights to apply after the fraction `done` of training."""
        return _SCHEDULES[self.schedule](min(1.0, done / self.ramp))


def flops(weights: Tensor, counts: Tensor, threshold: int | None = None) -> Tensor:
    """Return the sum over terms of the squared mean weight.

    weights: float [n, V], non-negative, of n texts. counts: [n], the weight of each text in the mean. threshold: texts
    with at most this many terms add nothing to the means; None counts all texts.

    Source: Formal et al., SPLADE (SIGIR 2021), Eq. 4; Shen et al. (arXiv 2504.14839) for the threshold.
    """
    shares = counts.to(weights.dtype) / counts.sum()
    if threshold is not None:
        shares = shares * ((weights != 0).sum(1) > threshold)
    return (shares @ weights).square().sum()
