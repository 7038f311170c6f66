"""The query encoder and the centroids of a product-quantised index trained together; the documents' codes stay."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from hardneg.encoders.encoder import Encoder
from hardneg.indexes.backends.product import PqSearcher
from hardneg.records.types import ScoreBatch
from hardneg.training.history import Record
from hardneg.training.methods.adore import AdoreTraining, Listed, QueryBatch, QueryTower


class JpqTower(QueryTower):
    """The queries' side of an encoder, and an index's centroids, float32 [M, C, d / M], and rotation, float32 [d, d].

    The centroids learn at a rate of their own, the rotation stays.
    """

    rotation: Tensor | None

    def __init__(self, encoder: Encoder, product: PqSearcher, factor: float) -> None:
        super().__init__(encoder)
        self.centroids = nn.Parameter(torch.tensor(product.centroids(), device=encoder.device))
        self.centroids.factor = factor  # type: ignore[attr-defined]
        rotation = product.rotation()
        self.register_buffer("rotation", None if rotation is None else torch.tensor(rotation, device=encoder.device))

    def forward(self, queries: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """float32 [B, d], and the centroids."""
        return super().forward(queries)[0], self.centroids.view_as(self.centroids)


@dataclass(eq=False)
class JpqTraining(AdoreTraining):
    """Query-side training that moves the centroids of the opened index too; its file stays as it is.

    Source: Zhan et al., Jointly Optimizing Query Encoder and Product Quantization to Improve Retrieval Performance
    (CIKM 2021).

    Attributes:
        factor: the learning rate of the centroids, in multiples of the encoder's.
    """

    factor: float = 1.0

    @cached_property
    def product(self) -> PqSearcher:
        """The index, whose centroids in memory follow the training."""
        assert isinstance(self.index.searcher, PqSearcher)
        return self.index.searcher

    @cached_property
    def forward_module(self) -> JpqTower:
        """The encoder of a batch of queries, with the current centroids."""
        return JpqTower(self.encoder, self.product, self.factor)

    @property
    def centroids(self) -> Tensor:
        """float32 [M, C, d / M], those that learn."""
        return self.forward_module.centroids

    def install(self) -> None:
        """Copy the current centroids into the opened index."""
        self.product.install(self.centroids.detach().cpu().numpy())

    def prepare(self, step: int) -> None:
        """Refresh the source with the current centroids."""
        self.install()
        super().prepare(step)

    def scores(self, model: nn.Module, batch: QueryBatch, half: bool) -> ScoreBatch:
        """As in query-side training, with gradients to the centroids too."""
        self.install()
        return super().scores(model, batch, half)

    def log_metrics(self, step: int) -> Record:
        """Return the watch's metrics with the current centroids."""
        if self.watch is not None:
            self.install()
        return super().log_metrics(step)

    def _products(self, queries: Tensor, listed: Listed, weights: Tensor | None) -> Tensor:
        """All processes have the whole batch, so the mean of their gradients is that of one process."""
        assert weights is not None
        codes = self.product.codes(np.maximum(listed.rows, 0).reshape(-1))
        chosen = torch.from_numpy(codes.astype(np.int64)).to(queries.device).view(*listed.rows.shape, -1)
        with torch.autocast(queries.device.type, enabled=False):
            rotation, whole = self.forward_module.rotation, queries.float()
            return code_products(whole if rotation is None else whole @ rotation.T, weights, chosen)


def code_products(queries: Tensor, centroids: Tensor, codes: Tensor) -> Tensor:
    """Inner products of queries and coded vectors, float [B, L], with gradients to queries and centroids.

    Args:
        queries: float [B, d], rotated as the vectors were.
        centroids: float [M, C, d / M].
        codes: int64 [B, L, M].
    """
    parts = queries.view(len(queries), len(centroids), -1)
    products = torch.einsum("bmd,mcd->bmc", parts, centroids)
    return products.gather(2, codes.transpose(1, 2)).sum(1)
