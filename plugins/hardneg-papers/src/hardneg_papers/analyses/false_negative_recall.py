"""How well filters of negatives find positives that were hidden from them: planted noise."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any

import numpy as np
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
            raise ValueError(
                f"no filter {name!r}{wording.suggestion(name, FILTER_RULES)}; there are {', '.join(FILTER_RULES)}"
            )
    return thresholds


FilterThresholds = Annotated[
    dict[Name, Annotated[tuple[float, ...], Field(min_length=1)]],
    AfterValidator(_known_filters),
    Option("threshold", metavar="FILTER=VALUE"),
]
_COUNTED = ("candidates", "hidden", "unscored", "queries with no scored positive")

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
        results = false_negative_recall(
            self._queries(inputs, paths), list(self.scores) or [""], self.thresholds, self.depth
        )
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
            [
                f"{name} by {label}",
                f"{point['threshold']:g}",
                *(percent(point[share]) for share in ("recall", "precision", "kept")),
                f"{point['removed']:,}",
            ]
            for label, each in results["scores"].items()
            for name, points in each["filters"].items()
            for point in points
        ]
        return Table(("filter", "threshold", "hidden removed", "precision", "true negatives kept", "removed"), rows)

    def explain(self, results: Any) -> str:
        hidden, candidates = (_counts(results, name) for name in ("hidden", "candidates"))
        return (
            f"{hidden} hidden positives among {candidates} scored candidates: {results['queries']:,} queries of split "
            f"{results['split']}, {results['depth']} deep. Precision is the share of what is removed that was hidden: "
            "positives that nobody labelled count against it. Queries whose known positives have no score, and of "
            f"which filters that compare with them keep nothing: {_counts(results, 'queries with no scored positive')}."
        )


class _Tally:
    """Counts of what each filter removes by the scores of one run."""

    def __init__(self, thresholds: Thresholds) -> None:
        self.facts = Counter(dict.fromkeys(_COUNTED, 0))
        self._grid = [(name, threshold) for name, values in thresholds.items() for threshold in values]
        self._removed = np.zeros((len(self._grid), 2), np.int64)  # others, hidden ones

    def add(self, queries: Sequence[Planted], label: str, depth: int) -> None:
        """The candidates of some queries, by the scores of one run; those without a score are left out."""
        parts = []
        for query, hidden_ids in queries:
            aside, scored = query.duplicates.union(query.positives), query.hits[label]
            doc_ids = [doc_id for doc_id in query.ranking.doc_ids[:depth] if doc_id not in aside]
            by_id = dict(zip(scored.doc_ids, scored.scores.tolist(), strict=True))
            own = np.array([by_id.get(doc_id, np.nan) for doc_id in doc_ids], np.float32)
            lowest_own = min((by_id[doc_id] for doc_id in query.positives if doc_id in by_id), default=np.nan)
            known = ~np.isnan(own)
            self.facts["unscored"] += int((~known).sum())
            self.facts["queries with no scored positive"] += bool(np.isnan(lowest_own))
            is_hidden = np.array([doc_id in hidden_ids for doc_id in doc_ids], bool)[known]
            parts.append((own[known], np.full(len(is_hidden), lowest_own, np.float32), is_hidden))
        scores, positive, hidden = (np.concatenate(each) for each in zip(*parts, strict=True))
        self.facts.update(candidates=len(hidden), hidden=int(hidden.sum()))
        for row, (name, threshold) in enumerate(self._grid):
            removed = ~FILTER_RULES[name](threshold)(scores, positive)
            self._removed[row] += np.bincount(hidden[removed], minlength=2)

    def to_json(self) -> dict[str, Any]:
        """The facts, and by filter its points, a threshold each; shares are None where there is nothing to divide by.

        `removed`: candidates. `recall`: the hidden positives among them, of all hidden positives that are candidates.
        `precision`: the same, of all that is removed. `kept`: the share of the other candidates, true negatives, that
        stays.
        """
        hidden = self.facts["hidden"]
        others = self.facts["candidates"] - hidden
        points: dict[str, list[dict[str, Any]]] = {name: [] for name, _ in self._grid}
        for (name, threshold), (wrong, right) in zip(self._grid, self._removed.tolist(), strict=True):
            shares = _share(right, hidden), _share(right, wrong + right), _share(others - wrong, others)
            point = {"threshold": threshold, "removed": wrong + right}
            points[name].append(point | dict(zip(("recall", "precision", "kept"), shares, strict=True)))
        return {**self.facts, "filters": points}


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


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
    """
    tallies = {label: _Tally(thresholds) for label in labels}
    facts, waiting = Counter({"queries": 0, "with hidden positives": 0}), iter(queries)
    while planted := list(islice(waiting, _QUERIES)):
        facts["queries"] += len(planted)
        facts["with hidden positives"] += sum(bool(hidden) for _, hidden in planted)
        for label, tally in tallies.items():
            tally.add(planted, label, depth)
    return {"depth": depth, **facts, "scores": {label: tally.to_json() for label, tally in tallies.items()}}


def _counts(counts: Any, name: str) -> str:
    """What the runs of scores say, once where they agree."""
    return " or ".join(f"{count:,}" for count in sorted({each[name] for each in counts["scores"].values()}))
