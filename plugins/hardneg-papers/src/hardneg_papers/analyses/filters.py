"""Analyses of filters: the candidates that they drop, and how well they find withheld positives."""

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

import hardneg.plugin as hn
from hardneg_papers.analyses.shared import percent, shortened

_SCORE = "score"
_NEVER = ("positive", "duplicate", "repeated")
_LAST_RANKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


class Denoising(hn.Analysis):
    """Show the share of candidates that a filter dropped at each rank, and the highest-scoring dropped candidates.

    Example: hardneg analyze denoising mined/dropped.arrow --queries queries.jsonl --corpus corpus.jsonl --plot d.svg
    """

    name = "denoising"
    title = "dropped candidates by rank"
    explained = (
        "The share of candidates at a rank, except known positives and copies, that were dropped by score; then "
        "counts by reason. Examples are the queries with the highest-scoring dropped documents: a known positive, "
        "the dropped document, and the first selected negative."
    )
    paper = "RocketQA, Figure 5 and Table 4"
    asks = ("queries?", "corpus?")

    negatives: Annotated[
        dict[hn.fields.Name, hn.fields.Name],
        hn.fields.Reference(("negatives",)),
        hn.fields.Option(metavar="DROPPED...", argument=True),
    ] = Field(min_length=1, description="dropped.arrow files, each next to its negatives.arrow.")
    examples: Annotated[int, hn.fields.Option("limit")] = Field(
        5, ge=0, description="Number of queries to print per file."
    )

    def measure(self, inputs: hn.AnalysisInputs) -> dict[str, Any]:
        """Return `filters`, the shares by rank (see `shares`), and `examples`, with texts of at most 300 characters."""
        files = {label: inputs.mined(f"negatives.{label}") for label in self.negatives}
        results = {label: shares(dropped) for label, (dropped, _) in files.items()}
        shown: list[dict[str, Any]] = []
        for label, (dropped, negatives) in files.items():
            if self.examples and not negatives.is_file():
                raise hn.errors.UsageError(
                    f"{negatives}: missing, but examples need it; set {{examples}} 0 to show only shares", "examples"
                )
            cases = examples(dropped, negatives, self.examples) if self.examples else []
            queries = inputs.queries(None) if cases else {}
            documents = [case[name] for case in cases for name in ("positive", "dropped", "kept") if case[name]]
            texts = inputs.texts(list(dict.fromkeys(each["doc_id"] for each in documents)))
            for each in documents:
                each["text"] = texts.get(each["doc_id"], "")[:300]
            shown += [{"filter": label, "text": queries.get(case["query_id"], ""), **case} for case in cases]
        return {"filters": results, "examples": shown}

    def tables(self, results: Any) -> Sequence[hn.Table]:
        """Return a table of shares and, if there are examples, one with their positive, dropped and kept documents."""

        def words(shown: Mapping[str, Any] | None) -> str:
            if shown is None:
                return "–"
            rank = f"rank {shown['rank']} " if shown.get("rank") else ""
            return f"{rank}{shown['doc_id']} {shortened(shown['text'])}".strip()

        rows = []
        for case in results["examples"]:
            asked, score = f"{case['query_id']} {case['text']}".strip(), f"{case['dropped']['score']:.4g}"
            row = [case["filter"], asked, words(case["positive"]), score]
            rows.append([*row, words(case["dropped"]), words(case["kept"])])
        columns = ("filter", "query", "known positive", "score", "dropped", "first negative")
        return [self.table(results), *([hn.Table(columns, rows, 3)] if rows else [])]

    def table(self, results: Any) -> hn.Table:
        """Return a row per filter and range of ranks, with the share dropped by score and counts by reason."""
        reasons = sorted({reason for each in results["filters"].values() for reason in each["dropped"]})
        rows = []
        for label, each in results["filters"].items():
            # 1, 2, 3 to 5, 6 to 10, and so on to the last rank
            ranks = len(each["candidates"])
            lasts = [last for last in _LAST_RANKS if last < ranks] + [ranks] * (ranks > 0)
            bands = list(zip([1, *(last + 1 for last in lasts)], lasts, strict=False))
            for first, last in [*bands, *([(1, ranks)] if len(bands) > 1 else [])]:
                part = slice(first - 1, last)
                candidates = sum(each["candidates"][part])
                dropped = {reason: sum(each["dropped"].get(reason, [])[part]) for reason in {*reasons, *_NEVER, _SCORE}}
                asked = candidates - sum(dropped[reason] for reason in _NEVER)
                share = percent(dropped[_SCORE] / asked if asked > 0 else None)
                at = str(first) if first == last else f"{first}–{last}"
                rows.append([label, at, share, f"{candidates:,}", *(f"{dropped[reason]:,}" for reason in reasons)])
        return hn.Table(("filter", "ranks", "dropped by score", "candidates", *reasons), rows)

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """Draw the share dropped by score at each rank, with a line per filter."""
        series: dict[str, hn.figures.Points] = {
            label: [(rank, 100 * share) for rank, share in enumerate(each["filtered"], 1) if share is not None]
            for label, each in results["filters"].items()
        }
        with hn.figures.figure(paths, 1, width=5.4) as (axes,):
            hn.figures.lines(axes, series)
            hn.figures.plain_axes(axes, "candidates dropped by their score", "rank", "share (%)")
            axes.set_ylim(bottom=0)


def shares(dropped: Path) -> dict[str, Any]:
    """Count the candidates in a `dropped.arrow` by rank. Raises ArtifactError if the file is missing or damaged.

    `queries`: the number of queries. By rank: `candidates`, how many queries have one; `dropped`, counts by reason;
    `filtered`, the share dropped by score, excluding known positives and copies, None without candidates.

    Source: RocketQA (Qu et al., NAACL 2021), figure 5.
    """
    queries, looked_at, counts = 0, np.zeros(1, np.int64), dict[str, NDArray[np.int64]]()

    def added(total: NDArray[np.int64], more: NDArray[np.int64]) -> NDArray[np.int64]:
        summed = np.zeros(max(len(total), len(more)), np.int64)
        summed[: len(total)] += total
        summed[: len(more)] += more
        return summed

    for batch in hn.negatives_files.drop_batches(dropped):
        queries += batch.num_rows
        looked_at = added(looked_at, np.bincount(batch.column("candidates").to_numpy()))
        reasons = batch.column("reasons").flatten().dictionary_encode()
        ranks, codes = batch.column("ranks").flatten().to_numpy(), reasons.indices.to_numpy()
        for code, reason in enumerate(reasons.dictionary.to_pylist()):
            counts[reason] = added(counts.get(reason, np.zeros(1, np.int64)), np.bincount(ranks[codes == code]))
    candidates = looked_at[::-1].cumsum()[::-1][1:]
    by_reason = {reason: added(counted, 0 * looked_at)[1:] for reason, counted in counts.items()}
    aside = sum((by_reason[name] for name in _NEVER if name in by_reason), 0 * candidates)
    by_score = by_reason.get(_SCORE, 0 * candidates)
    pairs = zip(by_score.tolist(), (candidates - aside).tolist(), strict=True)
    return {
        "queries": queries,
        "candidates": candidates.tolist(),
        "dropped": {reason: counted.tolist() for reason, counted in by_reason.items()},
        "filtered": [count / asked if asked > 0 else None for count, asked in pairs],
    }


def examples(dropped: Path, negatives: Path, count: int) -> list[dict[str, Any]]:
    """Return the `count` queries that kept negatives and have the highest-scoring dropped candidates, best first.

    Each has `query_id` and documents without text: `positive`, a known positive or None; `dropped`, the best of those
    dropped by score, with rank and score; `kept`, the first selected negative, with rank (None if unknown).

    Args:
        dropped: a `dropped.arrow`.
        negatives: the `negatives.arrow` of the same queries.
        count: the number of queries to show.

    Raises:
        ArtifactError: a file is missing or damaged, or the files have different numbers of queries.

    Source: RocketQA (Qu et al., NAACL 2021), table 4.
    """
    mined, start = hn.negatives_files.read_negatives(negatives), 0
    best: list[tuple[float, int, dict[str, Any]]] = []
    batches = hn.negatives_files.drop_batches(dropped)
    if sum(batch.num_rows for batch in batches) != len(mined):
        raise hn.errors.ArtifactError(f"{dropped}: not the queries of {negatives}; give both files of one mining run")
    for batch in batches:
        for row, entry in _most_confident(batch, count):
            item = mined[start + row]
            doc_ids, ranks, scores, chosen = (
                batch.column(name)[row] for name in ("doc_ids", "ranks", "scores", "chosen")
            )
            score = float(scores[entry].as_py())
            case: dict[str, Any] = {
                "query_id": batch.column("query_id")[row].as_py(),
                "positive": {"doc_id": item.positives[0]} if item.positives else None,
                "dropped": {"doc_id": doc_ids[entry].as_py(), "rank": ranks[entry].as_py(), "score": score},
                "kept": {"doc_id": item.negatives[0], "rank": chosen[0].as_py() or None},
            }
            best.append((-score, start + row, case))
        best = heapq.nsmallest(count, best)
        start += batch.num_rows
    return [example for _, _, example in best]


def _most_confident(batch: pa.RecordBatch, count: int) -> Iterator[tuple[int, int]]:
    """Return the best `count` rows with negatives, each with its highest-scoring dropped entry."""
    scores, reasons = (batch.column(name).flatten() for name in ("scores", "reasons"))
    by_score = np.flatnonzero(reasons.to_numpy(zero_copy_only=False) == _SCORE)
    starts = batch.column("doc_ids").offsets.to_numpy()
    chosen = batch.column("chosen").value_lengths().to_numpy()
    seen: set[int] = set()
    for entry in by_score[np.argsort(-scores.to_numpy()[by_score], stable=True)].tolist():
        row = int(np.searchsorted(starts, entry, "right")) - 1
        if chosen[row] and row not in seen:
            seen.add(row)
            yield row, entry - int(starts[row])
        if len(seen) == count:
            return


Thresholds = Mapping[str, Sequence[float]]
"""The thresholds to try, by the name of the miner that filters."""

THRESHOLDS: dict[str, tuple[float, ...]] = {
    "denoised": (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.99),
    "pos-margin": (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9),
    "pos-percent": (1.0, 0.99, 0.95, 0.9, 0.8, 0.7, 0.5, 0.3, 0.1),
}
_QUERIES = 4096


def _known_filters(thresholds: dict[str, tuple[float, ...]]) -> dict[str, tuple[float, ...]]:
    for name in thresholds:
        if name not in hn.FILTER_RULES:
            there = f"{hn.records.suggestion(name, hn.FILTER_RULES)}; available: {', '.join(hn.FILTER_RULES)}"
            raise ValueError(f"no filter {name!r}{there}")
    return thresholds


FilterThresholds = Annotated[
    dict[hn.fields.Name, Annotated[tuple[float, ...], Field(min_length=1)]],
    AfterValidator(_known_filters),
    hn.fields.Option("threshold", metavar="FILTER=VALUE"),
]

Planted = tuple[hn.Candidates, Collection[str]]
"""The candidates of a query, whose first list is filtered, and the ids of its hidden positives."""


class FalseNegativeRecall(hn.Analysis):
    """Evaluate filters by how many withheld positives, and how many other documents, they remove.

    With plain files, copies of documents are not recognised. Queries without known positives are left out.

    Example: hardneg analyze false-negative-recall --run dense.trec.gz --qrels known.txt --withheld hidden.txt
    """

    name = "false-negative-recall"
    title = "hidden positives"
    asks = ("qrels", "withheld")
    drawn, across = slice(2, 4), 4

    run: Annotated[hn.fields.Name, hn.fields.Reference(("run",))] = Field(description="The TREC run to filter.")
    scores: Annotated[
        dict[hn.fields.Name, hn.fields.Name], hn.fields.Reference(("run",)), hn.fields.Option("filter-by")
    ] = Field(default_factory=dict, description="A TREC run with the scores to filter by; by default, the run itself.")
    thresholds: FilterThresholds = Field(THRESHOLDS, description="Thresholds to try; by default, a grid.")
    depth: int = Field(50, gt=0, description="Number of top documents to filter.")
    split: Annotated[hn.fields.Name, hn.fields.Option("-")] = "train"

    def missing(self, collection: Mapping[str, Any]) -> Iterator[str]:
        """Yield a problem if the dataset withholds no positives, or none in the split."""
        withheld = collection.get("withheld", {})
        if not withheld.get("judgements"):
            yield f"{self.name}: this dataset withholds no judgements; add `withheld` to it, or remove {self.name}"
        elif self.split not in (hidden := withheld.get("hidden", {self.split: 1})):  # not recorded by earlier stores
            there = ", ".join(hidden) or "none; raise dataset.withheld.positives"
            yield f"{self.name}.split: no positives of split {self.split} are hidden; available: {there}"

    def measure(self, inputs: hn.AnalysisInputs) -> dict[str, Any]:
        """Return recall, precision and the share kept, by filter and threshold; see `false_negative_recall`."""
        paths = {"": "run", **{label: f"scores.{label}" for label in self.scores}}
        labels = list(self.scores) or [""]
        results = false_negative_recall(self._queries(inputs, paths), labels, self.thresholds, self.depth)
        if not self.scores:
            results["scores"] = {inputs.label("run"): results["scores"][""]}
        return {"split": self.split, **results}

    def _queries(self, inputs: hn.AnalysisInputs, paths: Mapping[str, str]) -> Iterator[Planted]:
        """Yield queries with known positives and their lists; copies of withheld positives count as withheld."""
        query_ids, known, hidden = inputs.query_ids("run", self.split), inputs.relevant(), inputs.withheld()
        streams = [inputs.lists(path, query_ids) for path in paths.values()]
        for query_id, *lists in zip(query_ids, *streams, strict=True):
            if query_id in known:
                hits = dict(zip(paths, lists, strict=True))
                duplicates = frozenset(inputs.copies(known[query_id])).difference(known[query_id])
                candidates = hn.Candidates(query_id, known[query_id], hits, (), duplicates)
                yield candidates, frozenset(inputs.copies(hidden.get(query_id, ())))

    def table(self, results: Any) -> hn.Table:
        rows = [
            [f"{name} by {label}", f"{point['threshold']:g}"]
            + [percent(point[share]) for share in ("recall", "precision", "kept")]
            + [f"{point['removed']:,}"]
            for label, each in results["scores"].items()
            for name, points in each["filters"].items()
            for point in points
        ]
        return hn.Table(("filter", "threshold", "hidden removed", "precision", "true negatives kept", "removed"), rows)

    def explain(self, results: Any) -> str:
        hidden, candidates, lost = (
            " or ".join(f"{count:,}" for count in sorted({each[name] for each in results["scores"].values()}))
            for name in ("hidden", "candidates", "queries with no scored positive")
        )
        return (
            f"{hidden} hidden positives among {candidates} scored candidates: {results['queries']:,} queries of split "
            f"{results['split']}, top {results['depth']}. Precision is the share of hidden positives among the removed "
            "documents; unlabelled positives count against it. Queries without a scored positive, for which filters "
            f"that compare with positives keep no candidates: {lost}."
        )


def false_negative_recall(
    queries: Iterable[Planted], labels: Sequence[str], thresholds: Thresholds, depth: int
) -> dict[str, Any]:
    """Evaluate filters on the first `depth` documents per query, without known positives and their copies.

    Candidates without a score are left out and counted. If the known positives of a query have no score, filters that
    compare with them drop all its candidates, and the query is counted.

    Args:
        queries: the queries, read once.
        labels: keys of the candidates' `hits`, for the lists with the scores to filter by.
        thresholds: the thresholds by filter.
        depth: the last rank to use.

    Returns:
        Counts and, in `scores` by label, counts and `filters`: for each filter, a point per threshold. `removed`: the
        number of removed candidates. `recall`: the share of hidden positives removed. `precision`: the share of hidden
        positives among the removed candidates. `kept`: the share of other candidates (true negatives) kept. A share is
        None if its denominator is 0.
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
                dropped = ~hn.FILTER_RULES[name](threshold)(scores, positive)
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
    """Return each scored candidate's score, its query's lowest positive score, and whether it is withheld."""
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
