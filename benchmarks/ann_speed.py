"""What graphs, lists and codes find of the exact best, and how fast, beside exact search of the same vectors.

    pip install "hardneg[cpu]"
    python benchmarks/ann_speed.py [--vectors FOLDER --queries FILE.npy] [--documents 100000] [--k 100] [--rounds 5]
                                [--indexes FOLDER] [--only KIND ...] [--at-once 1] [--asked 200]

FOLDER is a dense index folder, FILE float32 [Q, d]. Without them: vectors of 384 dimensions around random topics.
Contestants take turns in one process. A rate is the median of its rounds, a ratio that of the rates of one round, and
recall the share of the exact best k that is found. Seconds are those of processors, so that other work on the machine
counts for little; with several threads a rate is that of one core.
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from gpu.material import around_topics
from numpy.typing import NDArray

from hardneg.formats.vectors import FlatVectors, FlatWriter
from hardneg.indexes.compressed import Hnsw
from hardneg.indexes.exact import ExactOptions, Flat
from hardneg.indexes.product import IvfFlat, IvfPq, OpqPq, Pq
from hardneg.records import Hits
from hardneg.runtime import Silent

DIMENSION, TOPICS, QUERIES = 384, 1000, 2000


def main() -> None:
    """Prints a line for each contestant."""
    options = parsed()
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        folder, queries = material(options, Path(scratch))
        vectors = FlatVectors.open(folder)
        print(f"{len(vectors)} vectors of {vectors.dimension}, {len(queries)} queries, {os.cpu_count()} cores")
        ways = {"exact": Flat().open(folder).using(ExactOptions(device="cpu", resident=1 << 40), None)}
        built = {"exact": 0.0}
        for name, plugin, changes in kinds(len(vectors), vectors.dimension):
            if options.only and name.split()[0] not in options.only:
                continue
            path = (options.indexes or Path(scratch)) / name.replace(" ", "-")
            taken = build(plugin, folder, path)
            for change in changes:
                label = " ".join([name, *(f"{key}={value}" for key, value in change.items())])
                ways[label], built[label] = opened(plugin, path, change), taken
        report(ways, built, queries, options)


def build(plugin: Any, folder: Path, path: Path) -> float:
    """Seconds of one core; what stands there from another time is taken as it is."""
    told = path / "seconds"
    if not told.exists():
        begun = time.process_time()
        plugin.build(folder, path, Silent())
        told.write_text(str(time.process_time() - begun))
    return float(told.read_text())


def parsed() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=Path)
    parser.add_argument("--queries", type=Path)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--at-once", type=int, default=1 << 20, help="queries of one search")
    parser.add_argument("--asked", type=int, default=1 << 20, help="queries at most in a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--indexes", type=Path, help="keeps what is built, and takes what stands there")
    parser.add_argument("--only", nargs="+", help="these kinds, such as hnsw")
    parser.add_argument("--scratch", type=Path)
    return parser.parse_args()


def material(options: argparse.Namespace, scratch: Path) -> tuple[Path, NDArray[np.float32]]:
    """The folder of vectors, and queries float32 [Q, d]."""
    if options.vectors is not None:
        return options.vectors, np.load(options.queries)
    some = around_topics(np.random.default_rng(0), TOPICS, DIMENSION)
    with FlatWriter(scratch / "flat", DIMENSION, options.documents) as writer:
        writer.write(some(options.documents))
        writer.write_doc_ids(str(row) for row in range(options.documents))
        writer.close()
    return scratch / "flat", some(QUERIES)


def kinds(count: int, dimension: int) -> list[tuple[str, Any, list[dict[str, int]]]]:
    """Name, backend, and what searches are tried with."""
    lists = 1 << max(3, round(np.log2(4 * count**0.5)))
    parts, probed = dimension // 8, [{"nprobe": lists // share} for share in (64, 16, 4)]
    return [
        ("hnsw m=16", Hnsw(16, 100), [{"ef_search": size} for size in (100, 200, 400)]),
        ("hnsw m=32", Hnsw(), [{"ef_search": size} for size in (100, 200, 400)]),
        (f"ivf-flat lists={lists}", IvfFlat(lists), probed),
        (f"ivfpq lists={lists} M={parts}", IvfPq(parts, 8, lists), probed),
        (f"pq M={parts}", Pq(parts), [{}]),
        (f"pq M={2 * parts}", Pq(2 * parts), [{}]),
        (f"opq-pq M={parts}", OpqPq(parts, iterations=5), [{}]),
    ]


def opened(plugin: Any, path: Path, change: dict[str, int]) -> Any:
    """The searcher, with another width of its search than the file has."""
    searcher = plugin.open(path)
    if "nprobe" in change:
        searcher.index.nprobe = change["nprobe"]
    if "ef_search" in change:
        searcher.index.hnsw.efSearch = change["ef_search"]
    return searcher


def report(
    ways: dict[str, Any], built: dict[str, float], queries: NDArray[np.float32], options: argparse.Namespace
) -> None:
    """Rounds in turns, then a line for each."""
    rates: dict[str, list[float]] = {name: [] for name in ways}
    best = ways["exact"].search(queries, options.k)
    for _ in range(options.rounds):
        for name, searcher in ways.items():
            begun = time.process_time()
            asked = queries[: options.asked]
            for start in range(0, len(asked), options.at_once):
                searcher.search(asked[start : start + options.at_once], options.k)
            rates[name].append(len(asked) / (time.process_time() - begun))
    print(f"faiss {faiss.__version__}, {faiss.omp_get_max_threads()} threads, {options.rounds} rounds")
    for name, searcher in ways.items():
        ratio = statistics.median(one / exact for one, exact in zip(rates[name], rates["exact"], strict=True))
        recall = shared(searcher.search(queries, options.k), best)
        rate = f"{statistics.median(rates[name]):8.0f} queries/s  {ratio:6.1f} x exact"
        print(f"{name:36} recall@{options.k} {recall:.3f}  {rate}  built in {built[name]:.0f} s")


def shared(found: Hits, best: Hits) -> float:
    """The mean share of the best that was found."""
    return float(np.mean([len(np.intersect1d(a, b)) / len(b) for a, b in zip(found.rows, best.rows, strict=True)]))


if __name__ == "__main__":
    main()
