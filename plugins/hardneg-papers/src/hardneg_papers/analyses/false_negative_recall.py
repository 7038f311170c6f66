"""How well filters of negatives find positives that were hidden from them: planted noise."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from hardneg.plugin import FILTER_RULES, Analysis, AnalysisInputs, Candidates, Name, Option, Reference, Table, wording
from hardneg_papers.analyses.shared import percent

Thresholds = Mapping[str, Sequence[float]]
"""The thresholds to try, by the name of the filtering miner."""

THRESHOLDS: dict[str, tuple[float, ...]] = {
    "denoised": (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.99),
    "pos-margin": (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9),
    "pos-percent": (1.0, 0.99, 0.95, 0.9, 0.8, 0.7, 0.5, 0.3, 0.1),
}
_QUERIES = 4096


def _known_filters(thresholds: dict[str, tuple[float, ...]]) -> dict[str, tuple[float, ...]]:
    for name in thresholds:
        if name not in FILTER_RULES:
            there = f"{wording.suggestion(name, FILTER_RULES)}; there are {', '.join(FILTER_RULES)}"
            raise ValueError(f"no filter {name!r}{there}")
    return thresholds


FilterThresholds = Annotated[
    dict[Name, Annotated[tuple[float, ...], Field(min_length=1)]],
    AfterValidator(_known_filters),
    Option("threshold", metavar="FILTER=VALUE"),
]

Planted = tuple[Candidates, Collection[str]]
"""A query, whose first list is filtered, and the documents that are hidden positives of it."""


class FalseNegativeRecall(Analysis):
    """Measure filters of negatives by positives hidden from them: how many each removes, and what else.

    Of plain files the copies of documents are not known. Queries without known positives are left out.

    Example: hardneg analyze false-negative-recall --run dense.trec.gz --qrels known.txt --withheld hidden.txt
    """

    name = "false-negative-recall"
    title = "hidden positives"
    asks = ("qrels", "withheld")
    drawn, across = slice(2, 4), 4

    run: Annotated[Name, Reference(("run",))] = Field(description="The TREC run whose documents are filtered.")
    scores: Annotated[dict[Name, Name], Reference(("run",)), Option("filter-by")] = Field(
        default_factory=dict, description="A TREC run whose scores decide; default: those of the runs."
    )
    thresholds: FilterThresholds = Field(THRESHOLDS, description="To try; default: a grid of them.")
    depth: int = Field(50, gt=0, description="How far down the lists are filtered.")
    split: Annotated[Name, Option("-")] = "train"

    def missing(self, collection: Mapping[str, Any]) -> Iterator[str]:
        """Hidden positives of queries that keep others, by what stage `dataset` told of them."""
        withheld = collection.get("withheld", {})
        hidden = withheld.get("hidden", {self.split: 1})  # collections may be stored that were not asked for it
        if not withheld.get("judgements"):
            yield f"{self.name}: this dataset withholds no judgements: give it `withheld`, or leave {self.name} out"
        elif not hidden:
            message = "no positive is hidden of a query that keeps another: raise dataset.withheld.positives"
            yield f"{self.name}: {message}, or leave {self.name} out where queries have one each"
        elif self.split not in hidden:
            message = f"no positives of split {self.split} are hidden; there are some of {', '.join(hidden)}"
            yield f"{self.name}.split: {message}"

    def measure(self, inputs: AnalysisInputs) -> dict[str, Any]:
        """Recall, precision and what is kept, by filter and threshold."""
        paths = {"": "run", **{label: f"scores.{label}" for label in self.scores}}
        labels = list(self.scores) or [""]
        results = false_negative_recall(self._queries(inputs, paths), labels, self.thresholds, self.depth)
        if not self.scores:
            results["scores"] = {inputs.label("run"): results["scores"][""]}
        return {"split": self.split, **results}

    def _queries(self, inputs: AnalysisInputs, paths: Mapping[str, str]) -> Iterator[Planted]:
        """The queries that have known positives, with their lists; a copy of a hidden positive is hidden too."""
        query_ids, known, hidden = inputs.query_ids("run", self.split), inputs.relevant(), inputs.withheld()
        streams = [inputs.lists(path, query_ids) for path in paths.values()]
        for query_id, *lists in zip(query_ids, *streams, strict=True):
            if query_id in known:
                hits = dict(zip(paths, lists, strict=True))
                duplicates = frozenset(inputs.copies(known[query_id])).difference(known[query_id])
                candidates = Candidates(query_id, known[query_id], hits, (), duplicates)
                yield candidates, frozenset(inputs.copies(hidden.get(query_id, ())))

    def table(self, results: Any) -> Table:
        rows = [
            [f"{name} by {label}", f"{point['threshold']:g}"]
            + [percent(point[share]) for share in ("recall", "precision", "kept")]
            + [f"{point['removed']:,}"]
            for label, each in results["scores"].items()
            for name, points in each["filters"].items()
            for point in points
        ]
        return Table(("filter", "threshold", "hidden removed", "precision", "true negatives kept", "removed"), rows)

    def explain(self, results: Any) -> str:
        hidden, candidates, lost = (
            " or ".join(f"{count:,}" for count in sorted({each[name] for each in results["scores"].values()}))
            for name in ("hidden", "candidates", "queries with no scored positive")
        )
        return (
            f"{hidden} hidden positives among {candidates} scored candidates: {results['queries']:,} queries of split "
            f"{results['split']}, {results['depth']} deep. Precision is the share of what is removed that was hidden: "
            "positives that nobody labelled count against it. Queries whose known positives have no score, and of "
            f"which filters that compare with them keep nothing: {lost}."
        )


def false_negative_recall(
    queries: Iterable[Planted], labels: Sequence[str], thresholds: Thresholds, depth: int
) -> dict[str, Any]:
    """What each filter does with the first `depth` documents of the first lists, known positives and copies left out.

    Candidates without a score are left out and counted. A query whose known positives have no score loses all to the
    filters that compare with them, and is counted.

    Args:
        queries: read once.
        labels: the lists whose scores decide, by their name among the candidates' hits.
        thresholds: by filter.
        depth: how far down to look.

    Returns:
        Counts; and in `scores`, by label, counts and `filters`: by filter its points, a threshold each. `removed`:
        candidates. `recall`: the hidden positives among them, of all hidden positives that are candidates. `precision`:
        the same, of all that is removed. `kept`: the share of the other candidates, true negatives, that stays. Shares
        are None where there is nothing to divide by.
    """
    grid = [(name, threshold) for name, values in thresholds.items() for threshold in values]
    counted = ("candidates", "hidden", "unscored", "queries with no scored positive")
    counts = {label: Counter(dict.fromkeys(counted, 0)) for label in labels}
    removed = {label: np.zeros((len(grid), 2), np.int64) for label in labels}  # others, hidden ones
    facts, waiting = Counter({"queries": 0, "with hidden positives": 0}), iter(queries)
    while planted := list(islice(waiting, _QUERIES)):
        facts["queries"] += len(planted)
        facts["with hidden positives"] += sum(bool(hidden) for _, hidden in planted)
        for label in labels:
            scores, positive, is_hidden = _candidates(planted, label, depth, counts[label])
            for row, (name, threshold) in enumerate(grid):
                dropped = ~FILTER_RULES[name](threshold)(scores, positive)
                removed[label][row] += np.bincount(is_hidden[dropped], minlength=2)
    results: dict[str, dict[str, Any]] = {}
    for label in labels:
        hidden = counts[label]["hidden"]
        others = counts[label]["candidates"] - hidden
        points: dict[str, list[dict[str, Any]]] = {name: [] for name in thresholds}
        for (name, threshold), (wrong, right) in zip(grid, removed[label].tolist(), strict=True):
            parts = {"recall": (right, hidden), "precision": (right, wrong + right), "kept": (others - wrong, others)}
            shares = {share: part / whole if whole else None for share, (part, whole) in parts.items()}
            points[name].append({"threshold": threshold, "removed": wrong + right, **shares})
        results[label] = {**counts[label], "filters": points}
    return {"depth": depth, **facts, "scores": results}


def _candidates(
    queries: Sequence[Planted], label: str, depth: int, counts: Counter[str]
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_]]:
    """Of candidates with a score in one list: it, the lowest of the query's positives, whether it is hidden."""
    parts = []
    for query, hidden_ids in queries:
        aside, scored = query.duplicates.union(query.positives), query.hits[label]
        doc_ids = [doc_id for doc_id in query.ranking.doc_ids[:depth] if doc_id not in aside]
        by_id = dict(zip(scored.doc_ids, scored.scores.tolist(), strict=True))
        lowest = min((by_id[doc_id] for doc_id in query.positives if doc_id in by_id), default=np.nan)
        known = [doc_id for doc_id in doc_ids if doc_id in by_id]
        counts["unscored"] += len(doc_ids) - len(known)
        counts["queries with no scored positive"] += bool(np.isnan(lowest))
        own = np.array([by_id[doc_id] for doc_id in known], np.float32)
        is_hidden = np.array([doc_id in hidden_ids for doc_id in known], bool)
        parts.append((own, np.full(len(known), lowest, np.float32), is_hidden))
    scores, positive, is_hidden = (np.concatenate(each) for each in zip(*parts, strict=True))
    counts.update(candidates=len(is_hidden), hidden=int(is_hidden.sum()))
    return scores, positive, is_hidden
