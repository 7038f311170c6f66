"""Inner products of chosen pairs of vectors, in float32; the same two vectors give the same bits in every block."""

import warnings
from functools import cache

import torch
from torch import Tensor

_PAIRS = 65_536  # multiplied at a time where there is no kernel for chosen pairs: neither more nor fewer


def pair_products(queries: Tensor, documents: Tensor, counts: Tensor, query: Tensor, row: Tensor) -> Tensor:
    """The inner product of each pair: float32 [p].

    Args:
        queries: float32 [q, d].
        documents: float32 [n, d].
        counts: int64 [q], how many pairs each query has.
        query, row: int64 [p], the numbers of each pair's vectors, by ascending query.
    """
    if queries.device.type != "cpu":
        return gathered_products(queries, documents, query, row)
    _quiet()
    first = torch.zeros(len(queries) + 1, dtype=torch.int64)
    torch.cumsum(counts, 0, out=first[1:])
    chosen = _pairs(first, row, (len(queries), len(documents)))
    products: Tensor = torch.sparse.sampled_addmm(chosen, queries, documents.T, beta=0.0).values()
    return products


def gathered_products(queries: Tensor, documents: Tensor, query: Tensor, row: Tensor) -> Tensor:
    """The same on any device, from copies of the pairs' vectors.

    A GPU chooses by the number of pairs in which order it adds up, so the last of them are filled up to as many.
    """
    if not len(query):
        return queries.new_empty(0)
    missing = (0, -len(query) % _PAIRS)
    parts = (torch.nn.functional.pad(numbers, missing).view(-1, _PAIRS) for numbers in (query, row))
    products = [(queries[some] * documents[others]).sum(1) for some, others in zip(*parts, strict=True)]
    return torch.cat(products)[: len(query)]


def _pairs(first: Tensor, row: Tensor, size: tuple[int, int]) -> Tensor:
    return torch.sparse_csr_tensor(first, row, torch.zeros(len(row)), size, check_invariants=False)


@cache
def _quiet() -> None:
    """Silence torch's one warning per process that sparse matrices are in beta."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _pairs(torch.tensor([0, 1]), torch.tensor([0]), (1, 1))
