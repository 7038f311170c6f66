"""What batches hold by each order of queries, and whether margin bins are drawn evenly; on a BEIR folder.

    python benchmarks/batch_orders.py insuranceqa [--model packaged:wordllama] [--size 32] [--epochs 10]

Prints, for each order, the share of a batch's largest topic, the mean score of queries with the other queries'
positives, and how many of these are among the query's own top 100; then chi-square tests of the bins.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from hardneg.datasets.beir import Beir
from hardneg.encoders.open.resolved import load_encoder
from hardneg.encoders.spec import ModelSpec
from hardneg.records import RankedList
from hardneg.runtime import generator
from hardneg.training.batch_orders import Clustered, HardestTogether, Shuffled, TopicBalanced, TrainingQueries, k_means
from hardneg.training.examples import by_margin, margin_bins

DEPTH, TOPICS, BLOCK = 100, 64, 1024


def encoded(folder: Path, model: str) -> tuple[TrainingQueries, NDArray[np.int64], NDArray[np.float32]]:
    """The training queries with vectors and top 100; the row of a positive of each; the documents' vectors."""
    collection, encoder = Beir(str(folder)).load(), load_encoder(ModelSpec(model), "cpu", "fp32")
    corpus = list(collection.documents())
    row = {document.doc_id: number for number, document in enumerate(corpus)}
    known: dict[str, list[str]] = {}
    for judgement in collection.qrels("train"):
        if judgement.relevance > 0 and judgement.doc_id in row:
            known.setdefault(judgement.query_id, []).append(judgement.doc_id)
    asked = [query for query in collection.queries("train") if query.query_id in known]
    documents: Any = encoder.encode([document.contents for document in corpus], "document")
    queries: Any = encoder.encode([query.text for query in asked], "query")
    ids = [query.query_id for query in asked]
    positive = np.array([row[known[query_id][0]] for query_id in ids])
    lists = list(ranked(queries, documents, [document.doc_id for document in corpus]))
    return TrainingQueries(ids, known, queries, lists), positive, documents


def ranked(queries: NDArray[np.float32], documents: NDArray[np.float32], names: list[str]) -> Iterator[RankedList]:
    """The best documents of each query."""
    for start in range(0, len(queries), BLOCK):
        scores = queries[start : start + BLOCK] @ documents.T
        best = np.argpartition(-scores, DEPTH)[:, :DEPTH]
        for row, found in zip(scores, best, strict=True):
            order = found[np.argsort(-row[found], kind="stable")]
            yield RankedList([names[place] for place in order], row[order])


def told(plugin: Any, queries: TrainingQueries, positives: NDArray[np.float32], size: int, epochs: int) -> list[float]:
    """Mean and least share of the largest topic of a batch, mean score with others' positives, their share above."""
    assert queries.vectors is not None and queries.run is not None
    last = np.array([ranking.scores[-1] for ranking in queries.run])
    groups = plugin.groups(queries, size, seed=42)
    topics = groups if isinstance(plugin, TopicBalanced) else k_means("topics", queries.vectors, TOPICS, 42)[0]
    chosen, shares, means, above = np.arange(len(last)), list[float](), list[float](), list[float]()
    for epoch in range(epochs):
        order = plugin.order(groups, chosen, size, epoch=epoch, seed=42)
        for batch in order[: len(order) // size * size].reshape(-1, size):
            shares.append(np.bincount(topics[batch]).max() / size)
            scores = queries.vectors[batch] @ positives[batch].T
            others = ~np.eye(size, dtype=bool)
            means.append(float(scores[others].mean()))
            above.append(float((scores >= last[batch, None])[others].mean()))
    return [float(np.mean(shares)), min(shares), float(np.mean(means)), float(np.mean(above))]


def evenness(queries: TrainingQueries, epochs: int) -> tuple[str, str]:
    """Chi-square of the bins that are drawn, and of the places within them.

    Each draw is the place of its bin among the query's non-empty ones. By how many there are, places are uniform; the
    statistics and degrees of freedom of all such numbers are added up. So too within bins, by their size.
    """
    assert queries.run is not None
    bins, within = dict[int, list[int]](), dict[int, list[int]]()
    for query_id, ranking in zip(queries.query_ids, queries.run, strict=True):
        numbers = margin_bins(ranking.scores)
        filled = np.unique(numbers)
        for epoch in range(epochs):
            place = by_margin(ranking.scores, 1, generator(42, "draw", epoch, query_id))[0]
            inside = np.flatnonzero(numbers == numbers[place])
            bins.setdefault(len(filled), []).append(int(np.searchsorted(filled, numbers[place])))
            within.setdefault(len(inside), []).append(int(np.searchsorted(inside, place)))
    return chi_square(bins), chi_square(within)


def chi_square(drawn: dict[int, list[int]]) -> str:
    statistic, freedom, draws = 0.0, 0, 0
    for number, places in drawn.items():
        expected = len(places) / number
        if number > 1 and expected >= 5:
            counts = np.bincount(places, minlength=number)
            statistic, freedom = statistic + float(((counts - expected) ** 2 / expected).sum()), freedom + number - 1
            draws += len(places)
    return f"chi-square {statistic:.1f}, {freedom} degrees of freedom, p = {chi2.sf(statistic, freedom):.3f}, {draws:,}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Batches by each order of queries.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", default="packaged:wordllama")
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=10)
    options = parser.parse_args()
    queries, positive, documents = encoded(options.folder, options.model)
    print(f"{len(queries.query_ids):,} queries, batches of {options.size}, {options.epochs} epochs")
    orders = {
        "shuffled": Shuffled(),
        "topic-balanced": TopicBalanced(TOPICS),
        "clustered": Clustered(),
        "hardest-together": HardestTogether(),
    }
    for name, plugin in orders.items():
        shares = told(plugin, queries, documents[positive], options.size, options.epochs)
        print(f"{name:18}" + "".join(f"{value:9.4f}" for value in shares), flush=True)
    for name, line in zip(("bins", "within bins"), evenness(queries, options.epochs), strict=True):
        print(f"{name:18} {line} draws")


if __name__ == "__main__":
    main()
