"""Exact search among weights of terms against scipy, a query at a time, and against torch's sparse product.

    python benchmarks/sparse_search_speed.py [--queries 10000] [--documents 100000] [--k 200] [--sample 50]

Documents of some 120 terms and queries of some 20 over 30,522, the frequent ones in many of them, as a learned sparse
encoder leaves them: two thirds of all pairs share a term. scipy's loop has its matrix in memory, answers `--sample`
queries, and its time is multiplied to all of them; so is torch's, a block of documents made dense and multiplied with
all queries, for the first `--blocks` of them.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from hardneg_sparse.exact import SparseSearcher
from hardneg_sparse.store import SparseRows, SparseStore, SparseWriter
from numpy.typing import NDArray
from scipy.sparse import csr_array

WIDTH = 30_522
SLICE = 5_000
BLOCK = 512


def drawn(count: int, terms: int, seed: int) -> SparseRows:
    """Texts of up to so many terms."""
    draws, shares = np.random.default_rng(seed), np.arange(1, WIDTH + 1) ** -0.7
    found = np.sort(draws.choice(WIDTH, (count, terms), p=shares / shares.sum()), axis=1)
    kept = np.diff(found, axis=1, prepend=-1) > 0
    offsets = np.concatenate([[0], np.cumsum(kept.sum(1))]).astype(np.int64)
    weights = (draws.random(int(offsets[-1])) + 0.01).astype(np.float32)
    return SparseRows(offsets, found[kept].astype(np.int32), weights, WIDTH)


def prepare(folder: Path, count: int) -> csr_array:
    """Writes a folder of weights, and returns them as a matrix."""
    with SparseWriter(folder, WIDTH, count) as writer:
        for number, start in enumerate(range(0, count, SLICE)):
            writer.write(drawn(min(SLICE, count - start), 120, number))
        writer.write_doc_ids(str(row) for row in range(count))
        writer.close()
    return matrix(SparseStore.open(folder).read(0, count))


def matrix(rows: SparseRows) -> csr_array:
    """The same weights for scipy."""
    return csr_array((rows.weights, rows.terms, rows.offsets), shape=(len(rows), WIDTH))


def by_loop(documents: csr_array, queries: csr_array, k: int) -> NDArray[np.int64]:
    """The k best rows of each query, one after another."""
    found = []
    for row in range(queries.shape[0]):
        scores = (documents @ queries[row : row + 1].T).toarray()[:, 0]
        best = np.argpartition(-scores, k)[:k]
        found.append(best[np.argsort(-scores[best], kind="stable")])
    return np.array(found)


def by_torch(documents: csr_array, queries: csr_array, blocks: int) -> None:
    """The products alone, of all queries with so many blocks."""
    parts = queries.indptr.astype(np.int64), queries.indices.astype(np.int64), queries.data
    left = torch.sparse_csr_tensor(*map(torch.from_numpy, parts), queries.shape)
    for block in range(blocks):
        dense = documents[block * BLOCK : (block + 1) * BLOCK].toarray().T
        torch.sparse.mm(left, torch.from_numpy(np.ascontiguousarray(dense)))


def seconds(search: Callable[[], object]) -> float:
    """How long one search takes."""
    start = time.perf_counter()
    search()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of exact search among weights of terms against scipy.")
    for name, usual in (("queries", 10_000), ("documents", 100_000), ("k", 200), ("sample", 50), ("blocks", 4)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        documents, queries = prepare(Path(folder), options.documents), drawn(options.queries, 20, 1 << 20)
        searcher = SparseSearcher(SparseStore.open(Path(folder)))
        asked = matrix(queries)
        few = asked[: options.sample]
        loop = seconds(lambda: by_loop(documents, few, options.k)) * options.queries / options.sample
        blocks = -(-options.documents // BLOCK)
        product = seconds(lambda: by_torch(documents, asked, options.blocks)) * blocks / options.blocks
        own = seconds(lambda: searcher.search(queries, options.k))
        same = searcher.search(queries[: options.sample], options.k).rows == by_loop(documents, few, options.k)
    print(f"  hardneg, from the folder      {own:8.1f} s")
    print(
        f"  scipy, a query at a time      {loop:8.1f} s   {loop / own:5.1f} x as long   {same.mean():.2%} the same rows"
    )
    print(f"  torch, sparse times dense     {product:8.1f} s   {product / own:5.1f} x as long, the products alone")


if __name__ == "__main__":
    main()
