"""Exact search: the CPU's ids, the memory of the first merge, and what it takes beside the plain product."""

import numpy as np
import torch
from gpu.material import peak, seconds
from gpu.setting import Figures, Setting, expect
from numpy.typing import NDArray

from hardneg.indexes.exact import ExactOptions, search_exact
from hardneg.types import Hits

_BLOCK, _QUERIES, _DIMENSION = 65_536, 2048, 768


def ids(setting: Setting) -> Figures:
    """Whole numbers, whose products are exact: all ids, ties too, are those of the CPU. Others nearly so."""
    documents, queries, k = setting.size(300_000, 3000), setting.size(500, 40), setting.size(200, 20)
    draws = np.random.default_rng(0)
    found: Figures = {"vectors": documents, "queries": queries}
    for name in ("whole", "real"):
        vectors, asked = (_vectors(draws, count, name == "whole") for count in (documents, queries))
        one, other = (_search(vectors, asked, k, device) for device in ("cpu", setting.device))
        same = float((one.rows == other.rows).mean())
        apart = float(np.abs(one.scores - other.scores).max())
        expect(name != "whole" or same == 1.0, f"{1 - same:.2%} of the ids are others than on the CPU")
        expect(same > 0.999 and apart < 1e-3, f"{1 - same:.2%} of the ids are others, scores {apart:.1e} apart")
        found |= {f"{name}, same ids": round(same, 6), f"{name}, largest difference": round(apart, 8)}
    return found


def _vectors(draws: np.random.Generator, count: int, whole: bool) -> NDArray[np.float32]:
    if whole:
        return draws.integers(-2, 3, (count, 64)).astype(np.float32)
    return draws.standard_normal((count, 64), np.float32) / 8


def _search(vectors: NDArray[np.float32], queries: NDArray[np.float32], k: int, device: str) -> Hits:
    return search_exact(vectors, queries, k, ExactOptions(device=device, engine="torch"))


def first_merge(setting: Setting) -> Figures:
    """Its memory is that of the scores of a block, its vectors and a third of as much again for masks."""
    documents, queries = setting.size(_BLOCK, 2000), setting.size(_QUERIES, 100)
    draws = np.random.default_rng(0)
    vectors, asked = (draws.standard_normal((count, _DIMENSION), np.float32) for count in (documents, queries))
    scores, inputs = 4 * documents * queries, vectors.nbytes + asked.nbytes
    taken = peak(lambda: _search(vectors, asked, 200, setting.device), setting)
    limit = 3 * scores + 2 * inputs
    expect(
        taken <= limit, f"{taken / 1e9:.2f} GB for {scores / 1e9:.2f} GB of scores and {inputs / 1e9:.2f} of vectors"
    )
    return {"GB taken": round(taken / 1e9, 3), "GB of scores": round(scores / 1e9, 3)}


def speed(setting: Setting) -> Figures:
    """Products a second, and the share of the time that the plain products alone would take."""
    documents, queries = setting.size(1_000_000, 5000), setting.size(4096, 100)
    draws = np.random.default_rng(0)
    vectors, asked = (draws.standard_normal((count, _DIMENSION), np.float32) for count in (documents, queries))
    _search(vectors[:1000], asked, 200, setting.device)
    taken = seconds(lambda: _search(vectors, asked, 200, setting.device), setting)
    device = torch.device(setting.device)
    block, part = (torch.from_numpy(rows).to(device) for rows in (vectors[:_BLOCK], asked[:_QUERIES]))
    torch.mm(part, block.T)
    products = documents * queries
    plain = seconds(lambda: torch.mm(part, block.T), setting) * products / (len(block) * len(part))
    billions = products / taken / 1e9
    return {"billion scores/s": round(billions, 3), "plain product's share": round(plain / taken, 3)}
