"""A stand-in for the parts of cuVS that the package uses, which compares all vectors on a CPU."""

from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch


class Array:
    """A stand-in for the GPU arrays that cuVS returns."""

    def __init__(self, values: np.ndarray) -> None:
        self._values = values

    def copy_to_host(self) -> np.ndarray:
        return self._values


class Cuvs(ModuleType):
    """A stand-in for `cuvs.neighbors.cagra`; `asked` has the options of each call."""

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
        """Return a graph in which half of the links lead to the nearest rows, the others to any rows."""
        scores, degree = vectors @ vectors.T, params["graph_degree"]
        near = scores.fill_diagonal_(-torch.inf).topk(degree).indices.numpy()
        near[:, degree // 2 :] = np.random.default_rng(0).integers(0, len(near), (len(near), degree - degree // 2))
        return SimpleNamespace(graph=Array(near.astype(np.uint32)))

    def from_graph(self, graph: torch.Tensor, vectors: torch.Tensor, metric: str) -> torch.Tensor:
        assert (graph.dtype, len(graph), metric) == (torch.uint32, len(vectors), "inner_product")
        return vectors

    def search(self, params: dict[str, Any], index: torch.Tensor, queries: torch.Tensor, k: int) -> tuple[Array, Array]:
        """Return meaningless distances, and rows; a missing row has the largest number."""
        assert k <= params["itopk_size"] <= 512
        rows = np.full((len(queries), k), 2**32 - 1, np.uint32)
        best = (queries @ index.T).topk(min(k, len(index))).indices.numpy()
        rows[:, : best.shape[1]] = best
        return Array(np.zeros((len(queries), k), np.float32)), Array(rows)
