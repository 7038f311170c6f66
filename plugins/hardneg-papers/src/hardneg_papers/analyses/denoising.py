"""What a filter of negatives dropped: how much at each rank, and documents that it was most sure of."""

import heapq
from collections.abc import Iterator, Mapping, Sequence
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
from hardneg_papers.analyses.shared import percent, shortened

_SCORE = "score"
_NEVER = ("positive", "duplicate", "repeated")
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
        """Shares by rank of each filter, and examples with texts, cut at 300 characters."""
        files = {label: inputs.mined(f"negatives.{label}") for label in self.negatives}
        results = {label: shares(dropped) for label, (dropped, _) in files.items()}
        shown: list[dict[str, Any]] = []
        for label, (dropped, negatives) in files.items():
            if self.examples and not negatives.is_file():
                raise UsageError(
                    f"{negatives}: not there, and examples need it; give {{examples}} 0 for the shares alone",
                    "examples",
                )
            cases = examples(dropped, negatives, self.examples) if self.examples else []
            queries = inputs.queries(None) if cases else {}
            documents = [case[name] for case in cases for name in ("positive", "dropped", "kept") if case[name]]
            texts = inputs.texts(list(dict.fromkeys(each["doc_id"] for each in documents)))
            for each in documents:
                each["text"] = texts.get(each["doc_id"], "")[:300]
            shown += [{"filter": label, "text": queries.get(case["query_id"], ""), **case} for case in cases]
        return {"filters": results, "examples": shown}

    def tables(self, results: Any) -> Sequence[Table]:
        """The shares; and, where there are examples, a row a query: its positive, what was dropped, what was kept."""
        rows = [
            [
                case["filter"],
                f"{case['query_id']} {case['text']}".strip(),
                _document(case["positive"]),
                f"{case['dropped']['score']:.4g}",
                _document(case["dropped"]),
                _document(case["kept"]),
            ]
            for case in results["examples"]
        ]
        columns = ("filter", "query", "known positive", "score", "dropped", "first negative")
        return [self.table(results), *([Table(columns, rows, 3)] if rows else [])]

    def table(self, results: Any) -> Table:
        """One row a filter and band of ranks, and one for all ranks: the share dropped by score, counts by reason."""
        reasons = sorted({reason for each in results["filters"].values() for reason in each["dropped"]})
        rows = []
        for label, each in results["filters"].items():
            # 1, 2, 3 to 5, 6 to 10, and so on to the last rank
            ranks = len(each["candidates"])
            lasts = [last for last in _LAST_RANKS if last < ranks] + [ranks] * (ranks > 0)
            bands = list(zip([1, *(last + 1 for last in lasts)], lasts, strict=False))
            for first, last in [*bands, *([(1, ranks)] if len(bands) > 1 else [])]:
                part = slice(first - 1, last)
                candidates = sum(each["candidates"][part])
                dropped = {reason: sum(each["dropped"].get(reason, [])[part]) for reason in {*reasons, *_NEVER, _SCORE}}
                asked = candidates - sum(dropped[reason] for reason in _NEVER)
                share = percent(dropped[_SCORE] / asked if asked > 0 else None)
                at = str(first) if first == last else f"{first}–{last}"
                rows.append([label, at, share, f"{candidates:,}", *(f"{dropped[reason]:,}" for reason in reasons)])
        return Table(("filter", "ranks", "dropped by score", "candidates", *reasons), rows)

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """By rank, the share that is dropped by score, one line a filter."""
        series: dict[str, figures.Points] = {
            label: [(rank, 100 * share) for rank, share in enumerate(each["filtered"], 1) if share is not None]
            for label, each in results["filters"].items()
        }
        with figures.figure(paths, 1, width=5.4) as (axes,):
            figures.lines(axes, series)
            figures.plain_axes(axes, "candidates dropped by their score", "rank", "share (%)")
            axes.set_ylim(bottom=0)


def _document(shown: Mapping[str, Any] | None) -> str:
    if shown is None:
        return "–"
    rank = f"rank {shown['rank']} " if shown.get("rank") else ""
    return f"{rank}{shown['doc_id']} {shortened(shown['text'])}".strip()


def shares(dropped: Path) -> dict[str, Any]:
    """Counts of a `dropped.arrow` by rank, from the first one; raises ArtifactError where it is missing or damaged.

    `queries`: how many were mined. By rank: `candidates`, how many lists were looked at so far down; `dropped`, by
    reason; `filtered`, the share dropped by score of those that are no known positives and no copies, None where there
    are none.

    Source: RocketQA (Qu et al., NAACL 2021), figure 5.
    """
    queries, looked_at, counts = 0, np.zeros(1, np.int64), dict[str, NDArray[np.int64]]()

    def added(total: NDArray[np.int64], more: NDArray[np.int64]) -> NDArray[np.int64]:
        summed = np.zeros(max(len(total), len(more)), np.int64)
        summed[: len(total)] += total
        summed[: len(more)] += more
        return summed

    for batch in negatives_files.drop_batches(dropped):
        queries += batch.num_rows
        looked_at = added(looked_at, np.bincount(batch.column("candidates").to_numpy()))
        reasons = batch.column("reasons").flatten().dictionary_encode()
        ranks, codes = batch.column("ranks").flatten().to_numpy(), reasons.indices.to_numpy()
        for code, reason in enumerate(reasons.dictionary.to_pylist()):
            counts[reason] = added(counts.get(reason, np.zeros(1, np.int64)), np.bincount(ranks[codes == code]))
    candidates = looked_at[::-1].cumsum()[::-1][1:]
    by_reason = {reason: added(counted, 0 * looked_at)[1:] for reason, counted in counts.items()}
    aside = sum((by_reason[name] for name in _NEVER if name in by_reason), 0 * candidates)
    by_score = by_reason.get(_SCORE, 0 * candidates)
    pairs = zip(by_score.tolist(), (candidates - aside).tolist(), strict=True)
    return {
        "queries": queries,
        "candidates": candidates.tolist(),
        "dropped": {reason: counted.tolist() for reason, counted in by_reason.items()},
        "filtered": [count / asked if asked > 0 else None for count, asked in pairs],
    }


def examples(dropped: Path, negatives: Path, count: int) -> list[dict[str, Any]]:
    """The `count` queries with the highest scores that were dropped by them, of those that have negatives, best first.

    Of each the document with the highest score that was `dropped` by it, with rank and score, and the first negative
    that was `kept`, with its rank, None where that is not known; both without texts.

    Args:
        dropped: a `dropped.arrow`.
        negatives: the `negatives.arrow` of the same queries.
        count: how many queries to show.

    Raises:
        ArtifactError: a file is missing or damaged, or the two are not of the same queries.

    Source: RocketQA (Qu et al., NAACL 2021), table 4.
    """
    mined, start = negatives_files.read_negatives(negatives), 0
    best: list[tuple[float, int, dict[str, Any]]] = []
    batches = negatives_files.drop_batches(dropped)
    if sum(batch.num_rows for batch in batches) != len(mined):
        raise ArtifactError(f"{dropped}: is not of the queries of {negatives}; give two files of one mining")
    for batch in batches:
        for row, entry in _most_confident(batch, count):
            item = mined[start + row]
            doc_ids, ranks, scores, chosen = (
                batch.column(name)[row] for name in ("doc_ids", "ranks", "scores", "chosen")
            )
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
