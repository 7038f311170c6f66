"""Exact search: the CPU's ids; the first merge's memory; the plain product's time."""

import numpy as np
import torch
from gpu.material import peak, seconds
from gpu.setting import Figures, Setting, expect
from numpy.typing import NDArray

from hardneg.indexes.exact import ExactOptions, search_exact
from hardneg.records import Hits

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
    return search_exact(vectors, queries, k, ExactOptions(device=device))


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
    """The best 200 of a million for each of 10,000: scores a second, and what the products alone take of that time.

    The products are those of vectors that lie on the device, in float32 and bfloat16. Vectors are searched where they
    lie on the device too, and from main memory.
    """
    documents, queries = setting.size(1_000_000, 5000), setting.size(10_000, 100)
    draws = np.random.default_rng(0)
    vectors, asked = (draws.standard_normal((count, _DIMENSION), np.float32) for count in (documents, queries))
    options = ExactOptions(device=setting.device)
    there = torch.from_numpy(vectors).to(setting.device)
    found: Figures = {}
    for name, searched in (("on the device", there), ("from memory", vectors)):
        search_exact(searched, asked[: setting.size(2048, 50)], 200, options)  # to warm up
        taken = seconds(lambda searched=searched: search_exact(searched, asked, 200, options), setting)
        found[f"{name}, billion scores/s"] = round(documents * queries / taken / 1e9, 3)
        for dtype in (torch.float32, torch.bfloat16):
            plain = _products(there, torch.from_numpy(asked).to(setting.device), dtype, setting)
            found[f"{name}, share of {str(dtype).removeprefix('torch.')} products"] = round(plain / taken, 3)
    return found


def _products(vectors: torch.Tensor, asked: torch.Tensor, dtype: torch.dtype, setting: Setting) -> float:
    """Seconds of the products of all with all, block by block."""
    rows, lines = vectors.to(dtype), asked.to(dtype)

    def work() -> None:
        for start in range(0, len(rows), _BLOCK):
            for begin in range(0, len(lines), _QUERIES):
                torch.mm(lines[begin : begin + _QUERIES], rows[start : start + _BLOCK].T)

    work()
    return seconds(work, setting)
