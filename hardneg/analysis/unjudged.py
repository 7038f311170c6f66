"""How much of what systems rank highest was ever judged, beside what the judgements say of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator

from hardneg.analysis.base import Analysis, MeasuredRuns, Option, percent
from hardneg.analysis.inputs import AnalysisInputs
from hardneg.analysis.shares import Against, Lists, check_label, draw_shares, run_overlap
from hardneg.fields import MetricName
from hardneg.formats.qrels import Qrels
from hardneg.formats.runs import Run
from hardneg.report.table import Table


class Unjudged(Analysis):
    """Show how many of the top documents of runs are unjudged, beside metrics and the overlap with one of the runs.

    Example: hardneg analyze unjudged --qrels qrels.txt --run bm25.trec.gz --run dense.trec.gz --baseline bm25.trec.gz
    """

    name = "unjudged"
    title = "documents without a judgement"
    paper = "ANCE, Table 6"
    asks = ("qrels", "relevance_level")

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
        from hardneg.evaluation.metrics import evaluate, means

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

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """One bar a run; in a second panel the overlap, where it was measured."""
        panels = {f"not judged, of the first {results['depth']}": _column(results, "unjudged")}
        if results["against"]:
            panels[f"overlap with {results['against']}, {results['overlap_depth']} deep"] = _column(results, "overlap")
        draw_shares(panels, paths)


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


def _column(results: Any, name: str) -> dict[str, float | None]:
    return {label: row[name] for label, row in results["runs"].items()}
