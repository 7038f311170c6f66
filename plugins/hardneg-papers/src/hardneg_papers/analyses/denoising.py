"""What a filter of negatives dropped: how much at each rank, and documents that it was most sure of."""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from hardneg.plugin import (
    Analysis,
    AnalysisInputs,
    ArtifactError,
    Name,
    Option,
    Reference,
    Table,
    UsageError,
    figures,
    negatives_files,
)
from hardneg_papers.analyses.shared import Points, percent, shortened

_SCORE = "score"
_NEVER = ("positive", "duplicate", "repeated")
_LONGEST = 300
_LAST_RANKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


class Denoising(Analysis):
    """Show what a filter of negatives dropped: the share at each rank, and the documents it was most sure of.

    Example: hardneg analyze denoising mined/dropped.arrow --queries queries.jsonl --corpus corpus.jsonl --plot d.svg
    """

    name = "denoising"
    title = "what was dropped, by rank"
    explained = (
        "Of the candidates at a rank, known positives and copies left out, the share that was dropped for its score; "
        "then how many were dropped for which reason. Examples are the queries with the highest scores that were "
        "dropped for them: a known positive, the document that was dropped, and the first negative that was chosen."
    )
    paper = "RocketQA, Figure 5 and Table 4"
    asks = ("queries?", "corpus?")

    negatives: Annotated[dict[Name, Name], Reference(("negatives",)), Option(metavar="DROPPED...", argument=True)] = (
        Field(min_length=1, description="dropped.arrow files, each beside its negatives.arrow.")
    )
    examples: Annotated[int, Option("limit")] = Field(5, ge=0, description="How many queries to print of each.")

    def measure(self, inputs: AnalysisInputs) -> dict[str, Any]:
        """Shares by rank of each filter, and examples with texts."""
        files = {label: inputs.mined(f"negatives.{label}") for label in self.negatives}
        results = {label: to_json(shares(dropped)) for label, (dropped, _) in files.items()}
        shown: list[dict[str, Any]] = []
        for label, (dropped, negatives) in files.items():
            if self.examples and not negatives.is_file():
                raise UsageError(
                    f"{negatives}: not there, and examples need it; give {{examples}} 0 for the shares alone",
                    "examples",
                )
            cases = examples(dropped, negatives, self.examples)
            queries = inputs.queries(None) if cases else {}
            texts = inputs.texts(list(dict.fromkeys(each["doc_id"] for case in cases for each in _documents(case))))
            for case in cases:
                for each in _documents(case):
                    each["text"] = texts.get(each["doc_id"], "")[:_LONGEST]
                query_id = case.pop("query_id")
                shown.append({"filter": label, "query_id": query_id, "text": queries.get(query_id, ""), **case})
        return {"filters": results, "examples": shown}

    def tables(self, results: Any) -> Sequence[Table]:
        """The shares, and the examples where there are some."""
        return [self.table(results), *([_example_table(results["examples"])] if results["examples"] else [])]

    def table(self, results: Any) -> Table:
        """One row a filter and band of ranks, and one for all ranks: the share dropped by score, counts by reason."""
        reasons = sorted({reason for each in results["filters"].values() for reason in each["dropped"]})
        rows = []
        for label, each in results["filters"].items():
            # 1, 2, 3 to 5, 6 to 10, and so on to the last rank
            ranks = len(each["candidates"])
            lasts = [last for last in _LAST_RANKS if last < ranks] + [ranks] * (ranks > 0)
            bands = list(zip([1, *(last + 1 for last in lasts)], lasts, strict=False))
            every = [(1, len(each["candidates"]))] if len(bands) > 1 else []
            rows += [[label, *_band(each, first, last, reasons)] for first, last in [*bands, *every]]
        return Table(("filter", "ranks", "dropped by score", "candidates", *reasons), rows)

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """By rank, the share that is dropped by score, one line a filter."""
        series: dict[str, Points] = {
            label: [(rank, 100 * share) for rank, share in enumerate(each["filtered"], 1) if share is not None]
            for label, each in results["filters"].items()
        }
        with figures.figure(paths, 1, width=5.4) as (axes,):
            figures.lines(axes, series)
            figures.plain_axes(axes, "candidates dropped by their score", "rank", "share (%)")
            axes.set_ylim(bottom=0)


@dataclass(frozen=True)
class DropCounts:
    """Counts by rank; R ranks, the first is rank 1.

    queries: how many were mined. candidates: int64 [R], how many lists were looked at so far down. dropped: by reason
    int64 [R].
    """

    queries: int
    candidates: NDArray[np.int64]
    dropped: dict[str, NDArray[np.int64]]

    @property
    def in_question(self) -> NDArray[np.int64]:
        """int64 [R], candidates that are no known positives and no copies."""
        return self.candidates - sum((self.dropped[name] for name in _NEVER if name in self.dropped), np.int64(0))

    def filtered(self) -> NDArray[np.float64]:
        """float64 [R], the share of those in question that was dropped by score; nan where there are none.

        Source: RocketQA (Qu et al., NAACL 2021), figure 5.
        """
        by_score = self.dropped.get(_SCORE, np.zeros(len(self.candidates), np.int64))
        shares = np.full(len(by_score), np.nan)
        np.divide(by_score, self.in_question, shares, where=self.in_question > 0)
        return shares


def shares(dropped: Path) -> DropCounts:
    """The counts of a `dropped.arrow`. Raises ArtifactError where it is missing or damaged."""
    queries, candidates = 0, np.zeros(0, np.int64)
    counts: dict[str, NDArray[np.int64]] = {}
    for batch in negatives_files.drop_batches(dropped):
        queries += batch.num_rows
        looked_at = np.bincount(batch.column("candidates").to_numpy())
        candidates = _added(candidates, looked_at[::-1].cumsum()[::-1][1:])
        reasons = batch.column("reasons").flatten().dictionary_encode()
        ranks, codes = batch.column("ranks").flatten().to_numpy(), reasons.indices.to_numpy()
        for code, reason in enumerate(reasons.dictionary.to_pylist()):
            counted = np.bincount(ranks[codes == code])[1:]
            counts[reason] = _added(counts.get(reason, np.zeros(0, np.int64)), counted)
    return DropCounts(queries, candidates, {name: _added(counted, candidates * 0) for name, counted in counts.items()})


def _added(one: NDArray[np.int64], two: NDArray[np.int64]) -> NDArray[np.int64]:
    total = np.zeros(max(len(one), len(two)), np.int64)
    total[: len(one)] += one
    total[: len(two)] += two
    return total


def examples(dropped: Path, negatives: Path, count: int) -> list[dict[str, Any]]:
    """The queries with the highest scores that were dropped by them, of those that have negatives, best first.

    Of each the document with the highest score that was `dropped` by it, with rank and score, and the first negative
    that was `kept`, with its rank, None where that is not known; both without texts.

    Source: RocketQA (Qu et al., NAACL 2021), table 4.

    Args:
        dropped: a `dropped.arrow`.
        negatives: the `negatives.arrow` of the same queries.
        count: how many queries to show; of 0 the files are not read.

    Raises:
        ArtifactError: a file is missing or damaged, or the two are not of the same queries.
    """
    if not count:
        return []
    mined, start = negatives_files.read_negatives(negatives), 0
    best: list[tuple[float, int, dict[str, Any]]] = []
    batches = negatives_files.drop_batches(dropped)
    if sum(batch.num_rows for batch in batches) != len(mined):
        raise ArtifactError(f"{dropped}: is not of the queries of {negatives}; give two files of one mining")
    for batch in batches:
        for row, entry in _most_confident(batch, count):
            item = mined[start + row]
            columns = (batch.column(name)[row] for name in ("doc_ids", "ranks", "scores", "chosen"))
            doc_ids, ranks, scores, chosen = columns
            score = float(scores[entry].as_py())
            case: dict[str, Any] = {
                "query_id": batch.column("query_id")[row].as_py(),
                "positive": {"doc_id": item.positives[0]} if item.positives else None,
                "dropped": {"doc_id": doc_ids[entry].as_py(), "rank": ranks[entry].as_py(), "score": score},
                "kept": {"doc_id": item.negatives[0], "rank": chosen[0].as_py() or None},
            }
            best.append((-score, start + row, case))
        best = heapq.nsmallest(count, best)
        start += batch.num_rows
    return [example for _, _, example in best]


def _most_confident(batch: pa.RecordBatch, count: int) -> Iterator[tuple[int, int]]:
    """Rows with negatives, and in each the entry of the highest score that was dropped by it; the best `count` rows."""
    scores, reasons = (batch.column(name).flatten() for name in ("scores", "reasons"))
    by_score = np.flatnonzero(reasons.to_numpy(zero_copy_only=False) == _SCORE)
    starts = batch.column("doc_ids").offsets.to_numpy()
    chosen = batch.column("chosen").value_lengths().to_numpy()
    seen: set[int] = set()
    for entry in by_score[np.argsort(-scores.to_numpy()[by_score], stable=True)].tolist():
        row = int(np.searchsorted(starts, entry, "right")) - 1
        if chosen[row] and row not in seen:
            seen.add(row)
            yield row, entry - int(starts[row])
        if len(seen) == count:
            return


def to_json(drops: DropCounts) -> dict[str, Any]:
    """Numbers by rank, from the first one."""
    filtered = [None if np.isnan(share) else share for share in drops.filtered().tolist()]
    dropped = {reason: counts.tolist() for reason, counts in drops.dropped.items()}
    return {"queries": drops.queries, "candidates": drops.candidates.tolist(), "dropped": dropped, "filtered": filtered}


def _documents(case: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [case[name] for name in ("positive", "dropped", "kept") if case[name]]


def _band(results: Mapping[str, Any], first: int, last: int, reasons: Sequence[str]) -> list[str]:
    part = slice(first - 1, last)
    candidates = sum(results["candidates"][part])
    dropped = {reason: sum(counts[part]) for reason, counts in results["dropped"].items()}
    aside = sum(dropped.get(reason, 0) for reason in _NEVER)
    share = dropped.get(_SCORE, 0) / (candidates - aside) if candidates > aside else None
    ranks = str(first) if first == last else f"{first}–{last}"
    return [ranks, percent(share), f"{candidates:,}", *(f"{dropped.get(reason, 0):,}" for reason in reasons)]


def _example_table(examples: Sequence[Mapping[str, Any]]) -> Table:
    """One row a query: its positive, what was dropped, what was kept."""
    rows = [
        [
            case["filter"],
            f"{case['query_id']} {case['text']}".strip(),
            _document(case["positive"]),
            f"{case['dropped']['score']:.4g}",
            _document(case["dropped"]),
            _document(case["kept"]),
        ]
        for case in examples
    ]
    return Table(("filter", "query", "known positive", "score", "dropped", "first negative"), rows, 3)


def _document(shown: Mapping[str, Any] | None) -> str:
    if shown is None:
        return "–"
    rank = f"rank {shown['rank']} " if shown.get("rank") else ""
    return f"{rank}{shown['doc_id']} {shortened(shown['text'])}".strip()
