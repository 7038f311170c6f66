"""How much of one ranked list is in another: two runs, or what was trained on and what is met in testing."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator

from hardneg.analysis.base import Analysis, Option, Runs, percent
from hardneg.analysis.inputs import AnalysisInputs
from hardneg.analysis.shares import Against, Lists, check_label, draw_shares, negatives_overlap, run_overlap
from hardneg.fields import Name, Reference
from hardneg.formats.negatives import read_negatives
from hardneg.records.depths import LIST_DEPTH
from hardneg.records.errors import UsageError
from hardneg.report.table import Table


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
            raise UsageError(
                f"analyze overlap: {len(negatives)} {{negatives}} for {len(runs)} {{runs}}: give one of each",
                "negatives",
                "runs",
            )
        return {**values, "runs": {}, "against": None, "met": dict(zip(negatives, runs, strict=True))}

    def measure(self, inputs: AnalysisInputs) -> dict[str, Any]:
        """Overlaps of runs by pair, and those of trainings."""
        runs: dict[str, Lists] = {
            label: {query_id: each.doc_ids for query_id, each in run.items()}
            for label, run in inputs.runs("runs", self.runs).items()
        }
        relevant = inputs.relevant() if self.met else {}
        trained = []
        for label in self.negatives:
            negatives = read_negatives(inputs.negatives(f"negatives.{label}"))
            met = ((query_id, each.doc_ids) for query_id, each in inputs.stream(f"met.{label}"))
            shared = negatives_overlap(negatives, met, relevant, self.depth)
            trained.append({"training": label, **shared.to_json()})
        return {"depth": self.depth, "runs": run_overlaps(runs, self.depth, self.against), "negatives": trained}

    def table(self, results: Any) -> Table:
        """One row a pair of runs, then one a training."""
        rows = [[row["run"], row["against"], *_cells(row)] for row in results["runs"]]
        rows += [[row["training"], "negatives met in testing", *_cells(row)] for row in results["negatives"]]
        return Table(("of", "also in", f"overlap at {results['depth']}", "queries", "left out"), rows, 2)

    def explain(self, results: Any) -> str:
        """With the depth."""
        return (
            f"Means over queries: of a run's first {results['depth']} documents, the share that is among the other's; "
            f"of a training's negatives, the share that is among the first {results['depth']} documents that the "
            "trained model finds and that are not relevant."
        )

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """One bar a pair of runs, and in a second panel one a training."""
        runs = {f"{row['run']} in {row['against']}": row["overlap"] for row in results["runs"]}
        trained = {row["training"]: row["overlap"] for row in results["negatives"]}
        panels = {"overlap of runs": runs, "training negatives met in testing": trained}
        draw_shares({f"{title}, {results['depth']} deep": shares for title, shares in panels.items() if shares}, paths)


def run_overlaps(runs: Mapping[str, Lists], depth: int, against: str | None = None) -> list[dict[str, Any]]:
    """The overlap of each labelled run with the one labelled `against`, or of each pair where there is none."""
    pairs = [(label, against) for label in runs if label != against] if against else list(combinations(runs, 2))
    results = [(pair, run_overlap(runs[pair[0]], runs[pair[1]], depth)) for pair in pairs]
    return [
        {"run": run, "against": other, **overlap.to_json(), "per_query": dict(overlap.shares)}
        for (run, other), overlap in results
    ]


def _cells(row: Mapping[str, Any]) -> list[str]:
    return [percent(row["overlap"]), f"{row['queries']:,}", f"{sum(row['left_out'].values()):,}"]
