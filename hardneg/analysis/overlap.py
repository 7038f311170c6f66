"""How much of one ranked list is in another, and what training negatives are met in testing."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Annotated, Any

from pydantic import Field, model_validator

from hardneg.analysis.base import Analysis, Option, Runs, percent
from hardneg.analysis.inputs import AnalysisInputs
from hardneg.fields import Name, Reference
from hardneg.formats.negatives import NegativesFile, read_negatives
from hardneg.records import LIST_DEPTH, UsageError, suggestion
from hardneg.report.table import Table

Lists = Mapping[str, Sequence[str]]
"""Document ids by query, best first."""

Against = Annotated[Name | None, Option("baseline", one_of="runs")]
"""The label of one of the field `runs`."""


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
        if self.against is not None and self.against not in self.runs:
            hint = f"{suggestion(self.against, self.runs)}; runs has {', '.join(self.runs) or 'none'}"
            raise ValueError(f"against: no run is labelled {self.against}{hint}")
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
            met = ((query_id, each.doc_ids) for query_id, each in inputs.stream(f"met.{label}"))
            shared = negatives_overlap(negatives, met, relevant, self.depth)
            trained.append({"training": label, **shared.to_json()})
        return {"depth": self.depth, "runs": compared, "negatives": trained}

    def table(self, results: Any) -> Table:
        of = [(row["run"], row["against"], row) for row in results["runs"]]
        of += [(row["training"], "negatives met in testing", row) for row in results["negatives"]]
        rows = [
            [*names, percent(row["overlap"]), f"{row['queries']:,}", f"{sum(row['left_out'].values()):,}"]
            for *names, row in of
        ]
        return Table(("of", "also in", f"overlap at {results['depth']}", "queries", "left out"), rows, 2)

    def explain(self, results: Any) -> str:
        return (
            f"Means over queries: of a run's first {results['depth']} documents, the share that is among the other's; "
            f"of a training's negatives, the share that is among the first {results['depth']} documents that the "
            "trained model finds and that are not relevant."
        )
