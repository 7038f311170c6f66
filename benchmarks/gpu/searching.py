"""Exact search: the CPU's ids, also of shards that it shares; the first merge's memory; the plain product's time."""

from pathlib import Path

import numpy as np
import torch
from gpu.material import peak, seconds
from gpu.setting import Figures, Setting, expect
from numpy.typing import NDArray

from hardneg.formats.vectors.flat_vectors import FlatVectors, FlatWriter
from hardneg.formats.vectors.shard_folder import Closed, close_folder, close_shard
from hardneg.formats.vectors.shards import shard_name
from hardneg.indexes.backends.flat import FlatSearcher
from hardneg.indexes.kernels.exact.exact import ExactOptions, search_exact
from hardneg.indexes.kernels.exact.exact_torch import DeviceVectors
from hardneg.indexes.shard_search import KeptLists, ShardedSearcher
from hardneg.records.types import Hits

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
    """The best 200 of a million for each of 10,000: scores a second, and what the products alone take of that time.

    The products are those of vectors that lie on the device, in float32 and bfloat16. Vectors are searched where they
    lie on the device too, and from main memory.
    """
    documents, queries = setting.size(1_000_000, 5000), setting.size(10_000, 100)
    draws = np.random.default_rng(0)
    vectors, asked = (draws.standard_normal((count, _DIMENSION), np.float32) for count in (documents, queries))
    options = ExactOptions(device=setting.device, engine="torch")
    there = DeviceVectors(torch.from_numpy(vectors).to(setting.device))
    found: Figures = {}
    for name, searched in (("on the device", there), ("from memory", vectors)):
        search_exact(searched, asked[: setting.size(2048, 50)], 200, options)  # to warm up
        taken = seconds(lambda searched=searched: search_exact(searched, asked, 200, options), setting)
        found[f"{name}, billion scores/s"] = round(documents * queries / taken / 1e9, 3)
        for dtype in (torch.float32, torch.bfloat16):
            plain = _products(there.rows, torch.from_numpy(asked).to(setting.device), dtype, setting)
            found[f"{name}, share of {str(dtype).removeprefix('torch.')} products"] = round(plain / taken, 3)
    return found


def shared(setting: Setting) -> Figures:
    """An index in shards, the first searched on a CPU and the others on the device, by one URL: one machine's lists."""
    count, dimension, shards, k = setting.size(300_000, 3000), 64, 3, setting.size(200, 20)
    draws = np.random.default_rng(0)
    folder, queries = _in_shards(setting, _vectors(draws, count, True), shards), _vectors(draws, 40, True)
    whole = FlatSearcher(FlatVectors.open(folder))
    expected = whole.using(ExactOptions(device="cpu", engine="torch"), None).search(queries, k)
    url = (setting.folder / "lists").as_uri()

    def by(device: str) -> ShardedSearcher:
        searcher = whole.using(ExactOptions(device=device), None)
        return ShardedSearcher(searcher, whole.flat.shards, KeptLists(setting.folder / f"kept-{len(device)}", url))

    left = by("cpu").search_some(queries, k, slice(0, 1))
    expect(left == set(range(1, shards)), f"shards {sorted(left)} are left behind the first one's search")
    expect(not by(setting.device).search_some(queries, k, slice(1, shards)), "shards are left in the end")
    found = by(setting.device).search(queries, k)
    same = float((found.rows == expected.rows).mean())
    expect(same == 1.0, f"{1 - same:.2%} of the ids are others than one machine's")
    return {"vectors": count, "dimension": dimension, "shards": shards, "same ids": same}


def _in_shards(setting: Setting, vectors: NDArray[np.float32], count: int) -> Path:
    """A folder of an index in so many shards."""
    out, step, closed = setting.folder / "shards", -(-len(vectors) // count), list[Closed | None]()
    for number, start in enumerate(range(0, len(vectors), step)):
        part, folder = vectors[start : start + step], out / shard_name(number)
        with FlatWriter(folder, vectors.shape[1], len(part)) as writer:
            writer.write_block(0, 0, part)
            writer.write_doc_ids(f"d{row}" for row in range(start, start + len(part)))
            writer.close()
        close_shard(folder, len(part), {"dimension": vectors.shape[1]})
        closed.append(Closed.find(str(folder)))
    close_folder(out, [shard for shard in closed if shard is not None])
    return out


def _products(vectors: torch.Tensor, asked: torch.Tensor, dtype: torch.dtype, setting: Setting) -> float:
    """Seconds of the products of all with all, block by block."""
    rows, lines = vectors.to(dtype), asked.to(dtype)

    def work() -> None:
        for start in range(0, len(rows), _BLOCK):
            for begin in range(0, len(lines), _QUERIES):
                torch.mm(lines[begin : begin + _QUERIES], rows[start : start + _BLOCK].T)

    work()
    return seconds(work, setting)
