"""Effectiveness of a run by query, with the same values as trec_eval to the last digit.

A metric's name is `measure@cutoff` or, for the whole list, `measure`; the measures are the keys of `MEASURES`.
Queries without a relevant document score 0 and count in the mean, as in trec_eval; queries missing from the run score
0 too (trec_eval -c). `run_notes` and `judgement_notes` report such queries.
"""

import difflib
import math
import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.qrels import Qrels
from hardneg.formats.runs import EMPTY, Run
from hardneg.records import UsageError, counted, joined
from hardneg.runtime.ranx_uncompiled import ranx_uncompiled

MEASURES: Mapping[str, str] = {
    "ndcg": "ndcg",
    "mrr": "reciprocal_rank",
    "recall": "recall",
    "map": "average_precision",
    "precision": "precision",
    "hit_rate": "hit_rate",
}
"""The function in `ranx.metrics` for each measure, called with judgements, ranked lists, cutoff and relevance level."""

Scores = dict[str, dict[str, float]]
"""Scores by metric name, then by query id."""
_NAME = re.compile(r"answer@([1-9][0-9]{0,8})")


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; a cutoff of 0 means the whole ranked list."""

    measure: str
    cutoff: int = 0

    @property
    def name(self) -> str:
        """The metric's name with its cutoff, if any, as `parse_metrics` reads it."""
        return f"{self.measure}@{self.cutoff}" if self.cutoff else self.measure

    @property
    def graded(self) -> bool:
        """Whether the metric uses grades and ignores the relevance level."""
        return self.measure == "ndcg"


def parse_metrics(names: Sequence[str]) -> list[Metric]:
    """Return the metrics with the given names, without duplicates, in the order given.

    Raises:
        UsageError: `names` is empty, or has unknown or malformed names; the message covers all of them.
    """
    if not names:
        raise UsageError("no metric given; try ndcg@10")
    parsed = [_parse(name) for name in names]
    if problems := [problem for problem in parsed if isinstance(problem, str)]:
        raise UsageError("; ".join(problems))
    return list(dict.fromkeys(metric for metric in parsed if isinstance(metric, Metric)))


def is_metric(name: str) -> bool:
    """Return whether `name` is a metric that `parse_metrics` accepts; `answer@k` is not."""
    return isinstance(_parse(name), Metric)


def evaluate(run: Run, qrels: Qrels, metrics: Sequence[str], relevance_level: int = 1) -> Scores:
    """Return the scores of every query in the qrels, by metric and query; queries only in the run are skipped.

    The gain of nDCG is the grade itself, as in trec_eval. `relevance_level` is the lowest grade that counts as relevant
    in the other, binary, measures (trec_eval -l).

    Raises:
        UsageError: a metric is unknown, the qrels are empty, or the level is below 1.

    Source: Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR techniques", TOIS 2002 (nDCG).
    """
    parsed = parse_metrics(metrics)
    if not qrels:
        raise UsageError("the qrels have no queries")
    if relevance_level < 1:
        raise UsageError(f"relevance level {relevance_level}: must be at least 1")
    with ranx_uncompiled("evaluation"), warnings.catch_warnings():
        from ranx import metrics as ranx_metrics

        warnings.filterwarnings("ignore", message=r"(?s).*unsafe cast", category=Warning)
        judged, ranked = _as_arrays(run, qrels)
        scores: Scores = {}
        for metric in parsed:
            function, level = getattr(ranx_metrics, MEASURES[metric.measure]), 1 if metric.graded else relevance_level
            values = map(float, function(judged, ranked, metric.cutoff, level))
            scores[metric.name] = dict(zip(qrels, values, strict=True))
        return scores


def means(scores: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each metric over the queries."""
    return {name: math.fsum(values.values()) / len(values) for name, values in scores.items()}


def mean_of(metric: str, qrels: Qrels, relevance_level: int, run: Run) -> float:
    """Return a run's mean of one metric over the judged queries."""
    return means(evaluate(run, qrels, [metric], relevance_level))[metric]


def ranked_metrics(ranked: NDArray[np.int64], gains: NDArray[np.int64], query: NDArray[np.int64]) -> dict[str, float]:
    """Return the means of `mrr@10`, `ndcg@10` and `recall@100` over Q queries, each with a relevant document.

    This version for arrays is used during training, since ranx needs lists.

    ranked: int64 [Q, k], the gain of each retrieved document, best first, 0 if not relevant. gains: int64 [J], the
    gains of all J relevant documents; query: int64 [J], the query of each, from 0 to Q - 1.
    """
    ranked = ranked[:, :100]
    top = ranked[:, :10]
    first = np.where((top > 0).any(axis=1), 1 / (1 + (top > 0).argmax(axis=1)), 0.0)
    total = np.bincount(query, minlength=len(ranked))
    order = np.lexsort((-gains, query))
    rank = np.arange(len(order)) - np.repeat(np.cumsum(total) - total, total)
    best = np.where(rank < 10, gains[order] / np.log2(rank + 2), 0.0)
    ideal = np.bincount(query[order], best, minlength=len(ranked))
    gained = (top / np.log2(np.arange(top.shape[1]) + 2)).sum(axis=1)
    return {
        "mrr@10": float(first.mean()),
        "ndcg@10": float((gained / ideal).mean()),
        "recall@100": float(((ranked > 0).sum(axis=1) / total).mean()),
    }


def _parse(name: str) -> Metric | str:
    """Parse the name of a metric; return an error in one line if it is invalid."""
    measure, at, cutoff = name.partition("@")
    if measure == "answer":
        return f"metric '{name}': only for recipes whose dataset has answers, and with a cutoff, as in answer@20"
    if measure in MEASURES and not at:
        return Metric(measure)
    if measure in MEASURES and re.fullmatch(r"[1-9][0-9]{0,8}", cutoff):
        return Metric(measure, int(cutoff))
    if measure in MEASURES:
        return f"metric '{name}': the cutoff must be a whole number above 0, as in {measure}@10"
    words = {measure: measure for measure in MEASURES} | {"success": "hit_rate", "accuracy": "hit_rate"}
    close = [words[word] for word in difflib.get_close_matches(measure.lower(), words, n=1, cutoff=0.5)]
    number = re.sub(r"[^0-9]", "", cutoff or name) or "10"
    hint = f"did you mean {close[0]}@{number}?" if close else f"available: {', '.join(MEASURES)}, with @cutoff"
    return f"unknown metric '{name}'; {hint}"


def _as_arrays(run: Run, qrels: Qrels) -> tuple[Any, Any]:
    """Return judged and ranked documents by query of the qrels in ranx's form: float64 [n, 2], number and score.

    Documents are numbered within their query; unjudged ones are -1. Scores of ranked documents encode their order.
    """
    from numba.typed import List

    judged, ranked = List(), List()
    for query_id, grades in qrels.items():
        best_first = sorted(grades, key=grades.__getitem__, reverse=True)
        numbers = {doc_id: number for number, doc_id in enumerate(best_first)}
        judged.append(_pairs(range(len(best_first)), [grades[doc_id] for doc_id in best_first]))
        doc_ids = run[query_id].doc_ids if query_id in run else ()
        ranked.append(_pairs([numbers.get(doc_id, -1) for doc_id in doc_ids], range(len(doc_ids), 0, -1)))
    return judged, ranked


def _pairs(numbers: Sequence[int], scores: Sequence[int]) -> NDArray[np.float64]:
    pairs = np.empty((len(numbers), 2), np.float64)
    pairs[:, 0], pairs[:, 1] = numbers, scores
    return pairs


def answer_cutoffs(names: Iterable[str]) -> dict[str, int]:
    """Return the cutoff of each name of the form `answer@k`; other names are skipped."""
    return {name: int(match[1]) for name in names if (match := _NAME.fullmatch(name))}


def answer_coverage(run: Run, answers: Any, query_ids: Sequence[str], cutoffs: Sequence[int]) -> Scores:
    """Return `answer@k` of each question for each cutoff k: 1 if any of the top k passages contains an answer, else 0.

    Each list is searched, cutoff by cutoff, until a passage with an answer is found. answers: `PassageAnswers`.

    Source: Karpukhin et al., Dense Passage Retrieval for Open-Domain Question Answering (EMNLP 2020), section 5, top-k
    accuracy; Xiong et al., ANCE (ICLR 2021), Table 2, coverage.
    """
    lists = [run.get(query_id, EMPTY).doc_ids for query_id in query_ids]
    first = np.full(len(query_ids), np.inf)  # the rank, from 1, of the first passage with an answer
    depths = sorted(cutoffs)
    for above, cutoff in zip([0, *depths], depths, strict=False):
        open_ = np.flatnonzero(np.isinf(first)).tolist()
        hits = answers.in_lists([query_ids[i] for i in open_], [lists[i][above:cutoff] for i in open_])
        if hits.any():
            first[open_] = np.where(hits.any(1), above + 1 + hits.argmax(1), np.inf)
    return {f"answer@{k}": dict(zip(query_ids, (first <= k).astype(float).tolist(), strict=True)) for k in cutoffs}


def averaged(scores: Sequence[Scores]) -> Scores:
    """Return each query's mean score over seeds, by metric and query. scores: the scores of each seed.

    Raises:
        UsageError: the seeds have different queries.
    """
    if len(scores) == 1:
        return scores[0]
    for name, by_query in scores[0].items():
        if any(other[name].keys() != by_query.keys() for other in scores):
            raise UsageError("the runs of a system's seeds have different queries; search the same split for all")
    return {
        name: {query_id: math.fsum(each[name][query_id] for each in scores) / len(scores) for query_id in by_query}
        for name, by_query in scores[0].items()
    }


def by_system(
    paths: Mapping[str, tuple[str, int | None]], scores: Mapping[str, Scores]
) -> dict[str, dict[int, Scores]]:
    """Return the scores by system and seed, without paths that have no seed. paths: system and seed of each path."""
    systems: dict[str, dict[int, Scores]] = {}
    for path, run_scores in scores.items():
        label, seed = paths[path]
        if seed is not None:
            systems.setdefault(label, {})[seed] = run_scores
    return systems


def run_notes(
    label: str, run: Run, query_ids: Qrels | Collection[str], metrics: Sequence[str], documents: int | None = None
) -> list[str]:
    """Return notes, prefixed by `label`, on a run's missing and unjudged queries and cutoffs beyond its longest list.

    query_ids: the judged queries, or the qrels to check documents too. documents: size of the corpus; None if unknown.
    """
    shared, notes = sum(query_id in query_ids for query_id in run), list[str]()
    if not shared:
        return [f"{label}: no query of the run has judgements; check that both use the same queries"]
    judged = query_ids if isinstance(query_ids, Mapping) else {}
    if judged and all(judged[each].keys().isdisjoint(run[each].doc_ids) for each in judged.keys() & run.keys()):
        notes.append(f"{label}: no document of the run is judged; check that run and judgements use one collection")
    missing = "judged query is not in the run and scores 0", "judged queries are not in the run and score 0"
    aside = "query has no judgement and is ignored", "queries have no judgement and are ignored"
    for count, words in ((len(query_ids) - shared, missing), (len(run) - shared, aside)):
        notes += [f"{label}: {counted(count, *words)}"] if count else []
    longest = max(len(run[query_id].doc_ids) for query_id in run if query_id in query_ids)
    if deeper := cut_below(metrics, longest if documents is None or longest < documents else None):
        are = "is" if len(deeper) == 1 else "are"
        notes.append(f"{label}: no list has more than {counted(longest, 'document')}; {joined(deeper)} {are} cut there")
    return notes


def judgement_notes(qrels: Qrels, metrics: Sequence[str], level: int) -> Iterator[str]:
    """Yield a note if any queries have only judgements below the relevance level and thus score 0 in binary metrics."""
    binary = [name for name in metrics if name not in graded(metrics)]
    highest = [max(grades.values(), default=0) for grades in qrels.values()]
    lacking = sum(grade < level for grade in highest)
    if not binary or not lacking:
        return
    zero = f"0 in {joined(binary)}"
    if lacking == len(highest):
        yield f"relevance level {level}: the highest grade is {max(highest)}, so all queries score {zero}"
    else:
        queries = "query has no document of grade", "queries have no document of grade"
        yield f"{counted(lacking, *queries)} {level} or higher and {'scores' if lacking == 1 else 'score'} {zero}"


def graded(names: Sequence[str]) -> set[str]:
    """Return the `names` of metrics that use grades and ignore the relevance level."""
    return {name for name in names if Metric(name.partition("@")[0]).graded}


def cut_below(metrics: Sequence[str], longest: int | None) -> list[str]:
    """Return the metrics, including `answer@k`, with a cutoff above `longest`, a list length; empty if it is None."""
    return [name for name in metrics if longest is not None and int(name.partition("@")[2] or 0) > longest]
