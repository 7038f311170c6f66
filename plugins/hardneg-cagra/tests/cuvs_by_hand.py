"""What the package asks of cuVS, on a CPU and by comparing everything with everything."""

from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch


class Array:
    """As cuVS gives arrays of a GPU."""

    def __init__(self, values: np.ndarray) -> None:
        self._values = values

    def copy_to_host(self) -> np.ndarray:
        return self._values


class Cuvs(ModuleType):
    """`cuvs.neighbors.cagra`; `asked` keeps the options of each call."""

    def __init__(self) -> None:
        super().__init__("cuvs.neighbors.cagra")
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def IndexParams(self, **options: Any) -> dict[str, Any]:
        self.asked.append(("build", options))
        return options

    def SearchParams(self, **options: Any) -> dict[str, Any]:
        self.asked.append(("search", options))
        return options

    def build(self, params: dict[str, Any], vectors: torch.Tensor) -> SimpleNamespace:
        """Half of the links go to the nearest rows, the others to any."""
        scores, degree = vectors @ vectors.T, params["graph_degree"]
        near = scores.fill_diagonal_(-torch.inf).topk(degree).indices.numpy()
        near[:, degree // 2 :] = np.random.default_rng(0).integers(0, len(near), (len(near), degree - degree // 2))
        return SimpleNamespace(graph=Array(near.astype(np.uint32)))

    def from_graph(self, graph: torch.Tensor, vectors: torch.Tensor, metric: str) -> torch.Tensor:
        assert (graph.dtype, len(graph), metric) == (torch.uint32, len(vectors), "inner_product")
        return vectors

    def search(self, params: dict[str, Any], index: torch.Tensor, queries: torch.Tensor, k: int) -> tuple[Array, Array]:
        """Distances that are of no use to anyone, and rows; what is missing has the largest number."""
        assert k <= params["itopk_size"] <= 512
        rows = np.full((len(queries), k), 2**32 - 1, np.uint32)
        best = (queries @ index.T).topk(min(k, len(index))).indices.numpy()
        rows[:, : best.shape[1]] = best
        return Array(np.zeros((len(queries), k), np.float32)), Array(rows)
