"""Time and peak memory of pairwise errors over a whole corpus: 100,000 documents and 10,000 queries by default.

OMP_NUM_THREADS=1 python benchmarks/pairwise_errors_memory.py [--documents N] [--queries N] [--dimension N]
"""

import argparse
import resource
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
from hardneg_papers.analyses.errors import errors_in_index

from hardneg.formats.vectors import FlatVectors, FlatWriter
from hardneg.indexes.checks import vector_blocks

_BLOCK = 4096


def main() -> None:
    """Writes an index of random vectors, counts, and prints one line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--dimension", type=int, default=384)
    given = parser.parse_args()
    draw = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        write_index(Path(folder), given.documents, given.dimension, draw)
        queries = draw.standard_normal((given.queries, given.dimension), np.float32)
        positives = list(draw.integers(0, given.documents, (given.queries, 1)))
        corpus = partial(vector_blocks, FlatVectors.open(Path(folder)), _BLOCK)
        before, started = peak_mb(), time.monotonic()
        total, _ = errors_in_index(corpus, queries, positives, positives)
        seconds = time.monotonic() - started
    print(
        f"{given.documents} documents x {given.queries} queries of {given.dimension} dimensions: {seconds:.1f} s, ",
        end="",
    )
    print(f"peak {peak_mb():.0f} MB ({before:.0f} MB before counting), {total.mean():.1f} errors a query")


def write_index(folder: Path, documents: int, dimension: int, draw: np.random.Generator) -> None:
    """An index folder of random vectors, written block by block."""
    with FlatWriter(folder, dimension, documents) as writer:
        for _number, start in enumerate(range(0, documents, _BLOCK)):
            rows = min(_BLOCK, documents - start)
            writer.write(draw.standard_normal((rows, dimension), np.float32))
        writer.write_doc_ids(str(row) for row in range(documents))
        writer.close()


def peak_mb() -> float:
    """The largest resident size of this process so far, in MB (10^6 bytes)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


if __name__ == "__main__":
    main()
