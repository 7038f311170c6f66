"""What filters of negatives dropped, as tables of words."""

from collections.abc import Mapping, Sequence
from typing import Any

from hardneg.analysis.history_tables import Columns, Rows
from hardneg.analysis.run_tables import percent, shortened

_LAST_RANKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_FILTERED = "score"


def share_table(filters: Mapping[str, Mapping[str, Any]]) -> tuple[Columns, Rows]:
    """One row a filter and band of ranks, and one for all ranks: the share dropped by score, then counts by reason."""
    reasons = sorted({reason for found in filters.values() for reason in found["dropped"]})
    rows = []
    for label, found in filters.items():
        bands = _bands(len(found["candidates"]))
        every = [(1, len(found["candidates"]))] if len(bands) > 1 else []
        rows += [[label, *_band(found, first, last, reasons)] for first, last in [*bands, *every]]
    return ("filter", "ranks", "dropped by score", "candidates", *reasons), rows


def _bands(ranks: int) -> list[tuple[int, int]]:
    """First and last ranks: 1, 2, 3 to 5, 6 to 10, and so on to the last."""
    lasts = [last for last in _LAST_RANKS if last < ranks] + [ranks] * (ranks > 0)
    return list(zip([1, *(last + 1 for last in lasts)], lasts, strict=False))


def _band(found: Mapping[str, Any], first: int, last: int, reasons: Sequence[str]) -> list[str]:
    part = slice(first - 1, last)
    candidates = sum(found["candidates"][part])
    dropped = {reason: sum(counts[part]) for reason, counts in found["dropped"].items()}
    aside = sum(dropped.get(reason, 0) for reason in ("positive", "duplicate", "repeated"))
    share = dropped.get(_FILTERED, 0) / (candidates - aside) if candidates > aside else None
    ranks = str(first) if first == last else f"{first}–{last}"
    return [ranks, percent(share), f"{candidates:,}", *(f"{dropped.get(reason, 0):,}" for reason in reasons)]


def example_table(examples: Sequence[Mapping[str, Any]]) -> tuple[Columns, Rows]:
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
    return ("filter", "query", "known positive", "score", "dropped", "first negative"), rows


def _document(shown: Mapping[str, Any] | None) -> str:
    if shown is None:
        return "–"
    rank = f"rank {shown['rank']} " if shown.get("rank") else ""
    return f"{rank}{shown['doc_id']} {shortened(shown['text'])}".strip()


def planted_table(scores: Mapping[str, Mapping[str, Any]]) -> tuple[Columns, Rows]:
    """One row a run of scores, filter and threshold."""
    rows = [
        [
            f"{name} by {label}",
            f"{point['threshold']:g}",
            *(percent(point[share]) for share in ("recall", "precision", "kept")),
            f"{point['removed']:,}",
        ]
        for label, found in scores.items()
        for name, points in found["filters"].items()
        for point in points
    ]
    return ("filter", "threshold", "hidden removed", "precision", "true negatives kept", "removed"), rows
