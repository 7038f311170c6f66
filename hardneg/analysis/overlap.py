"""How much of one ranked list is in another, what training negatives are met in testing, and what nobody judged."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Annotated, Any

from pydantic import Field, NonNegativeInt, model_validator

from hardneg.analysis.base import Analysis, MeasuredRuns, Option, Runs, percent
from hardneg.analysis.inputs import AnalysisInputs
from hardneg.evaluation.metrics import evaluate, means
from hardneg.fields import MetricName, Name, Reference
from hardneg.formats.negatives import NegativesFile, read_negatives
from hardneg.formats.qrels import Qrels
from hardneg.formats.runs import Run
from hardneg.records.depths import LIST_DEPTH
from hardneg.records.errors import UsageError
from hardneg.records.wording import suggestion
from hardneg.report.table import Table

Lists = Mapping[str, Sequence[str]]
"""Document ids by query, best first."""

Against = Annotated[Name | None, Option("baseline", one_of="runs")]
"""The label of one of the field `runs`."""

_BySteps = Annotated[dict[NonNegativeInt, Name], Field(min_length=1)]


@dataclass(frozen=True)
class SharedDocuments:
    """Shares by query, from 0 to 1, and how many queries were left out, by reason."""

    shares: Mapping[str, float]
    left_out: Mapping[str, int] = field(default_factory=dict)

    @property
    def mean(self) -> float | None:
        """Over the queries; None where there are none."""
        return math.fsum(self.shares.values()) / len(self.shares) if self.shares else None

    def to_json(self) -> dict[str, Any]:
        """The mean as `overlap`, and over how many queries."""
        return {"overlap": self.mean, "queries": len(self.shares), "left_out": dict(self.left_out)}


def run_overlap(lists: Lists, others: Lists, depth: int) -> SharedDocuments:
    """The share of each query's first `depth` documents that is among the first `depth` of the other run.

    Queries that either run lacks, or has no document for, are left out.

    Source: ANCE (Xiong et al., ICLR 2021), table 6.
    """
    shares = {
        query_id: _share(doc_ids[:depth], others[query_id][:depth])
        for query_id, doc_ids in lists.items()
        if doc_ids and others.get(query_id)
    }
    queries = {query_id for each in (lists, others) for query_id, doc_ids in each.items() if doc_ids}
    lacking = len(queries) - len(shares)
    return SharedDocuments(shares, {"queries that one run lacks": lacking} if lacking else {})


def negatives_overlap(
    negatives: NegativesFile,
    lists: Iterable[tuple[str, Sequence[str]]],
    relevant: Mapping[str, Collection[str]] | None = None,
    depth: int = LIST_DEPTH,
) -> SharedDocuments:
    """The share of each query's training negatives that is among the negatives met in testing.

    Met are the first `depth` documents of the trained model's own run that are not relevant.

    Args:
        negatives: what was trained on, each with the positives that it was mined with.
        lists: the run of the trained model over the same queries, streamed: a query id and its documents.
        relevant: more documents by query that are no negatives.
        depth: how many of the run's negatives are looked at.

    Source: ANCE (Xiong et al., ICLR 2021), figure 3; section 5.3 of its first version.
    """
    counts = negatives.counts
    waiting = {query_id: row for row, query_id in enumerate(negatives.query_ids) if counts[row]}
    empty, shares = len(negatives) - len(waiting), dict[str, float]()
    for query_id, doc_ids in lists:
        if doc_ids and (row := waiting.pop(query_id, None)) is not None:
            item = negatives[row]
            aside = {*item.positives, *(relevant or {}).get(query_id, ())}
            met = [doc_id for doc_id in doc_ids if doc_id not in aside][:depth]
            shares[query_id] = _share(item.negatives, met)
    left_out = {"queries without negatives": empty, "queries that the run lacks": len(waiting)}
    return SharedDocuments(shares, {reason: count for reason, count in left_out.items() if count})


def _share(doc_ids: Sequence[str], others: Sequence[str]) -> float:
    return len(set(doc_ids) & set(others)) / len(set(doc_ids))


def _met(inputs: AnalysisInputs, path: str) -> Iterable[tuple[str, Sequence[str]]]:
    return ((query_id, each.doc_ids) for query_id, each in inputs.stream(path))


def _cells(row: Mapping[str, Any]) -> list[str]:
    return [percent(row["overlap"]), f"{row['queries']:,}", f"{sum(row['left_out'].values()):,}"]


def check_label(label: str | None, labels: Collection[str]) -> None:
    """A ValueError where `against` is none of the labels."""
    if label is not None and label not in labels:
        message = f"no run is labelled {label}{suggestion(label, labels)}; runs has {', '.join(labels) or 'none'}"
        raise ValueError(f"against: {message}")


class Overlap(Analysis):
    """Show how much of one run is in another, or how many training negatives the trained model meets in its run.

    Runs are compared in all pairs, or with --baseline. With --negatives nothing else is compared: the first file goes
    with the first run, and so on; a single run goes with all files.

    Example: hardneg analyze overlap --run dense.trec.gz --run bm25.trec.gz --baseline bm25.trec.gz
    """

    name = "overlap"
    title = "overlap"
    paper = "ANCE, Table 6"
    asks = ("qrels?",)
    drawn = slice(2, 3)

    runs: Runs = Field(default_factory=dict)
    against: Against = Field(None, description="One of the runs, to overlap with.")
    negatives: Annotated[dict[Name, Name], Reference(("negatives",))] = Field(
        default_factory=dict, description="A negatives.arrow used in training, one for each run in their order."
    )
    met: Annotated[dict[Name, Name], Reference(("run",)), Option(flag="-")] = Field(default_factory=dict)
    depth: int = Field(LIST_DEPTH, gt=0, description="How far down the lists are looked at.")

    @model_validator(mode="after")
    def _complete(self) -> "Overlap":
        check_label(self.against, self.runs)
        if list(self.negatives) != list(self.met):
            raise ValueError("negatives and met need the same labels, in the same order")
        if len(self.runs) < 2 and not self.negatives:
            raise ValueError("give two runs, or negatives and the runs in which they are met")
        return self

    @classmethod
    def arranged(cls, values: Mapping[str, Any], types: Mapping[str, str]) -> Mapping[str, Any]:
        """With negatives, the runs are those in which they are met."""
        negatives = values.get("negatives")
        if not negatives:
            if len(values["runs"]) < 2:
                raise UsageError("analyze overlap: give {runs} twice, or {negatives}", "runs", "negatives")
            return values
        runs = list(values["runs"].values()) * (len(negatives) if len(values["runs"]) == 1 else 1)
        if len(runs) != len(negatives):
            message = f"{len(negatives)} {{negatives}} for {len(runs)} {{runs}}: give one of each"
            raise UsageError(f"analyze overlap: {message}", "negatives", "runs")
        return {**values, "runs": {}, "against": None, "met": dict(zip(negatives, runs, strict=True))}

    def measure(self, inputs: AnalysisInputs) -> dict[str, Any]:
        """Overlaps of runs by pair, or with the one labelled `against`; and those of trainings."""
        runs: dict[str, Lists] = {
            label: {query_id: each.doc_ids for query_id, each in run.items()}
            for label, run in inputs.runs("runs", self.runs).items()
        }
        others = [(label, self.against) for label in runs if label != self.against]
        compared = []
        for run, other in others if self.against else combinations(runs, 2):
            shared = run_overlap(runs[run], runs[other or ""], self.depth)
            compared.append({"run": run, "against": other, **shared.to_json(), "per_query": dict(shared.shares)})
        relevant = inputs.relevant() if self.met else {}
        trained = []
        for label in self.negatives:
            negatives = read_negatives(inputs.negatives(f"negatives.{label}"))
            shared = negatives_overlap(negatives, _met(inputs, f"met.{label}"), relevant, self.depth)
            trained.append({"training": label, **shared.to_json()})
        return {"depth": self.depth, "runs": compared, "negatives": trained}

    def table(self, results: Any) -> Table:
        rows = [[row["run"], row["against"], *_cells(row)] for row in results["runs"]]
        rows += [[row["training"], "negatives met in testing", *_cells(row)] for row in results["negatives"]]
        return Table(("of", "also in", f"overlap at {results['depth']}", "queries", "left out"), rows, 2)

    def explain(self, results: Any) -> str:
        return (
            f"Means over queries: of a run's first {results['depth']} documents, the share that is among the other's; "
            f"of a training's negatives, the share that is among the first {results['depth']} documents that the "
            "trained model finds and that are not relevant."
        )


class OverlapCurve(Analysis):
    """Show how many of its training negatives the model meets in its own run, at several steps of training.

    Negatives count from their step on until the next of the same label; give fixed ones once, for step 0.

    Example: hardneg analyze overlap-curve --negatives 0=negatives.arrow --run 0=start.trec.gz --run 50=later.trec.gz
    """

    name = "overlap-curve"
    title = "negatives met in testing, through training"
    paper = "ANCE's first version, Figure 3"
    asks = ("qrels?",)
    drawn, across = slice(3, 4), 1

    negatives: Annotated[
        dict[Name, _BySteps], Reference(("negatives",)), Option("negatives", metavar="[LABEL:]STEP=PATH")
    ] = Field(min_length=1, description="A negatives.arrow that is trained on from STEP on.")
    met: Annotated[dict[Name, _BySteps], Reference(("run",)), Option("run", metavar="[LABEL:]STEP=PATH")] = Field(
        min_length=1, description="A run over the same queries by the model as it is at STEP."
    )
    depth: int = Field(LIST_DEPTH, gt=0, description="How far down the lists are looked at.")

    @model_validator(mode="after")
    def _fits(self) -> "OverlapCurve":
        if lacking := sorted(set(self.negatives) ^ set(self.met)):
            raise ValueError(f"{', '.join(lacking)}: negatives and met need the same labels")
        early = [label for label, runs in self.met.items() if min(runs) < min(self.negatives[label])]
        if early:
            raise ValueError(f"{', '.join(early)}: a run is before the first negatives; give those for step 0")
        return self

    def measure(self, inputs: AnalysisInputs) -> dict[str, Any]:
        """By training the overlap at each step, and the step since which those negatives were trained on."""
        relevant = inputs.relevant()
        curves: dict[str, list[dict[str, Any]]] = {}
        for label, runs in self.met.items():
            files = {
                step: read_negatives(inputs.negatives(f"negatives.{label}.{step}")) for step in self.negatives[label]
            }
            for step in sorted(runs):
                since = max(first for first in files if first <= step)
                met = _met(inputs, f"met.{label}.{step}")
                shared = negatives_overlap(files[since], met, relevant, self.depth)
                curves.setdefault(label, []).append({"step": step, "since": since, **shared.to_json()})
        return {"depth": self.depth, "trainings": curves}

    def table(self, results: Any) -> Table:
        rows = [
            [label, f"{row['step']:,}", f"{row['since']:,}", *_cells(row)]
            for label, curve in results["trainings"].items()
            for row in curve
        ]
        columns = ("training", "step", "negatives since", f"overlap at {results['depth']}", "queries", "left out")
        return Table(columns, rows)

    def explain(self, results: Any) -> str:
        return (
            "Means over queries: of the negatives that are trained on at a step, the share that is among the first "
            f"{results['depth']} documents that the model of that step finds and that are not relevant."
        )


class Unjudged(Analysis):
    """Show how many of the top documents of runs are unjudged, beside metrics and the overlap with one of the runs.

    Example: hardneg analyze unjudged --qrels qrels.txt --run bm25.trec.gz --run dense.trec.gz --baseline bm25.trec.gz
    """

    name = "unjudged"
    title = "documents without a judgement"
    paper = "ANCE, Table 6"
    asks = ("qrels", "relevance_level")
    drawn = slice(1, -1)

    runs: MeasuredRuns = Field(min_length=1)
    against: Against = Field(None, description="One of the runs, to overlap with.")
    metrics: Annotated[
        tuple[MetricName, ...], Option("metrics", same=("metric",), metavar="NAME..."), Field(min_length=1)
    ] = Field(("ndcg@10",), description="Metrics to show beside.")
    depth: int = Field(10, gt=0, description="How far down unjudged documents are counted.")
    overlap_depth: int = Field(100, gt=0, description="How far down the overlap is counted.")

    @model_validator(mode="after")
    def _known(self) -> "Unjudged":
        check_label(self.against, self.runs)
        return self

    def measure(self, inputs: AnalysisInputs) -> dict[str, Any]:
        """Metrics, share without a judgement, and overlap of each run.

        `judged_zero`: how many judgements say `not relevant`. Where that is 0, what is judged is what is relevant, and
        a document without a judgement is only not known to be.
        """
        qrels, runs = inputs.qrels(), inputs.runs("runs", self.runs)
        lists = {
            label: {query_id: each.doc_ids for query_id, each in run.items() if query_id in qrels and each.doc_ids}
            for label, run in runs.items()
        }
        results = {label: self._of_run(label, run, lists, inputs) for label, run in runs.items()}
        zeros = sum(relevance <= 0 for judged in qrels.values() for relevance in judged.values())
        depths = {"depth": self.depth, "against": self.against, "overlap_depth": self.overlap_depth}
        return {**depths, "judged_zero": zeros, "runs": results}

    def _of_run(self, label: str, run: Run, lists: Mapping[str, Lists], inputs: AnalysisInputs) -> dict[str, Any]:
        qrels = inputs.qrels()
        rates = unjudged_rates(lists[label], qrels, self.depth)
        shared = run_overlap(lists[label], lists[self.against], self.overlap_depth) if self.against else None
        return {
            "metrics": means(evaluate(run, qrels, self.metrics, inputs.relevance_level)),
            "unjudged": sum(rates.values()) / len(rates) if rates else None,
            "overlap": shared.mean if shared else None,
            "queries": len(rates),
            "left_out": len(qrels) - len(rates),
            "per_query": rates,
        }

    def table(self, results: Any) -> Table:
        """One row a run: metrics, share without a judgement, overlap, queries."""
        metrics = list(next(iter(results["runs"].values()))["metrics"])
        shared = [f"overlap with {results['against']} at {results['overlap_depth']}"] if results["against"] else []
        rows = [
            [
                label,
                *(f"{row['metrics'][name]:.4f}" for name in metrics),
                percent(row["unjudged"]),
                *([percent(row["overlap"])] if shared else []),
                f"{row['queries']:,}",
            ]
            for label, row in results["runs"].items()
        ]
        return Table(("run", *metrics, f"unjudged at {results['depth']}", *shared, "queries"), rows)

    def explain(self, results: Any) -> str:
        """What a share says depends on whether anything is judged not relevant."""
        return "Documents that nobody judged, as a share of what is ranked highest. " + (
            f"{results['judged_zero']:,} documents are judged not relevant."
            if results["judged_zero"]
            else "No document is judged not relevant, so that one without a judgement may be a miss."
        )


def unjudged_rates(lists: Lists, qrels: Qrels, depth: int) -> dict[str, float]:
    """The share of each query's first `depth` documents that has no judgement, not even that it is not relevant.

    Queries without judgements, or without documents, are left out.

    Source: ANCE (Xiong et al., ICLR 2021), table 6.
    """
    return {
        query_id: sum(doc_id not in judged for doc_id in lists[query_id][:depth]) / len(lists[query_id][:depth])
        for query_id, judged in qrels.items()
        if lists.get(query_id)
    }
