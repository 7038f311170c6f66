"""Mining on given vectors: time and peak memory against sentence-transformers' miner and Pyserini's batch search.

    pip install "hardneg[cpu]"     (and pyserini with a Java for its row)
    python benchmarks/mining_speed.py [--queries 10000] [--documents 100000] [--depth 200] [--rounds 3]

Every run is a process of its own; contestants take turns, and each figure is the median of its rounds. The
peak is what a run adds to the memory of its process with libraries, corpus texts and vectors loaded. Ours reads
the vectors from the index's file and ends with the negatives on disk; `mine_hard_negatives` gets a model that
returns vectors from memory and ends with a dataset of 10 negatives a query; Pyserini's row is the search alone.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.records import Candidates, RankedList

DIMENSION = 384
KEPT = 10

Vectors = NDArray[np.float32]
Job = Callable[[], object]


def prepare(folder: Path, documents: int, queries: int) -> None:
    """A flat index of random unit vectors, and queries that lie near a document each."""
    from hardneg.formats.vectors import FlatWriter

    generator = np.random.default_rng(0)
    vectors = _unit(generator.standard_normal((documents, DIMENSION), dtype=np.float32))
    noise = generator.standard_normal((queries, DIMENSION), dtype=np.float32) / DIMENSION**0.5
    np.save(folder / "queries.npy", _unit(vectors[:queries] + noise))
    with FlatWriter(folder / "index", DIMENSION, documents) as writer:
        for _number, start in enumerate(range(0, documents, 4096)):
            writer.write(vectors[start : start + 4096])
        writer.write_doc_ids(f"d{row}" for row in range(documents))
        writer.close()


def _unit(vectors: Vectors) -> Vectors:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def hardneg(folder: Path, depth: int) -> Job:
    """Exact search in the file, selection of the top, negatives on disk."""
    from hardneg.formats.negatives import write_negatives
    from hardneg.indexes.exact import Flat
    from hardneg.mining.ranks import TopK

    queries, searcher = np.load(folder / "queries.npy"), Flat().open(folder / "index")
    ids = np.array(searcher.flat.doc_ids[:], dtype=object)

    def candidates() -> Iterator[Candidates]:
        hits = searcher.search(queries, depth + 1)
        for number, (rows, scores) in enumerate(zip(hits.rows, hits.scores, strict=True)):
            yield Candidates(f"q{number}", [ids[number]], {"dense": RankedList(ids[rows].tolist(), scores)}, ids)

    return lambda: write_negatives(folder / "negatives.arrow", TopK(depth=depth).mine(candidates(), seed=0))


def sentence_transformers(folder: Path, depth: int, faiss: bool = False) -> Job:
    """`mine_hard_negatives` with a model that only looks vectors up."""
    import torch
    from datasets import Dataset
    from sentence_transformers.util import mine_hard_negatives, pairwise_dot_score

    from hardneg.formats.vectors import FlatVectors

    queries, index = np.load(folder / "queries.npy"), FlatVectors.open(folder / "index")
    corpus, vectors = index.doc_ids[:], index.read(0, len(index))
    model = SimpleNamespace(
        device=torch.device("cpu"),
        prompts={},
        model_card_data=SimpleNamespace(base_model="given vectors"),
        encode_document=lambda texts, **_: vectors[[int(text[1:]) for text in texts]],
        encode_query=lambda texts, **_: queries[[int(text[1:]) for text in texts]],
        get_embedding_dimension=lambda: DIMENSION,
        similarity=lambda some, others: torch.as_tensor(some) @ torch.as_tensor(others).T,
        similarity_pairwise=lambda some, others: pairwise_dot_score(some, others),
    )
    pairs = Dataset.from_dict({"query": [f"q{row}" for row in range(len(queries))], "positive": corpus[: len(queries)]})
    options: dict[str, Any] = {"range_max": depth, "num_negatives": KEPT, "use_faiss": faiss, "verbose": False}
    return lambda: mine_hard_negatives(pairs, model, corpus=corpus, output_format="n-tuple", **options)


def sentence_transformers_faiss(folder: Path, depth: int) -> Job:
    """The same with `use_faiss=True`."""
    return sentence_transformers(folder, depth, faiss=True)


def pyserini(folder: Path, depth: int) -> Job:
    """`FaissSearcher.batch_search`, given vectors, with as many threads as there are cores."""
    import os

    from hardneg.indexes.lucene import start_java

    start_java()
    from pyserini.search.faiss import FaissSearcher

    queries = np.load(folder / "queries.npy")
    searcher = FaissSearcher(str(folder / "index"), None)
    names = [f"q{row}" for row in range(len(queries))]
    return lambda: searcher.batch_search(queries, names, depth + 1, threads=os.cpu_count() or 1)


CONTESTANTS = {
    "hardneg": hardneg,
    "mine_hard_negatives": sentence_transformers,
    "mine_hard_negatives, use_faiss": sentence_transformers_faiss,
    "Pyserini batch_search": pyserini,
}


def measure(name: str, folder: Path, depth: int) -> None:
    """Prints seconds and the peak's growth in MiB of one run in this process."""
    job = CONTESTANTS[name](folder, depth)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    job()
    seconds = time.perf_counter() - start
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print("\n" + json.dumps({"seconds": seconds, "grown": grown, "peak": before / 1024 + grown}))


def once(name: str, folder: Path, depth: int) -> dict[str, float] | None:
    """One run in a process of its own; None where it cannot be had here."""
    command = [sys.executable, __file__, "--measure", name, "--folder", str(folder), "--depth", str(depth)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print(f"{name}: {(done.stderr.strip().splitlines() or ['failed'])[-1]}")
        return None
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def compare(folder: Path, options: argparse.Namespace) -> None:
    """Runs all contestants in turn and prints the table."""
    rounds = [{name: once(name, folder, options.depth) for name in CONTESTANTS} for _ in range(options.rounds)]
    matrix = options.queries * options.documents * 4 / 2**20
    print(f"{options.queries} queries, {options.documents} documents; their similarity matrix: {matrix:.0f} MiB")
    for name in CONTESTANTS:
        runs = [found for one in rounds if (found := one[name]) is not None]
        if not runs:
            continue
        ratios = [
            found["seconds"] / ours["seconds"] for one in rounds if (found := one[name]) and (ours := one["hardneg"])
        ]
        middle = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        print(
            f"  {name:<32}{middle['seconds']:7.1f} s  {statistics.median(ratios):5.2f} x ours   "
            f"peak {middle['peak']:6.0f} MiB, {middle['grown']:6.0f} MiB of it while it ran"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="Mining speed and memory against peers.")
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--depth", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure, options.folder, options.depth)
        return
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder), options.documents, options.queries)
        compare(Path(folder), options)


if __name__ == "__main__":
    main()
