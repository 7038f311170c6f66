"""Analyses of runs: overlap with runs and training negatives, wins and losses by query, and recall at depth."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, zip_longest
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, PositiveInt, model_validator

from hardneg.analysis.base import Analysis, AnalysisInputs, Option, Runs, percent
from hardneg.evaluation.metrics import evaluate, means
from hardneg.fields import MEASURED, MetricName, Name, Reference
from hardneg.formats.negatives import NegativesFile, read_negatives
from hardneg.records import LIST_DEPTH, UsageError, suggestion
from hardneg.report.figure import COLOURS, figure, plain_axes
from hardneg.report.table import Table

Lists = Mapping[str, Sequence[str]]
"""Document ids by query, best first."""


@dataclass(frozen=True)
class SharedDocuments:
    """The share of common documents of each query, from 0 to 1. left_out: number of queries left out, by reason."""

    shares: Mapping[str, float]
    left_out: Mapping[str, int] = field(default_factory=dict)

    @property
    def mean(self) -> float | None:
        """The mean share over queries; None without queries."""
        return math.fsum(self.shares.values()) / len(self.shares) if self.shares else None

    def to_json(self) -> dict[str, Any]:
        """Return the mean share as `overlap`, the number of `queries`, and `left_out`."""
        return {"overlap": self.mean, "queries": len(self.shares), "left_out": dict(self.left_out)}


def run_overlap(lists: Lists, others: Lists, depth: int) -> SharedDocuments:
    """Return, by query, the share of the top `depth` documents in `lists` that are also in the top `depth` in `others`.

    Queries without documents in `lists` or in `others` are left out.

    Source: ANCE (Xiong et al., ICLR 2021), table 6.
    """
    shares = {
        query_id: len({*doc_ids[:depth]} & {*others[query_id][:depth]}) / len({*doc_ids[:depth]})
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
    """Return the share of each query's training negatives that the trained model still retrieves.

    The retrieved negatives are the first `depth` documents of the trained model's run that are not relevant.

    Args:
        negatives: the training negatives of each query, with the positives used for mining.
        lists: the trained model's run over the same queries, streamed as pairs of query id and documents.
        relevant: additional relevant documents by query, which do not count as negatives.
        depth: the number of retrieved negatives to compare with.

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
            shares[query_id] = len({*item.negatives} & {*met}) / len({*item.negatives})
    left_out = {"queries without negatives": empty, "queries that the run lacks": len(waiting)}
    return SharedDocuments(shares, {reason: count for reason, count in left_out.items() if count})


class Overlap(Analysis):
    """Show how many documents two runs share, or how many training negatives the trained model still retrieves.

    Runs are compared in all pairs, or each with --baseline. With --negatives, only negatives are compared: the first
    file with the first run, and so on, or all files with a single run.

    Example: hardneg analyze overlap --run dense.trec.gz --run bm25.trec.gz --baseline bm25.trec.gz
    """

    name = "overlap"
    title = "overlap"
    paper = "ANCE, Table 6"
    asks = ("qrels?",)
    drawn = slice(2, 3)

    runs: Runs = Field(default_factory=dict)
    against: Annotated[Name | None, Option("baseline", one_of="runs")] = Field(
        None, description="The run to compare the others with; one of the given runs."
    )
    negatives: Annotated[dict[Name, Name], Reference(("negatives",))] = Field(
        default_factory=dict, description="The negatives.arrow used in training, one per run and in the same order."
    )
    met: Annotated[dict[Name, Name], Reference(("run",)), Option(flag="-")] = Field(default_factory=dict)
    depth: int = Field(LIST_DEPTH, gt=0, description="Number of top documents to compare.")

    @model_validator(mode="after")
    def _complete(self) -> "Overlap":
        if self.against is not None and self.against not in self.runs:
            hint = f"{suggestion(self.against, self.runs)}; available: {', '.join(self.runs) or 'none'}"
            raise ValueError(f"against: no run is labelled {self.against}{hint}")
        if list(self.negatives) != list(self.met):
            raise ValueError("`negatives` and `met` must have the same labels in the same order")
        if len(self.runs) < 2 and not self.negatives:
            raise ValueError("give two runs, or negatives and runs (met) to find them in")
        return self

    @classmethod
    def arranged(cls, values: Mapping[str, Any], types: Mapping[str, str]) -> Mapping[str, Any]:
        """Return the fields; with negatives, the runs become `met`, one for each file of negatives."""
        negatives = values.get("negatives")
        if not negatives:
            if len(values["runs"]) < 2:
                raise UsageError("analyze overlap: give {runs} at least twice, or {negatives}", "runs", "negatives")
            return values
        runs = list(values["runs"].values()) * (len(negatives) if len(values["runs"]) == 1 else 1)
        if len(runs) != len(negatives):
            message = f"{len(negatives)} {{negatives}}, but {len(runs)} {{runs}}; give one run per file"
            raise UsageError(f"analyze overlap: {message}", "negatives", "runs")
        return {**values, "runs": {}, "against": None, "met": dict(zip(negatives, runs, strict=True))}

    def measure(self, inputs: AnalysisInputs) -> dict[str, Any]:
        """Return the overlap of run pairs, or of each run with `against`, and of training negatives with runs."""
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
        of += [(row["training"], "its training negatives", row) for row in results["negatives"]]
        rows = [
            [*names, percent(row["overlap"]), f"{row['queries']:,}", f"{sum(row['left_out'].values()):,}"]
            for *names, row in of
        ]
        return Table(("run", "compared with", f"overlap at {results['depth']}", "queries", "left out"), rows, 2)

    def explain(self, results: Any) -> str:
        return (
            f"Means over queries. Two runs: the share of one's top {results['depth']} documents that are also in "
            "the other's. Training negatives: the share that is among the top "
            f"{results['depth']} documents that the trained model retrieves, not counting relevant ones."
        )


_LONGEST, _CUT = 300, 120  # characters of a document that are kept, and in a table
_ROUNDING = 1e-9


class QueryWins(Analysis):
    """Show which queries one run wins and loses against another, and the documents on which they differ.

    Example: hardneg analyze query-wins --qrels qrels.txt --run dense.trec.gz --baseline bm25.trec.gz --limit 10
    """

    name = "query-wins"
    title = "wins and losses"
    paper = "ANCE, Tables 8 and 9"
    asks = ("qrels", "queries?", "corpus?", "relevance_level")

    run: Annotated[Name, MEASURED] = Field(description="The TREC run to compare.")
    against: Annotated[Name, MEASURED, Option("baseline")] = Field(description="The TREC run to compare it with.")
    metric: Annotated[MetricName, Option("metric", same=("metrics",))] = Field("ndcg@10", description="Metric to use.")
    examples: Annotated[int, Option("limit")] = Field(5, gt=0, description="Number of wins, and of losses, to print.")

    def measure(self, inputs: AnalysisInputs) -> dict[str, Any]:
        """Return counts of wins, losses and ties, and all cases, with document texts cut to 300 characters."""
        qrels, level, runs = inputs.qrels(), inputs.relevance_level, (inputs.run("run"), inputs.run("against"))
        ours, theirs = (next(iter(evaluate(run, qrels, [self.metric], level).values())) for run in runs)
        first, second = ({query_id: each.doc_ids for query_id, each in run.items()} for run in runs)
        results = cases((first, second), (ours, theirs), qrels)
        shown = [each for case in results for each in case["documents"] if each]
        queries = inputs.queries(inputs.split)
        texts = inputs.texts(list(dict.fromkeys(each["doc_id"] for each in shown)))
        for each in shown:
            each["text"] = texts.get(each["doc_id"], "")[:_LONGEST]
        return {
            **{path: inputs.label(path) for path in ("run", "against")},
            "metric": self.metric,
            "examples": self.examples,
            "wins": sum(case["difference"] > 0 for case in results),
            "losses": sum(case["difference"] < 0 for case in results),
            "ties": sum(case["difference"] == 0 for case in results),
            "queries": [{**case, "text": queries.get(case["query_id"], "")} for case in results],
        }

    def table(self, results: Any) -> Table:
        """Return the largest wins, then the largest losses, with the documents at the deciding rank."""
        won = [case for case in results["queries"] if case["difference"] > 0][: results["examples"]]
        lost = [case for case in results["queries"] if case["difference"] < 0][::-1][: results["examples"]]
        rows = [
            [
                f"{case['query_id']} {case['text']}".strip(),
                f"{case['ours']:.3f}",
                f"{case['theirs']:.3f}",
                str(case["rank"] or "–"),
                *map(_shown, case["documents"]),
            ]
            for case in [*won, *lost]
        ]
        sides = (results["run"], results["against"])
        return Table(("query", *sides, "rank", *sides), rows)

    def heading(self, results: Any) -> str:
        return f"{results['run']} against {results['against']}"

    def explain(self, results: Any) -> str:
        return (
            f"{results['wins']} won, {results['losses']} lost, {results['ties']} tied by {results['metric']}. The "
            "table shows the largest differences, each with the first rank at which the better run has a more relevant "
            "document or, failing that, at which the runs differ."
        )

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """Draw one bar per query, from the largest win to the largest loss."""
        differences = [case["difference"] for case in results["queries"]]
        colours = [COLOURS[0] if value > 0 else COLOURS[1] for value in differences]
        with figure(paths, 1, width=6.4) as (axes,):
            axes.bar(range(len(differences)), differences, color=colours, width=1.0)
            axes.axhline(0, color="#333333", linewidth=0.8)
            counts = f"{results['wins']} won, {results['losses']} lost, {results['ties']} tied"
            unit = f"difference in {results['metric']}"
            plain_axes(axes, f"{self.heading(results)}: {counts}", "queries, by difference", unit)


def cases(
    lists: tuple[Lists, Lists], values: tuple[Mapping[str, float], Mapping[str, float]], qrels: Any
) -> list[dict[str, Any]]:
    """Compare two runs on all judged queries; return cases by descending difference, then by query id.

    Args:
        lists: the lists of both runs, ours and theirs.
        values: the metric by query, for ours and for theirs.
        qrels: the relevance judgements.

    Returns:
        One case per query: `query_id`, the metric of `ours` and `theirs`, and the `difference`, 0 if due to rounding.
        `rank` is the first rank at which the better run has a more relevant document or, failing that, at which the
        lists differ; it is 0 if they are the same. `documents` are both documents at that rank, each with `doc_id` and
        `relevance` (None if unjudged), or None.

    Source: ANCE (Xiong et al., ICLR 2021), tables 8 and 9.
    """
    all_cases = []
    for query_id, judged in qrels.items():
        ours, theirs = (each[query_id] for each in values)
        pairs = list(zip_longest(lists[0].get(query_id, ()), lists[1].get(query_id, ())))
        different = [rank for rank, (first, second) in enumerate(pairs, 1) if first != second]
        grades = {rank: [max(0, judged.get(doc_id or "", 0)) for doc_id in pairs[rank - 1]] for rank in different}
        parting = (rank for rank, (first, second) in grades.items() if (first - second) * (ours - theirs) > 0)
        rank = next(parting, different[0] if different else 0)
        documents = [
            None if doc_id is None else {"doc_id": doc_id, "relevance": judged.get(doc_id)}
            for doc_id in (pairs[rank - 1] if rank else (None, None))
        ]
        difference = ours - theirs if abs(ours - theirs) > _ROUNDING else 0.0
        case = {"query_id": query_id, "ours": ours, "theirs": theirs, "difference": difference}
        all_cases.append({**case, "rank": rank, "documents": documents})
    return sorted(all_cases, key=lambda case: (-case["difference"], case["query_id"]))


class RecallAtDepth(Analysis):
    """Show the recall of runs at several depths, and nDCG at the deepest.

    Example: hardneg analyze recall-at-depth --qrels qrels.txt --run bm25.trec.gz --run dense.trec.gz --depth 100
    """

    name = "recall-at-depth"
    title = "recall of first stages"
    paper = "CoRT at TREC, Table 2"
    asks = ("qrels", "relevance_level")
    drawn = slice(1, None)

    runs: Annotated[dict[Name, Name], MEASURED, Option("run")] = Field(min_length=1)
    depths: Annotated[tuple[PositiveInt, ...], Option("depth"), Field(min_length=1)] = Field(
        (100, 200, 1000), description="Cutoff of recall; the default is 100, 200 and 1000."
    )

    def measure(self, inputs: AnalysisInputs) -> dict[str, Any]:
        """Return the result of `recall_at_depth` for the runs, with the depths in ascending order."""
        runs = inputs.runs("runs", self.runs)
        return recall_at_depth(runs, inputs.qrels(), sorted(set(self.depths)), inputs.relevance_level)

    def table(self, results: Any) -> Table:
        """Return one row per run: nDCG at the deepest cutoff and recall at each cutoff."""
        cuts = results["depths"]
        rows = [
            [label, f"{row['ndcg']:.4f}", *(f"{value:.4f}" for value in row["recall"])]
            for label, row in results["runs"].items()
        ]
        return Table(("run", f"ndcg@{max(cuts)}", *(f"recall@{cut}" for cut in cuts)), rows)

    def explain(self, results: Any) -> str:
        return f"Recall counts grades of {results['relevance_level']} or more as relevant; nDCG uses the grade itself."


def recall_at_depth(runs: Mapping[str, Any], qrels: Any, cuts: Sequence[int], level: int = 1) -> dict[str, Any]:
    """Return the cutoffs, the level and, by run label, mean `recall` at each cutoff and mean `ndcg` at the deepest.

    Means are over judged queries. Recall counts grades of at least `level` as relevant; nDCG uses the grades.

    Source: Wrzalik and Krechel, HSRM-LAVIS at TREC 2020 Deep Learning Track, table 2.
    """
    whole, names = f"ndcg@{max(cuts)}", [f"recall@{cut}" for cut in cuts]
    results = {}
    for label, run in runs.items():
        values = means(evaluate(run, qrels, [whole, *names], level))
        results[label] = {"recall": [values[name] for name in names], "ndcg": values[whole]}
    return {"depths": list(cuts), "relevance_level": level, "runs": results}


def _shown(shown: Mapping[str, Any] | None) -> str:
    if shown is None:
        return "–"
    grade = "not judged" if shown["relevance"] is None else f"grade {shown['relevance']}"
    text = shown["text"] if len(shown["text"]) <= _CUT else shown["text"][:_CUT] + "…"
    return f"{shown['doc_id']} ({grade}) {text}".strip()
