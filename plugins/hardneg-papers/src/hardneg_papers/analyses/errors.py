"""Pairwise errors: the negatives ranked above each positive, in a whole index and within the top K.

The negatives of a query are all documents except its known positives and their known copies.
Source: STAR/ADORE (Zhan et al., SIGIR 2021), sections 4.1 and 4.2, equations 3 to 6.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from hardneg.plugin import Analysis, AnalysisInputs, Runs, Table, errors as faults, fields, figures
from hardneg_papers.analyses.shared import Encoders, Indexes, check_model_labels

Rows = NDArray[np.int64]
Pass = Callable[[], Iterable[tuple[int, NDArray[np.float32]]]]
"""A function that starts a pass over a corpus, in blocks of (first row, float32 [n, d]) in row order."""

CUT = 200
"""The default K of top-K errors, as in table 1; negatives are mined to the same depth."""
_NAMED = ("indexes", "queries", "models", "runs")


class Errors(Analysis):
    """Count the negatives ranked above positives, in the whole corpus (with an index) and within the top K.

    Example: hardneg analyze errors --qrels qrels.txt --index FOLDER --queries queries.jsonl --model NAME
    """

    name = "errors"
    title = "pairwise errors"
    explained = (
        "Negatives ranked above a positive, in the whole corpus and within the top K negatives, summed over the "
        "positives of a query; means over queries. Copies of positives are neither positives nor negatives. "
        "≥: some positives are not in the run."
    )
    paper = "STAR/ADORE, Table 1 and Figure 3"
    asks = ("qrels", "queries?", "relevance_level", "device")

    indexes: Indexes = Field(default_factory=dict, description="A dense index folder; requires queries and a model.")
    models: Encoders = Field(default_factory=dict, description="The query encoder of the index.")
    runs: Runs = Field(default_factory=dict, description="A TREC run for top-K errors.")
    depth: Annotated[int, fields.Option("depth")] = Field(CUT, gt=0, description="K of the top-K errors, in negatives.")

    @model_validator(mode="after")
    def _complete(self) -> "Errors":
        if not (self.indexes or self.runs):
            raise ValueError("give indexes, runs, or both")
        check_model_labels(self.indexes, self.models)
        if both := sorted(set(self.indexes) & set(self.runs)):
            raise ValueError(f"{', '.join(both)}: used for an index and a run; use different labels")
        return self

    @classmethod
    def arranged(cls, values: Mapping[str, Any], types: Mapping[str, str]) -> Mapping[str, Any]:
        indexes, models = values.get("indexes", {}), list(values.get("models", {}).values())
        if not (indexes or values.get("runs")):
            raise faults.UsageError(
                "analyze errors: give {indexes} (with {queries} and {models}), {runs}, or both", *_NAMED
            )
        if len(models) != len(indexes):
            raise faults.UsageError(
                "analyze errors: {indexes} needs {queries} and {models}; give one model per index", *_NAMED
            )
        return {**values, "models": dict(zip(indexes, models, strict=True))}

    def measure(self, inputs: AnalysisInputs) -> dict[str, Any]:
        """Return errors by label: total and top-K errors of an index, top-K errors of a run.

        Copies of positives, and documents relevant in another split or at a lower grade, are not negatives.
        """
        positives, relevant = inputs.positives(), inputs.relevant()
        aside = {name: inputs.copies([*ids, *relevant.get(name, ())]) for name, ids in positives.items()}
        results = {label: self._of_index(inputs, label, positives, aside) for label in self.indexes}
        for label in self.runs:
            lists = ((query_id, each.doc_ids) for query_id, each in inputs.stream(f"runs.{label}"))
            results[label] = errors_in_run(lists, positives, self.depth, aside)
        return results

    def _of_index(
        self,
        inputs: AnalysisInputs,
        label: str,
        positives: Mapping[str, Sequence[str]],
        aside: Mapping[str, Sequence[str]],
    ) -> dict[str, Any]:
        from hardneg.plugin import exact_ranks  # torch is slow to import

        queries = inputs.queries(inputs.split)
        if not queries:
            raise faults.UsageError("analyze errors: {indexes} needs {queries} and {models} to encode them", *_NAMED)
        asked = [query_id for query_id in queries if query_id in positives]
        system = inputs.system(f"indexes.{label}", f"models.{label}")
        wanted = list(dict.fromkeys(doc_id for query_id in asked for doc_id in aside[query_id]))
        row_of = {doc_id: row for doc_id, row in zip(wanted, system.rows(wanted).tolist(), strict=True) if row >= 0}
        own, others = (
            {
                query_id: np.array([row_of[name] for name in ids[query_id] if name in row_of], np.int64)
                for query_id in asked
            }
            for ids in (positives, aside)
        )
        kept = [query_id for query_id in asked if len(own[query_id])]
        total, top = errors_in_index(
            exact_ranks.corpus_pass(system.searcher, len(system.doc_ids)),
            system.encode([queries[query_id] for query_id in kept]),
            [own[query_id] for query_id in kept],
            [others[query_id] for query_id in kept],
            self.depth,
            system.device,
        )
        lacking = sum(len(positives[query_id]) - len(own[query_id]) for query_id in asked)
        left_out = {"queries without positives": len(asked) - len(kept), "positives that the index lacks": lacking}
        counts = {query_id: len(own[query_id]) for query_id in kept}
        return _results(counts, top.tolist(), total.tolist(), cut=self.depth, left_out=left_out)

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
        """Draw a panel per system: by errors per query, the share of queries as bars and of all errors as a line."""
        longest: list[Any] = max((each["distribution"] for each in results.values()), key=len, default=[])
        ends = [(f"{bucket['low']:,}", f"{bucket['high']:,}") for bucket in longest]
        names = [low if low == high else f"{low}–{high}" for low, high in ends]
        with figures.figure(paths, max(1, len(results))) as panels:
            for axes, (label, each) in zip(panels, results.items(), strict=False):
                queries, errors = ([100 * part[of] for part in each["distribution"]] for of in ("queries", "errors"))
                axes.bar(range(len(queries)), queries, color=figures.COLOURS[0], width=0.7, label="of all queries")
                axes.plot(range(len(errors)), errors, color=figures.COLOURS[1], marker="o", label="of all errors")
                figures.plain_axes(axes, label, "pairwise errors of a query", "share (%)")
                axes.set_ylim(0, 120)
                axes.set_yticks(range(0, 101, 20))
                axes.legend(frameon=False, fontsize=8, ncols=2, loc="upper right")
                axes.set_xticks(range(len(names)), names, rotation=30, ha="right", fontsize=8)


def errors_in_run(
    lists: Iterable[tuple[str, Sequence[str]]],
    positives: Mapping[str, Collection[str]],
    cut: int = CUT,
    copies: Mapping[str, Collection[str]] | None = None,
) -> dict[str, Any]:
    """Count errors within the top `cut` negatives of each query that has positives and a list.

    A positive missing from a list counts as ranked below all of its documents. If the list has fewer than `cut`
    negatives, its errors are a lower bound, and `at_least` counts the positive. Queries without positives, or without a
    list, are left out and counted. The result has the form of `Errors.measure` for one label, without total errors.

    Args:
        lists: pairs of a query id and its document ids, best first.
        positives: known positives by query.
        cut: the K of top-K errors.
        copies: copies of positives by query, which are not negatives.

    Source: STAR/ADORE (Zhan et al., SIGIR 2021), equation 6.
    """
    found, at_least, unjudged = dict[str, int](), 0, 0
    for query_id, doc_ids in lists:
        if query_id not in positives or query_id in found:
            unjudged += 1
            continue
        own, aside = set(positives[query_id]), set((copies or {}).get(query_id, ()))
        above, negatives = [], 0
        for doc_id in doc_ids:
            if doc_id in own:
                above.append(negatives)
            elif doc_id not in aside:
                negatives += 1
        missing = len(positives[query_id]) - len(above)
        found[query_id] = sum(min(count, cut) for count in above) + missing * min(negatives, cut)
        at_least += missing if negatives < cut else 0
    counts = {query_id: len(own) for query_id, own in positives.items() if query_id in found}
    left_out = {"queries without positives": unjudged, "queries that the run lacks": len(positives) - len(counts)}
    return _results(counts, [found[name] for name in counts], None, cut=cut, at_least=at_least, left_out=left_out)


def _results(
    positives: Mapping[str, int], top: list[int], total: list[int] | None, *, cut: int, left_out: Any, at_least: int = 0
) -> dict[str, Any]:
    """Summarize errors: means over queries, distribution, and values by query; positives: counts by query."""
    totals: Sequence[int | None] = total or [None] * len(top)
    by_query = zip(positives.items(), totals, top, strict=True)
    return {
        "cut": cut,
        "queries": len(positives),
        "positives": sum(positives.values()),
        "total_errors": None if total is None else sum(total) / max(1, len(total)),
        "top_errors": sum(top) / max(1, len(top)),
        "at_least": at_least,
        "left_out": {reason: count for reason, count in left_out.items() if count},
        "distribution": distribution(top if total is None else total),
        "per_query": {name: {"positives": own, "total": all_, "top": few} for (name, own), all_, few in by_query},
    }


def distribution(errors: Sequence[int]) -> list[dict[str, Any]]:
    """Return the distribution of errors per query, in bins (0, 1 to 9, 10 to 99, and so on); empty without queries.

    Each bin has inclusive bounds `low` and `high`, and its shares of all `queries` and of all `errors`.

    Source: STAR/ADORE (Zhan et al., SIGIR 2021), figure 3.
    """
    if not len(errors):
        return []
    largest = max(errors)
    edges = [0, *(10**i for i in range(len(str(largest)) + 1))] if largest else [0, 1]
    bucket = np.searchsorted(edges, errors, side="right") - 1
    queries = np.bincount(bucket, minlength=len(edges) - 1) / len(errors)
    summed = np.bincount(bucket, weights=errors, minlength=len(edges) - 1) / max(1, sum(errors))
    shares = zip(pairwise(edges), queries.tolist(), summed.tolist(), strict=True)
    return [{"low": low, "high": high - 1, "queries": some, "errors": part} for (low, high), some, part in shares]


def errors_in_index(
    corpus: Pass,
    queries: NDArray[np.float32],
    positives: Sequence[Rows],
    aside: Sequence[Rows],
    cut: int = CUT,
    device: str = "cpu",
) -> tuple[Rows, Rows]:
    """Return the total errors and the top-K errors of each query, int64 [Q] each; ties rank by ascending row.

    Args:
        corpus: starts a pass over the vectors, which are read twice; only one block and its scores are in memory.
        queries: float32 [Q, d].
        positives: the rows of each query's positives.
        aside: for each query, the rows of other documents that are not negatives; may include positives.
        cut: the K of top-K errors.
        device: the device to compute on.

    Source: equations 3 (pi(d+) - delta(d+) - 1), 5 (total) and 6 (top K).
    """
    from hardneg.plugin import exact_ranks

    own = [np.unique(rows) for rows in positives]
    known = [np.concatenate([rows, np.setdiff1d(others, rows)]) for rows, others in zip(own, aside, strict=True)]
    query = np.repeat(np.arange(len(known)), np.array([len(rows) for rows in known], np.int64))
    row = np.concatenate([np.empty(0, np.int64), *known]).astype(np.int64)
    marks = [np.arange(len(rows)) < len(mine) for rows, mine in zip(known, own, strict=True)]
    positive = np.concatenate([np.empty(0, np.bool_), *marks])
    score = exact_ranks.pair_scores(corpus, queries, query, row, device)
    order = np.lexsort((row, -score, query))
    known_above = np.empty(len(order), np.int64)
    known_above[order] = np.arange(len(order)) - np.searchsorted(query, query[order])
    pairs = query[positive], row[positive], score[positive]
    errors = exact_ranks.counts_above(corpus, queries, pairs, device) - known_above[positive]
    total, top = np.zeros((2, len(queries)), np.int64)
    np.add.at(total, pairs[0], errors)
    np.add.at(top, pairs[0], np.minimum(errors, cut))
    return total, top
