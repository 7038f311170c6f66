"""What first stages find by a depth."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field, PositiveInt

from hardneg.analysis.base import Analysis, Option
from hardneg.analysis.inputs import AnalysisInputs
from hardneg.evaluation.metrics import evaluate, means
from hardneg.fields import MEASURED, Name
from hardneg.formats.qrels import Qrels
from hardneg.formats.runs import Run
from hardneg.report.table import Table


class RecallAtDepth(Analysis):
    """Show the recall of runs at several depths, and nDCG at the deepest.

    Example: hardneg analyze recall-at-depth --qrels qrels.txt --run bm25.trec.gz --run dense.trec.gz --depth 100
    """

    name = "recall-at-depth"
    title = "what first stages find"
    paper = "CoRT at TREC, Table 2"
    asks = ("qrels", "relevance_level")
    drawn = slice(1, None)

    runs: Annotated[dict[Name, Name], MEASURED, Option("run")] = Field(min_length=1)
    depths: Annotated[tuple[PositiveInt, ...], Option("depth"), Field(min_length=1)] = Field(
        (100, 200, 1000), description="Where recall is measured; by default 100, 200 and 1000."
    )

    def measure(self, inputs: AnalysisInputs) -> dict[str, Any]:
        """See `recall_at_depth`."""
        runs = inputs.runs("runs", self.runs)
        return recall_at_depth(runs, inputs.qrels(), sorted(set(self.depths)), inputs.relevance_level)

    def table(self, results: Any) -> Table:
        """One row a run: nDCG at the deepest cut, recall at each."""
        cuts = results["depths"]
        rows = [
            [label, f"{row['ndcg']:.4f}", *(f"{value:.4f}" for value in row["recall"])]
            for label, row in results["runs"].items()
        ]
        return Table(("run", f"ndcg@{max(cuts)}", *(f"recall@{cut}" for cut in cuts)), rows)

    def explain(self, results: Any) -> str:
        return f"Relevant to recall are grades from {results['relevance_level']} up; nDCG takes grades as they are."


def recall_at_depth(runs: Mapping[str, Run], qrels: Qrels, cuts: Sequence[int], level: int = 1) -> dict[str, Any]:
    """By label: `recall` at each of `cuts`, in their order, and `ndcg` at the deepest; means over judged queries.

    Grades from `level` up are relevant to recall; nDCG takes grades as they are.

    Source: Wrzalik and Krechel, HSRM-LAVIS at TREC 2020 Deep Learning Track, table 2.
    """
    whole, names = f"ndcg@{max(cuts)}", [f"recall@{cut}" for cut in cuts]
    results = {}
    for label, run in runs.items():
        values = means(evaluate(run, qrels, [whole, *names], level))
        results[label] = {"recall": [values[name] for name in names], "ndcg": values[whole]}
    return {"depths": list(cuts), "relevance_level": level, "runs": results}
