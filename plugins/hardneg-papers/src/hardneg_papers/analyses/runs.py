"""Analyses of runs: overlap with training negatives, unjudged documents, numbers of candidates, scores by rank."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

import hardneg.plugin as hn
from hardneg_papers.analyses.shared import MeasuredRuns, Metric, percent

Lists = Mapping[str, Sequence[str]]
"""Document ids by query, best first."""

_BySteps = Annotated[dict[NonNegativeInt, hn.fields.Name], Field(min_length=1)]


class OverlapCurve(hn.Analysis):
    """Show how many training negatives the model itself retrieves, at several steps of training.

    Negatives apply from their step until the next file with the same label; give fixed negatives once, for step 0.

    Example: hardneg analyze overlap-curve --negatives 0=negatives.arrow --run 0=start.trec.gz --run 50=later.trec.gz
    """

    name = "overlap-curve"
    title = "overlap with training negatives by step"
    paper = "ANCE's first version, Figure 3"
    asks = ("qrels?",)
    drawn, across = slice(3, 4), 1

    negatives: Annotated[
        dict[hn.fields.Name, _BySteps],
        hn.fields.Reference(("negatives",)),
        hn.fields.Option("negatives", metavar="[LABEL:]STEP=PATH"),
    ] = Field(min_length=1, description="A negatives.arrow used from STEP on.")
    met: Annotated[
        dict[hn.fields.Name, _BySteps],
        hn.fields.Reference(("run",)),
        hn.fields.Option("run", metavar="[LABEL:]STEP=PATH"),
    ] = Field(min_length=1, description="The run of the model at STEP over the same queries.")
    depth: int = Field(100, gt=0, description="Number of top documents to compare.")

    @model_validator(mode="after")
    def _fits(self) -> "OverlapCurve":
        if lacking := sorted(set(self.negatives) ^ set(self.met)):
            raise ValueError(f"{', '.join(lacking)}: negatives and met must have the same labels")
        early = [label for label, runs in self.met.items() if min(runs) < min(self.negatives[label])]
        if early:
            raise ValueError(f"{', '.join(early)}: no negatives for the step of this run; give negatives for step 0")
        return self

    def measure(self, inputs: hn.AnalysisInputs) -> dict[str, Any]:
        """Return, for each training run and step, the overlap with the negatives in use, and their first step."""
        relevant = inputs.relevant()
        curves: dict[str, list[dict[str, Any]]] = {}
        for label, runs in self.met.items():
            paths = {step: inputs.negatives(f"negatives.{label}.{step}") for step in self.negatives[label]}
            for step in sorted(runs):
                since = max(first for first in paths if first <= step)
                met = ((query_id, each.doc_ids) for query_id, each in inputs.stream(f"met.{label}.{step}"))
                file = hn.negatives_files.read_negatives(paths[since])
                shared = hn.overlap.negatives_overlap(file, met, relevant, self.depth)
                curves.setdefault(label, []).append({"step": step, "since": since, **shared.to_json()})
        return {"depth": self.depth, "trainings": curves}

    def table(self, results: Any) -> hn.Table:
        rows = [
            [
                label,
                f"{row['step']:,}",
                f"{row['since']:,}",
                percent(row["overlap"]),
                f"{row['queries']:,}",
                f"{sum(row['left_out'].values()):,}",
            ]
            for label, curve in results["trainings"].items()
            for row in curve
        ]
        columns = ("training", "step", "negatives since", f"overlap at {results['depth']}", "queries", "left out")
        return hn.Table(columns, rows)

    def explain(self, results: Any) -> str:
        return (
            "Means over queries: the share of the negatives used at a step that are among the top "
            f"{results['depth']} documents retrieved by the model of that step, not counting relevant ones."
        )


class Unjudged(hn.Analysis):
    """Show the share of unjudged top documents of runs, with metrics and the overlap with one of the runs.

    Example: hardneg analyze unjudged --qrels qrels.txt --run bm25.trec.gz --run dense.trec.gz --baseline bm25.trec.gz
    """

    name = "unjudged"
    title = "unjudged documents"
    paper = "ANCE, Table 6"
    asks = ("qrels", "relevance_level")

    runs: MeasuredRuns = Field(min_length=1)
    against: Annotated[hn.fields.Name | None, hn.fields.Option("baseline", one_of="runs")] = Field(
        None, description="The one of the given runs to compute overlaps with."
    )
    metrics: Annotated[
        tuple[hn.fields.MetricName, ...],
        hn.fields.Option("metrics", same=("metric",), metavar="NAME[,NAME]"),
        Field(min_length=1),
    ] = Field(("ndcg@10",), description="Metrics to show.")
    depth: int = Field(10, gt=0, description="Cutoff for unjudged documents.")
    overlap_depth: int = Field(100, gt=0, description="Cutoff for the overlap.")

    @model_validator(mode="after")
    def _known(self) -> "Unjudged":
        if self.against is not None and self.against not in self.runs:
            named = f"no run is labelled {self.against}{hn.records.suggestion(self.against, self.runs)}"
            raise ValueError(f"against: {named}; available: {', '.join(self.runs)}")
        return self

    def measure(self, inputs: hn.AnalysisInputs) -> dict[str, Any]:
        """Return, for each run, its metrics, share of unjudged documents, and overlap with the run `against`.

        `judged_zero`: the number of documents judged not relevant. If it is 0, only relevant documents are judged, so
        most unjudged documents may be irrelevant.
        """
        qrels, runs = inputs.qrels(), inputs.runs("runs", self.runs)
        lists = {
            label: {query_id: each.doc_ids for query_id, each in run.items() if query_id in qrels and each.doc_ids}
            for label, run in runs.items()
        }
        results = {}
        for label, run in runs.items():
            rates = unjudged_rates(lists[label], qrels, self.depth)
            other = lists[self.against] if self.against else None
            shared = None if other is None else hn.overlap.run_overlap(lists[label], other, self.overlap_depth)
            results[label] = {
                "metrics": hn.measuring.means(hn.measuring.evaluate(run, qrels, self.metrics, inputs.relevance_level)),
                "unjudged": sum(rates.values()) / len(rates) if rates else None,
                "overlap": shared.mean if shared else None,
                "queries": len(rates),
                "left_out": len(qrels) - len(rates),
                "per_query": rates,
            }
        zeros = sum(relevance <= 0 for judged in qrels.values() for relevance in judged.values())
        depths = {"depth": self.depth, "against": self.against, "overlap_depth": self.overlap_depth}
        return {**depths, "judged_zero": zeros, "runs": results}

    def table(self, results: Any) -> hn.Table:
        """Return a row per run: metrics, share of unjudged documents, overlap, queries."""
        metrics = list(next(iter(results["runs"].values()))["metrics"])
        shared = [f"overlap with {results['against']} at {results['overlap_depth']}"] if results["against"] else []
        rows = [
            [
                *(label, *(f"{row['metrics'][name]:.4f}" for name in metrics), percent(row["unjudged"])),
                *(*([percent(row["overlap"])] if shared else []), f"{row['queries']:,}"),
            ]
            for label, row in results["runs"].items()
        ]
        return hn.Table(("run", *metrics, f"unjudged at {results['depth']}", *shared, "queries"), rows)

    def explain(self, results: Any) -> str:
        """Explain the share of unjudged documents, which depends on whether any document is judged not relevant."""
        return "The share of the top-ranked documents without a judgement. " + (
            f"{results['judged_zero']:,} documents are judged not relevant."
            if results["judged_zero"]
            else "No documents are judged not relevant, so most unjudged documents may be irrelevant."
        )


def unjudged_rates(lists: Lists, qrels: Mapping[str, Mapping[str, int]], depth: int) -> dict[str, float]:
    """Return the share of unjudged documents among the first `depth` documents of each query, by query.

    Queries without judgements, or without documents, are left out.

    Source: ANCE (Xiong et al., ICLR 2021), table 6.
    """
    return {
        query_id: sum(doc_id not in judged for doc_id in lists[query_id][:depth]) / len(lists[query_id][:depth])
        for query_id, judged in qrels.items()
        if lists.get(query_id)
    }


Run = Mapping[str, hn.RankedList]


class CandidateCounts(hn.Analysis):
    """Show the quality of reranking fewer candidates, and the candidates' recall, computed from one reranked run.

    Example: hardneg analyze candidates --qrels qrels.txt --run bm25.trec.gz --reranked bm25-reranked.trec.gz
    """

    name = "candidates"
    title = "number of candidates"
    paper = "CoRT at TREC, Figure 2"
    asks = ("qrels", "relevance_level")
    drawn, across = slice(1, None), 0

    first: MeasuredRuns = Field(min_length=1, description="A TREC run, plain or gzip; may be repeated.")
    reranked: Annotated[dict[hn.fields.Name, hn.fields.Name], hn.fields.MEASURED] = Field(
        min_length=1, description="The reranked version of each run, in the same order."
    )
    counts: Annotated[tuple[PositiveInt, ...], hn.fields.Option("depth"), Field(min_length=1)] = Field(
        (16, 32, 64, 128, 256, 512, 1000), description="Number of candidates; by default, 16 to 1000 by powers of 2."
    )
    metric: Metric = Field("ndcg@10", description="The metric to compute.")

    @model_validator(mode="after")
    def _paired(self) -> "CandidateCounts":
        if list(self.first) != list(self.reranked):
            raise ValueError("`first` and `reranked` must have the same labels in the same order")
        return self

    @classmethod
    def arranged(cls, values: Mapping[str, Any], types: Mapping[str, str]) -> Mapping[str, Any]:
        """Label reranked runs like the first-stage runs, in order. Raises UsageError if their numbers differ."""
        first, reranked = values["first"], values["reranked"]
        if len(first) != len(reranked):
            message = f"{len(reranked)} {{reranked}}, but {len(first)} {{first}}; give one for each run"
            raise hn.errors.UsageError(f"analyze candidates: {message}", "reranked", "first")
        return {**values, "reranked": dict(zip(first, reranked.values(), strict=True))}

    def measure(self, inputs: hn.AnalysisInputs) -> dict[str, Any]:
        """Return `candidates`, `quality`, `recall` and mean number of `documents` by label and number of candidates.

        A reranker scores each document independently, so one reranked list determines the rankings of all prefixes, and
        no document is scored here. Means are over all judged queries.

        Raises:
            DataError: a candidate is missing from a reranked list.

        Source: Wrzalik and Krechel, HSRM-LAVIS at TREC 2020 Deep Learning Track, figure 2.
        """
        qrels, counts, level = inputs.qrels(), sorted(set(self.counts)), inputs.relevance_level
        results: dict[str, list[dict[str, Any]]] = {}
        for label in self.first:
            first, reranked = inputs.run(f"first.{label}"), inputs.run(f"reranked.{label}")
            _check(label, first, reranked, max(counts))
            recall = hn.measuring.means(
                hn.measuring.evaluate(first, qrels, [f"recall@{count}" for count in counts], level)
            )
            for count in counts:
                quality = hn.measuring.means(
                    hn.measuring.evaluate(prefix(first, reranked, count), qrels, [self.metric], level)
                )[self.metric]
                documents = float(np.mean([min(count, len(ranked.doc_ids)) for ranked in first.values()] or [0]))
                row = {"candidates": count, "quality": quality, "recall": recall[f"recall@{count}"]}
                results.setdefault(label, []).append({**row, "documents": documents})
        return {"metric": self.metric, "counts": counts, "relevance_level": level, "runs": results}

    def table(self, results: Any) -> hn.Table:
        """Return a row per number of candidates: each pipeline's quality and its candidates' recall."""
        runs, metric = results["runs"], results["metric"]
        rows = [
            [f"{row[0]['candidates']:,}", *(f"{each[name]:.4f}" for name in ("quality", "recall") for each in row)]
            for row in zip(*runs.values(), strict=True)
        ]
        columns = [f"{label}: {name}" for name in (metric, "recall") for label in runs]
        return hn.Table(("candidates", *columns), rows)

    def explain(self, results: Any) -> str:
        return (
            f"{results['metric']} after reranking only that many top candidates, and the recall of these "
            "candidates, computed from one reranked run. Binary metrics count grades of "
            f"{results['relevance_level']} or higher as relevant."
        )


def prefix(first: Run, reranked: Run, count: int) -> Run:
    """Return the reranked run restricted to each query's first `count` documents in the run `first`."""
    cut = {}
    for query_id, ranked in reranked.items():
        among = set(_ids(first, query_id)[:count])
        kept = [row for row, doc_id in enumerate(ranked.doc_ids) if doc_id in among]
        cut[query_id] = hn.RankedList([ranked.doc_ids[row] for row in kept], ranked.scores[kept])
    return cut


def _ids(run: Run, query_id: str) -> Sequence[str]:
    return run[query_id].doc_ids if query_id in run else ()


def _check(label: str, first: Run, reranked: Run, most: int) -> None:
    for query_id, ranked in first.items():
        asked = ranked.doc_ids[:most]
        if lacking := set(asked).difference(_ids(reranked, query_id)):
            raise hn.errors.DataError(
                f"{label}: {len(lacking)} of the first {len(asked)} candidates of query {query_id} are not in the "
                f"reranked run, such as {min(lacking)}; rerank deeper, or use fewer candidates"
            )


_POINTS = 60
_QUANTILES = {"low": 0.1, "high": 0.9}


class ScoreTails(hn.Analysis):
    """Show scores by rank, scaled to 1 for the first and 0 for the last document of a list.

    Example: hardneg analyze scores --run bm25.trec.gz --run dense.trec.gz --plot scores.svg
    """

    name, version = "scores", 2
    title = "scores by rank"
    explained = (
        "Scores scaled to 1 for the first and 0 for the last document of a list cut at the depth. Means over "
        "queries: the first rank below one half, and the value at half the depth."
    )
    paper = "ANCE, Figure 3"
    asks = ("seed",)

    runs: hn.Runs = Field(min_length=1)
    depths: Annotated[tuple[Annotated[int, Field(gt=1)], ...], hn.fields.Option("depth"), Field(min_length=1)] = Field(
        (10, 100, 1000), description="Depth of the lists; by default 10, 100 and 1000."
    )
    single: int = Field(0, ge=0, description="Number of individual queries to draw, sampled from those in all runs.")

    def measure(self, inputs: hn.AnalysisInputs) -> dict[str, list[dict[str, Any]]]:
        """Return the score curves of each run; see `score_tails`. Raises DataError if a run has none."""
        runs, depths = inputs.runs("runs", self.runs), sorted(set(self.depths))
        pool = sorted(set.intersection(*({*run} for run in runs.values())))
        single = hn.runtime.generator(inputs.seed, "single queries").permutation(pool)[: self.single].tolist()
        results = {label: score_tails(run, depths, single) for label, run in runs.items()}
        for label, tails in results.items():
            if not tails:
                message = f"no query has {depths[0]} documents with different scores; use a lower depth"
                raise hn.errors.DataError(f"{inputs.location(f'runs.{label}')}: {message}")
        return results

    def table(self, results: Any) -> hn.Table:
        rows = []
        for label, tails in results.items():
            for tail in tails:
                halfway = min(
                    zip(tail["ranks"], tail["mean"], strict=True), key=lambda at: abs(at[0] - tail["depth"] / 2)
                )
                scores = [f"{score:.4g}" for score in (tail["score"][0], tail["score"][-1])]
                cells = [
                    f"{tail['depth']:,}",
                    f"{tail['half']:,}",
                    f"{halfway[1]:.3f}",
                    *scores,
                    f"{tail['queries']:,}",
                ]
                rows.append([label, *cells])
        return hn.Table(("run", "depth", "below half at", "at half depth", "best score", "last score", "queries"), rows)

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """Draw a panel per depth: a line per run, a band for 80% of its queries, thin lines for `single` queries."""
        depths = sorted({tail["depth"] for tails in results.values() for tail in tails})
        with hn.figures.figure(paths, max(1, len(depths))) as panels:
            for axes, depth in zip(panels, depths, strict=False):
                own = {label: tail for label, tails in results.items() for tail in tails if tail["depth"] == depth}
                hn.figures.lines(
                    axes, {label: list(zip(tail["ranks"], tail["mean"], strict=True)) for label, tail in own.items()}
                )
                for position, tail in enumerate(own.values()):
                    colour = hn.figures.COLOURS[position % len(hn.figures.COLOURS)]
                    axes.fill_between(tail["ranks"], tail["low"], tail["high"], color=colour, alpha=0.15, linewidth=0)
                    for shares in tail.get("single", {}).values():
                        axes.plot(tail["ranks"], shares, color=colour, alpha=0.5, linewidth=0.7)
                hn.figures.plain_axes(axes, f"scores of the first {depth:,}", "rank", "scaled score")


def score_tails(
    run: Mapping[str, hn.RankedList], depths: Sequence[int], single: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return a curve for each depth that at least one list with different scores reaches.

    Scores are scaled linearly so that, in a list cut at the depth, the last is 0 and the best 1, whatever the scale and
    offset of the model. Shorter lists, and lists of equal scores, are left out and counted.

    Returns:
        For each depth: `ranks`, up to 60 from 1 to the depth; at these ranks, the `mean` scaled score over queries, its
        quantiles `low` (10%) and `high` (90%), the mean unscaled `score`, and the scaled scores of each `single` query;
        and `half`, the first rank with a mean below one half.

    Source: ANCE (Xiong et al., ICLR 2021), figure 3, with the last score instead of the average over the corpus.
    """
    tails = []
    for depth in depths:
        cut = {name: each.scores[:depth].astype(np.float64) for name, each in run.items() if len(each.scores) >= depth}
        table: dict[str, NDArray[np.float64]] = {name: each for name, each in cut.items() if each[0] != each[-1]}
        if not table:
            continue
        scores = np.stack([*table.values()])
        by_query = (scores - scores[:, -1:]) / (scores[:, :1] - scores[:, -1:])
        ranks = np.unique(np.geomspace(1, depth, _POINTS).round().astype(np.int64))
        mean, shares = by_query.mean(0), by_query[:, ranks - 1]
        tail = {
            "depth": depth,
            "queries": len(table),
            "left_out": {"lists that are shorter": len(run) - len(cut), "equal scores": len(cut) - len(table)},
            "ranks": ranks.tolist(),
            "mean": mean[ranks - 1].tolist(),
            **{name: np.quantile(shares, q, axis=0).tolist() for name, q in _QUANTILES.items()},
            "score": scores.mean(0)[ranks - 1].tolist(),
            "half": int(np.argmax(mean < 0.5)) + 1,
        }
        if single:
            own = dict(zip(table, shares.tolist(), strict=True))
            tail["single"] = {name: own[name] for name in single if name in own}
        tails.append(tail)
    return tails
