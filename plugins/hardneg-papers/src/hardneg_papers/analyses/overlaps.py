"""What negatives are met in testing through training, and what nobody judged."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field, NonNegativeInt, model_validator

from hardneg.plugin import (
    Analysis,
    AnalysisInputs,
    MetricName,
    Name,
    Option,
    RankedList,
    Reference,
    Table,
    evaluate,
    means,
    negatives_files,
    overlap,
    wording,
)
from hardneg_papers.analyses.shared import MeasuredRuns, percent

Lists = Mapping[str, Sequence[str]]
"""Document ids by query, best first."""

_BySteps = Annotated[dict[NonNegativeInt, Name], Field(min_length=1)]


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
    depth: int = Field(100, gt=0, description="How far down the lists are looked at.")

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
                step: negatives_files.read_negatives(inputs.negatives(f"negatives.{label}.{step}"))
                for step in self.negatives[label]
            }
            for step in sorted(runs):
                since = max(first for first in files if first <= step)
                met = ((query_id, each.doc_ids) for query_id, each in inputs.stream(f"met.{label}.{step}"))
                shared = overlap.negatives_overlap(files[since], met, relevant, self.depth)
                curves.setdefault(label, []).append({"step": step, "since": since, **shared.to_json()})
        return {"depth": self.depth, "trainings": curves}

    def table(self, results: Any) -> Table:
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
    against: Annotated[Name | None, Option("baseline", one_of="runs")] = Field(
        None, description="One of the runs, to overlap with."
    )
    metrics: Annotated[
        tuple[MetricName, ...], Option("metrics", same=("metric",), metavar="NAME[,NAME]"), Field(min_length=1)
    ] = Field(("ndcg@10",), description="Metrics to show beside.")
    depth: int = Field(10, gt=0, description="How far down unjudged documents are counted.")
    overlap_depth: int = Field(100, gt=0, description="How far down the overlap is counted.")

    @model_validator(mode="after")
    def _known(self) -> "Unjudged":
        if self.against is not None and self.against not in self.runs:
            named = f"no run is labelled {self.against}{wording.suggestion(self.against, self.runs)}"
            raise ValueError(f"against: {named}; runs has {', '.join(self.runs)}")
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

    def _of_run(
        self, label: str, run: Mapping[str, RankedList], lists: Mapping[str, Lists], inputs: AnalysisInputs
    ) -> dict[str, Any]:
        qrels = inputs.qrels()
        rates = unjudged_rates(lists[label], qrels, self.depth)
        shared = overlap.run_overlap(lists[label], lists[self.against], self.overlap_depth) if self.against else None
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


def unjudged_rates(lists: Lists, qrels: Mapping[str, Mapping[str, int]], depth: int) -> dict[str, float]:
    """The share of each query's first `depth` documents that has no judgement, not even that it is not relevant.

    Queries without judgements, or without documents, are left out.

    Source: ANCE (Xiong et al., ICLR 2021), table 6.
    """
    return {
        query_id: sum(doc_id not in judged for doc_id in lists[query_id][:depth]) / len(lists[query_id][:depth])
        for query_id, judged in qrels.items()
        if lists.get(query_id)
    }
