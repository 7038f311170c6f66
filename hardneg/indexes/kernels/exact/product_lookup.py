"""Product-quantised vectors searched on a device of torch's, where their codes stay while their centroids move.

faiss has no such index on GPUs: there, other centroids take all codes to be copied again.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardneg.indexes.kernels.exact.exact_torch import to_device
from hardneg.indexes.kernels.exact.top_k import Best, best_hits, merged
from hardneg.runtime.float32_products import float32_products

_SCORES = 1 << 26  # at a time, each of a query and a vector


@dataclass
class CodeLookup:
    """A search in place of a product-quantised index: the sums of products of a query's parts with the centroids.

    codes: uint8 [M, N]. centroids: float32 [M, C, d / M]. rotation: float32 [d, d], R of R x, or None.
    """

    codes: Tensor
    centroids: Tensor
    rotation: Tensor | None

    @classmethod
    def of(
        cls,
        blocks: Iterable[tuple[int, NDArray[np.uint8]]],
        count: int,
        centroids: NDArray[np.float32],
        rotation: NDArray[np.float32] | None,
        device: torch.device,
    ) -> "CodeLookup":
        """On a device, `count` vectors; blocks: the number of a first row, and codes uint8 [n, M] from there on."""
        codes = torch.empty((len(centroids), count), dtype=torch.uint8, device=device)
        for start, block in blocks:
            codes[:, start : start + len(block)] = torch.from_numpy(block).to(device).T
        turned = None if rotation is None else to_device(rotation, device)
        return cls(codes, to_device(centroids, device), turned)

    def install(self, centroids: NDArray[np.float32]) -> None:
        """Searches with other centroids from now on, float32 [M, C, d / M]; nothing else goes to the device."""
        self.centroids = to_device(centroids, self.codes.device)

    def search(self, queries: NDArray[np.float32], depth: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The best `depth` vectors of each query: scores float32 and rows int64 [Q, depth], -1 where there is none."""
        best: Best | None = None
        with torch.inference_mode(), float32_products(self.codes.device):
            wanted = to_device(queries, self.codes.device)
            turned = wanted if self.rotation is None else wanted @ self.rotation.T
            products = torch.einsum("qmd,mcd->mqc", turned.view(len(wanted), len(self.codes), -1), self.centroids)
            step = max(1, _SCORES // max(1, len(wanted)))
            for start in range(0, self.codes.shape[1], step):
                codes = self.codes[:, start : start + step]
                sums = torch.zeros((len(wanted), codes.shape[1]), device=codes.device)
                for table, code in zip(products, codes, strict=True):
                    sums += table.index_select(1, code.int())
                best = merged(best, sums, start, depth)
            hits = best_hits([best], len(queries), depth)
        return hits.scores, hits.rows
