"""Exact search in an index's file against faiss's flat index, mapped and in memory, and Pyserini's batch search.

    pip install "hardneg[cpu]"     (and pyserini with a Java for its row)
    python benchmarks/search_speed.py [--queries 2000] [--documents 100000] [--k 200] [--rounds 5]

Random unit vectors of 384 dimensions. Contestants take turns in one process; each figure is the median of its
rounds, and each ratio the median over the rounds. Where the package hardneg-fast-cpu is installed, hardneg takes its
way on processors that have units for bfloat16; `--plain` leaves it out.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from hardneg.formats.vectors import FlatVectors, FlatWriter
from hardneg.indexes import exact
from hardneg.indexes.exact import search_exact
from hardneg.records import HardnegError

DIMENSION = 384

Search = Callable[[], Any]


def prepare(folder: Path, count: int) -> NDArray[np.float32]:
    """Writes a flat index folder of random unit vectors, and returns them."""
    vectors = unit(np.random.default_rng(0).standard_normal((count, DIMENSION), dtype=np.float32))
    with FlatWriter(folder, DIMENSION, count) as writer:
        for _number, start in enumerate(range(0, count, 4096)):
            writer.write(vectors[start : start + 4096])
        writer.write_doc_ids(str(row) for row in range(count))
        writer.close()
    return vectors


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Each vector at length one."""
    scaled: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return scaled


def contestants(
    folder: Path, vectors: NDArray[np.float32], queries: NDArray[np.float32], options: argparse.Namespace
) -> dict[str, Search]:
    """The ways to search, by name."""
    k = options.k
    index = faiss.IndexFlatIP(DIMENSION)
    index.add(vectors)
    mapped = faiss.read_index(str(folder / "index"), faiss.IO_FLAG_MMAP)
    ways: dict[str, Search] = {
        "faiss IndexFlatIP, mapped": lambda: mapped.search(queries, k)[1],
        "faiss IndexFlatIP, in memory": lambda: index.search(queries, k)[1],
        "hardneg": lambda: _ours(folder, queries, k),
    }
    if options.without_pyserini:
        return ways
    try:
        return ways | {"Pyserini batch_search": _pyserini(folder, queries, k)}
    except HardnegError as error:
        print(f"Pyserini: {error}")
        return ways


def _ours(folder: Path, queries: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    return search_exact(FlatVectors.open(folder), queries, k).rows


def _pyserini(folder: Path, queries: NDArray[np.float32], k: int) -> Search:
    from hardneg.indexes.lucene import start_java

    start_java()
    from pyserini.search.faiss import FaissSearcher

    searcher: Any = FaissSearcher(str(folder), None)
    names = [str(row) for row in range(len(queries))]

    return lambda: searcher.batch_search(queries, names, k, threads=os.cpu_count() or 1)


def rows_of(found: Any) -> list[Any]:
    """The rows of each query's documents; Pyserini gives hits by query."""
    if not isinstance(found, dict):
        return list(found)
    return [[int(hit.docid) for hit in hits] for hits in found.values()]


def seconds(search: Search) -> float:
    """How long one search takes."""
    start = time.perf_counter()
    search()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of exact search against faiss and Pyserini.")
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--k", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--plain", action="store_true", help="without a package's faster way")
    parser.add_argument("--without-pyserini", action="store_true")
    options = parser.parse_args()
    if options.plain:
        exact.faster = lambda name: None  # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory() as folder:
        vectors = prepare(Path(folder), options.documents)
        queries = unit(np.random.default_rng(1).standard_normal((options.queries, DIMENSION), dtype=np.float32))
        ways = contestants(Path(folder), vectors, queries, options)
        found = {name: rows_of(search()) for name, search in ways.items()}
        rounds = [{name: seconds(search) for name, search in ways.items()} for _ in range(options.rounds)]
    base = next(iter(ways))
    for name in ways:
        middle = statistics.median(one[name] for one in rounds)
        ratio = statistics.median(one[base] / one[name] for one in rounds)
        same = np.mean([len(np.intersect1d(*pair)) / options.k for pair in zip(found[base], found[name], strict=True)])
        print(f"  {name:<32}{middle:7.2f} s   {ratio:5.2f} x faiss's speed   {100 * same:.4f} % of its documents")


if __name__ == "__main__":
    main()
