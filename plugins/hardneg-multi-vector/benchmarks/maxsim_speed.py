"""Exact MaxSim in a file of token vectors against sentence-transformers' `maxsim` over the same vectors in memory.

    python maxsim_speed.py [--queries 100] [--documents 1000] [--tokens 70] [--rounds 3] [--k 100]

Random unit vectors of 128 dimensions, 32 per query, `--tokens` per document on average. Both searches take turns in
one process. Each time is the lowest processor time of all rounds, and each ratio the median over the rounds. Memory is
what the search uses in addition to what its process used before.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hardneg_multi_vector.maxsim import MultiVectorSearcher
from hardneg_multi_vector.store import TokenStore, TokenVectors, TokenWriter
from numpy.typing import NDArray

DIMENSION, QUERY_TOKENS, BLOCK = 128, 32, 1024


def drawn(lengths: NDArray[np.int64], seed: int) -> TokenVectors:
    """Return random unit vectors for texts with the given numbers of tokens, int64 [n]."""
    vectors = np.random.default_rng(seed).standard_normal((int(lengths.sum()), DIMENSION), np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return TokenVectors(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), vectors)


def write(folder: Path, documents: int, tokens: int) -> None:
    """Write a folder of documents with `tokens` random vectors each on average, block by block."""
    lengths = np.random.default_rng(0).integers(tokens // 2, tokens + tokens // 2 + 1, documents)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    with TokenWriter(folder, DIMENSION, offsets) as writer:
        for number, start in enumerate(range(0, documents, BLOCK)):
            writer.write(drawn(lengths[start : start + BLOCK], number))
        writer.write_doc_ids(str(row) for row in range(documents))
        writer.close()


def queries_of(count: int) -> TokenVectors:
    """Return `count` random queries of `QUERY_TOKENS` tokens each."""
    return drawn(np.full(count, QUERY_TOKENS), 1 << 20)


def by_library(documents: list[torch.Tensor], queries: torch.Tensor, k: int) -> NDArray[np.int64]:
    """Return each query's k best documents by sentence-transformers' `maxsim`, int64 [Q, k]."""
    from sentence_transformers.util.similarity import maxsim

    rows: NDArray[np.int64] = maxsim(queries, documents).topk(min(k, len(documents)), dim=1).indices.numpy()
    return rows


def seconds(search: Callable[[], Any]) -> float:
    """Return one search's processor time in all threads, which is less noisy than elapsed time on a shared machine."""
    start = time.process_time()
    search()
    return time.process_time() - start


def peak() -> float:
    """Return the peak memory of this process so far, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def memory(folder: Path, queries: int, k: int) -> None:
    """Print the memory that a search uses in addition to what the process used before."""
    wanted = queries_of(queries)
    MultiVectorSearcher(TokenStore.open(folder)).search(wanted[:0], k)
    before = peak()
    MultiVectorSearcher(TokenStore.open(folder)).search(wanted, k)
    taken = peak() - before
    size = (folder / "index").stat().st_size / (1 << 20)
    print(f"  memory of a search of {size:.0f} MB: {taken:.0f} MB more")


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of exact MaxSim against sentence-transformers.")
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=70)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--memory-of", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory_of:
        memory(options.memory_of, options.queries, options.k)
        return
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write(folder, options.documents, options.tokens)
        compare(folder, options)
        again = [sys.executable, __file__, "--memory-of", place, "--queries", str(options.queries)]
        subprocess.run(again, check=True)


def compare(folder: Path, options: argparse.Namespace) -> None:
    """Print one line of timings for each way to search."""
    searcher, queries = MultiVectorSearcher(TokenStore.open(folder)), queries_of(options.queries)
    held = searcher.store.read(0, options.documents)
    documents = list(torch.from_numpy(held.vectors).split(np.diff(held.offsets).tolist()))
    asked = torch.from_numpy(queries.vectors).view(options.queries, QUERY_TOKENS, DIMENSION)
    ways: dict[str, Callable[[], Any]] = {
        "sentence-transformers maxsim, in memory": lambda: by_library(documents, asked, options.k),
        "hardneg, from the file": lambda: searcher.search(queries, options.k).rows,
    }
    found = {name: search() for name, search in ways.items()}
    rounds = [{name: seconds(search) for name, search in ways.items()} for _ in range(options.rounds)]
    base = next(iter(ways))
    for name in ways:
        best = min(one[name] for one in rounds)
        ratio = statistics.median(one[base] / one[name] for one in rounds)
        pairs = zip(found[base], found[name], strict=True)
        same = np.mean([len(np.intersect1d(*pair)) / len(pair[0]) for pair in pairs])
        print(f"  {name:<42}{best:7.2f} s   {ratio:5.2f} x the speed   {100 * same:.3f} % of the documents")


if __name__ == "__main__":
    main()
