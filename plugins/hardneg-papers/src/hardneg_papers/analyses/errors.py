"""Pairwise errors of indexes and runs: the negatives above each positive, in the whole corpus and within the top K.

A query's negatives are all documents but its known positives and the copies of these that are known.
Source: STAR/ADORE (Zhan et al., SIGIR 2021), sections 4.1 and 4.2, equations 3 to 6.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from hardneg.plugin import Analysis, AnalysisInputs, Option, Runs, Table, UsageError, figures
from hardneg_papers.analyses.shared import Encoders, Indexes, Pass, corpus_pass

Rows = NDArray[np.int64]


CUT = 200
"""K of table 1: as deep as negatives are chosen from."""

_NAMED = ("indexes", "queries", "models", "runs")


class Errors(Analysis):
    """Count the negatives above each positive: in the whole corpus (an index), and within the top K.

    Example: hardneg analyze errors --qrels qrels.txt --index FOLDER --queries queries.jsonl --model NAME
    """

    name = "errors"
    title = "pairwise errors"
    explained = (
        "Negatives above a positive, summed over a query's positives: in the whole corpus, and within the top K "
        "negatives; means over queries. Copies of positives are neither positives nor negatives. "
        "≥: some positives are below what the run lists."
    )
    paper = "STAR/ADORE, Table 1 and Figure 3"
    asks = ("qrels", "queries?", "relevance_level", "device")

    indexes: Indexes = Field(default_factory=dict, description="A dense index folder; needs queries and a model.")
    models: Encoders = Field(default_factory=dict, description="The model that encodes the queries of the index.")
    runs: Runs = Field(default_factory=dict, description="A TREC run: its top-K errors.")
    depth: Annotated[int, Option("depth")] = Field(
        CUT, gt=0, description="K: how many negatives the top-K errors look at."
    )

    @model_validator(mode="after")
    def _complete(self) -> "Errors":
        if not (self.indexes or self.runs):
            raise ValueError("give indexes, or runs, or both")
        if unknown := sorted(set(self.models) - set(self.indexes)):
            message = f"no index is labelled {', '.join(unknown)}"
            raise ValueError(f"{message}; indexes has {', '.join(self.indexes) or 'none'}")
        if both := sorted(set(self.indexes) & set(self.runs)):
            raise ValueError(f"{', '.join(both)} labels an index and a run: give each a label of its own")
        return self

    @classmethod
    def arranged(cls, values: Mapping[str, Any], types: Mapping[str, str]) -> Mapping[str, Any]:
        indexes, models = values.get("indexes", {}), list(values.get("models", {}).values())
        if not (indexes or values.get("runs")):
            raise UsageError(
                "analyze errors: give {indexes} (with {queries} and {models}), or {runs}, or both", *_NAMED
            )
        if len(models) != len(indexes):
            raise UsageError(
                "analyze errors: {indexes} needs {queries} and {models}, which encodes them; give one of each", *_NAMED
            )
        return {**values, "models": dict(zip(indexes, models, strict=True))}

    def measure(self, inputs: AnalysisInputs) -> dict[str, Any]:
        """The errors by label: total and top-K ones of an index, top-K ones of a run.

        Copies of positives, and what another split or a lower grade calls relevant, are no negatives.
        """
        positives, relevant = inputs.positives(), inputs.relevant()
        aside = {name: inputs.copies([*ids, *relevant.get(name, ())]) for name, ids in positives.items()}
        results = {label: self._of_index(inputs, label, positives, aside) for label in self.indexes}
        for label in self.runs:
            lists = ((query_id, each.doc_ids) for query_id, each in inputs.stream(f"runs.{label}"))
            results[label] = errors_in_run(lists, positives, self.depth, aside)
        return {label: to_json(each) for label, each in results.items()}

    def _of_index(
        self,
        inputs: AnalysisInputs,
        label: str,
        positives: Mapping[str, Sequence[str]],
        aside: Mapping[str, Sequence[str]],
    ) -> "PairwiseErrors":

        queries = inputs.queries(inputs.split)
        if not queries:
            raise UsageError("analyze errors: {indexes} needs {queries} and {models}, which encodes them", *_NAMED)
        query_ids = [query_id for query_id in queries if query_id in positives]
        system = inputs.system(f"indexes.{label}", f"models.{label}")
        vectors = system.encode([queries[query_id] for query_id in query_ids])
        wanted = list(dict.fromkeys(doc_id for query_id in query_ids for doc_id in aside[query_id]))
        row_of = dict(zip(wanted, system.rows(wanted).tolist(), strict=True))

        def rows(doc_ids: Sequence[str]) -> Rows:
            return np.array([row_of[doc_id] for doc_id in doc_ids], np.int64)

        def others(query_id: str, own: Rows) -> Rows:
            rows_aside = rows(aside[query_id])
            return rows_aside[rows_aside >= 0]

        corpus = corpus_pass(system.searcher, len(system.doc_ids))
        return errors_in_index(corpus, query_ids, vectors, Relevant(positives, rows, others), self.depth, system.device)

    def table(self, results: Any) -> Table:
        rows = [
            [
                label,
                "unknown" if each["total_errors"] is None else f"{each['total_errors']:,.2f}",
                f"{'≥ ' if each['at_least'] else ''}{each['top_errors']:,.2f}",
                f"{each['cut']:,}",
                f"{each['queries']:,}",
                f"{each['at_least']:,} positives" if each["at_least"] else "–",
                "; ".join(f"{count:,} {reason}" for reason, count in each["left_out"].items()) or "–",
            ]
            for label, each in results.items()
        ]
        return Table(("system", "total errors", "top-K errors", "K", "queries", "lower bound for", "left out"), rows)

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """One panel a system: bars are the share of queries by number of errors, the line their share of all errors."""
        shown = {label: [Bucket(**bucket) for bucket in each["distribution"]] for label, each in results.items()}
        names = max(([bucket.label for bucket in buckets] for buckets in shown.values()), key=len, default=[])
        with figures.figure(paths, max(1, len(shown))) as panels:
            for axes, (label, buckets) in zip(panels, shown.items(), strict=False):
                _panel(axes, label, buckets)
                axes.set_xticks(range(len(names)), names, rotation=30, ha="right", fontsize=8)


@dataclass(frozen=True)
class PairwiseErrors:
    """Errors of each query, summed over its positives.

    positives, top: int64 [Q]; total: int64 [Q], None where only a run's top is known. cut: K.
    at_least: positives that a run lacks and whose errors may be more than its list shows (they count in `top` with
    the negatives of the list). left_out: what does not count, by reason.
    """

    query_ids: Sequence[str]
    positives: NDArray[np.int64]
    top: NDArray[np.int64]
    total: NDArray[np.int64] | None
    cut: int = CUT
    at_least: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)


def by_query(
    query_ids: Sequence[str], query_rows: NDArray[np.int64], errors: NDArray[np.int64], cut: int = CUT
) -> PairwiseErrors:
    """The errors of positives, int64 [positives], summed by query; of each positive at most `cut` are top-K errors.

    query_rows: int64 [positives], the row of each one's query.

    Source: equations 5 (total) and 6 (top K).
    """
    total, top = np.zeros(len(query_ids), np.int64), np.zeros(len(query_ids), np.int64)
    np.add.at(total, query_rows, errors)
    np.add.at(top, query_rows, np.minimum(errors, cut))
    return PairwiseErrors(query_ids, np.bincount(query_rows, minlength=len(query_ids)), top, total, cut)


def errors_in_run(
    lists: Iterable[tuple[str, Sequence[str]]],
    positives: Mapping[str, Collection[str]],
    cut: int = CUT,
    copies: Mapping[str, Collection[str]] | None = None,
) -> PairwiseErrors:
    """The errors within the top `cut` negatives of each query that has positives and a list.

    A positive that a list lacks stands below all of it. Where that list holds fewer than `cut` negatives the errors are
    a lower bound, which is counted in `at_least`.

    Args:
        lists: a query id and its documents' ids, best first.
        positives: known positives by query; queries without any, or without a list, are counted and left out.
        cut: K.
        copies: by query, copies of positives, which are no negatives.

    Source: STAR/ADORE (Zhan et al., SIGIR 2021), equation 6.
    """
    top, at_least, unjudged = dict[str, int](), 0, 0
    for query_id, doc_ids in lists:
        if query_id not in positives or query_id in top:
            unjudged += 1
            continue
        above, negatives = _above(doc_ids, set(positives[query_id]), set((copies or {}).get(query_id, ())))
        missing = len(positives[query_id]) - len(above)
        top[query_id] = sum(min(count, cut) for count in above) + missing * min(negatives, cut)
        at_least += missing if negatives < cut else 0
    judged = [query_id for query_id in positives if query_id in top]
    left_out = {"queries without positives": unjudged, "queries that the run lacks": len(positives) - len(judged)}
    return PairwiseErrors(
        judged,
        np.array([len(positives[query_id]) for query_id in judged], np.int64),
        np.array([top[query_id] for query_id in judged], np.int64),
        None,
        cut,
        at_least,
        {reason: count for reason, count in left_out.items() if count},
    )


def _above(doc_ids: Sequence[str], positives: set[str], copies: set[str]) -> tuple[list[int], int]:
    """The number of negatives above each positive of a list, and that of all its negatives."""
    above, negatives = [], 0
    for doc_id in doc_ids:
        if doc_id in positives:
            above.append(negatives)
        elif doc_id not in copies:
            negatives += 1
    return above, negatives


@dataclass(frozen=True)
class Bucket:
    """Queries with `low` to `high` errors (both counted), as shares of all queries and of all errors."""

    low: int
    high: int
    queries: float
    errors: float

    @property
    def label(self) -> str:
        """How an axis names it."""
        return f"{self.low:,}" if self.low == self.high else f"{self.low:,}–{self.high:,}"


def distribution(errors: NDArray[np.int64]) -> list[Bucket]:
    """Shares by number of errors: 0, 1 to 9, 10 to 99, ... up to the decade of the largest; errors is int64 [Q].

    Source: STAR/ADORE (Zhan et al., SIGIR 2021), figure 3.
    """
    if not len(errors):
        return []
    edges = [0, *(10**i for i in range(len(str(int(errors.max()))) + 1))]
    if errors.max() == 0:
        edges = [0, 1]
    bucket = np.searchsorted(edges, errors, side="right") - 1
    queries = np.bincount(bucket, minlength=len(edges) - 1) / len(errors)
    summed = np.bincount(bucket, weights=errors, minlength=len(edges) - 1) / max(1, int(errors.sum()))
    return [Bucket(low, high - 1, float(queries[i]), float(summed[i])) for i, (low, high) in enumerate(pairwise(edges))]


def to_json(errors: PairwiseErrors) -> dict[str, Any]:
    """Means over queries, the distribution, and all by query."""
    counts = errors.top if errors.total is None else errors.total
    return {
        "cut": errors.cut,
        "queries": len(errors.query_ids),
        "positives": int(errors.positives.sum()),
        "total_errors": None if errors.total is None else _mean(errors.total),
        "top_errors": _mean(errors.top),
        "at_least": errors.at_least,
        "left_out": dict(errors.left_out),
        "distribution": [asdict(bucket) for bucket in distribution(counts)],
        "per_query": {
            query_id: {"positives": positives, "total": total, "top": top}
            for query_id, positives, total, top in zip(
                errors.query_ids,
                errors.positives.tolist(),
                [None] * len(errors.top) if errors.total is None else errors.total.tolist(),
                errors.top.tolist(),
                strict=True,
            )
        },
    }


def _mean(values: NDArray[np.int64]) -> float:
    return float(values.mean()) if len(values) else 0.0


@dataclass(frozen=True)
class Relevant:
    """What is known of the corpus's documents.

    positives: ids by query. rows: the row of each id, int64 [n], -1 where the corpus lacks it. aside: the rows that
    are neither positives nor negatives of a query beside these positives, given the query's id and its positives'
    rows; None where there are no such.
    """

    positives: Mapping[str, Sequence[str]]
    rows: Callable[[Sequence[str]], Rows]
    aside: Callable[[str, Rows], Rows] | None = None


def errors_in_index(
    corpus: Pass,
    query_ids: Sequence[str],
    queries: NDArray[np.float32],
    relevant: Relevant,
    cut: int = CUT,
    device: str = "cpu",
) -> PairwiseErrors:
    """Total and top-K errors of queries that have positives; positives that the index lacks are counted and left out.

    Args:
        corpus: starts a pass over the vectors.
        query_ids: those of `queries`, float32 [Q, d].
        relevant: positives, and what is neither positive nor negative.
        cut: K.
        device: where to compute.
    """

    counts = [relevant.rows(relevant.positives.get(query_id, ())) for query_id in query_ids]
    there = [rows[rows >= 0] for rows in counts]
    lacking = sum(len(rows) for rows in counts) - sum(len(rows) for rows in there)
    kept = [position for position, rows in enumerate(there) if len(rows)]
    query_ids = [query_ids[position] for position in kept]
    own = [there[position] for position in kept]
    aside = (
        [relevant.aside(query_id, rows) for query_id, rows in zip(query_ids, own, strict=True)]
        if relevant.aside
        else None
    )
    known = known_pairs(own, aside)
    errors = by_query(
        query_ids, known.query[known.positive], errors_of_positives(corpus, queries[kept], known, device), cut
    )
    left_out = {"queries without positives": len(counts) - len(kept), "positives that the index lacks": lacking}
    return replace(errors, left_out={reason: count for reason, count in left_out.items() if count})


@dataclass(frozen=True)
class Known:
    """Pairs of a query and a document that is no negative of it, each pair once.

    query: int64 [P], query numbers, ascending. row: int64 [P], row numbers of the corpus.
    positive: bool [P]; false for a copy of a positive, which is neither positive nor negative.
    """

    query: NDArray[np.int64]
    row: NDArray[np.int64]
    positive: NDArray[np.bool_]


def known_pairs(positives: Sequence[NDArray[np.int64]], copies: Sequence[NDArray[np.int64]] | None = None) -> Known:
    """The pairs of Q queries from their positives' rows, and their copies' rows where those are known: int64 [n] each.

    A row that is both is a positive.
    """
    rows, marks = [], []
    for query_number, positive_rows in enumerate(positives):
        own = np.unique(positive_rows)
        others = np.setdiff1d(copies[query_number], own) if copies is not None else own[:0]
        rows.append(np.concatenate([own, others]).astype(np.int64))
        marks.append(np.arange(len(own) + len(others)) < len(own))
    query = np.repeat(np.arange(len(rows)), [len(part) for part in rows])
    if not rows:
        return Known(query, np.empty(0, np.int64), np.empty(0, np.bool_))
    return Known(query, np.concatenate(rows), np.concatenate(marks))


def errors_of_positives(
    corpus: Pass, queries: NDArray[np.float32], known: Known, device: str = "cpu"
) -> NDArray[np.int64]:
    """The negatives above each positive, in the order of `known`, copies skipped; ties by ascending row.

    Args:
        corpus: starts a pass over the vectors: `functools.partial(vector_blocks, vectors, 4096)`. It is read twice;
            no more than a block and its scores are held.
        queries: float32 [Q, d].
        known: the pairs that are no negatives.
        device: where to compute.

    Returns:
        int64 [positives]: pi(d+) - delta(d+) - 1 of equation 3.
    """
    from hardneg.plugin import exact_ranks

    score = exact_ranks.pair_scores(corpus, queries, known.query, known.row, device)
    order = np.lexsort((known.row, -score, known.query))
    first = np.searchsorted(known.query, known.query[order])
    known_above = np.empty(len(order), np.int64)
    known_above[order] = np.arange(len(order)) - first
    chosen = known.positive
    pairs = known.query[chosen], known.row[chosen], score[chosen]
    return exact_ranks.counts_above(corpus, queries, pairs, device) - known_above[chosen]


def _panel(axes: Any, label: str, buckets: Sequence[Bucket]) -> None:
    positions = range(len(buckets))
    axes.bar(positions, [100 * b.queries for b in buckets], color=figures.COLOURS[0], width=0.7, label="of all queries")
    axes.plot(positions, [100 * b.errors for b in buckets], color=figures.COLOURS[1], marker="o", label="of all errors")
    figures.plain_axes(axes, label, "pairwise errors of a query", "share (%)")
    axes.set_ylim(0, 120)
    axes.set_yticks(range(0, 101, 20))
    axes.legend(frameon=False, fontsize=8, ncols=2, loc="upper right")
