"""What runs say of scores, overlaps, holes and wins, as tables of words."""

from collections.abc import Mapping, Sequence
from typing import Any

from hardneg.analysis.history_tables import Columns, Rows

_SHOWN = 120


def score_table(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> tuple[Columns, Rows]:
    """One row a run and depth; `found` is what `score_tails` says of each run."""
    rows = [
        [
            label,
            f"{tail['depth']:,}",
            f"{tail['half']:,}",
            f"{_halfway(tail):.3f}",
            f"{tail['score'][0]:.4g}",
            f"{tail['score'][-1]:.4g}",
            f"{tail['queries']:,}",
        ]
        for label, tails in found.items()
        for tail in tails
    ]
    return ("run", "depth", "below half from", "half-way", "best score", "last score", "queries"), rows


def _halfway(tail: Mapping[str, Any]) -> float:
    """The mean share at the rank next to half of the depth that is told."""
    place = min(range(len(tail["ranks"])), key=lambda i: abs(tail["ranks"][i] - tail["depth"] / 2))
    return float(tail["mean"][place])


def overlap_table(content: Mapping[str, Any]) -> tuple[Columns, Rows]:
    """One row a pair of runs, then one a training."""
    rows = [[row["run"], row["against"], *_shares(row)] for row in content["runs"]]
    rows += [[row["training"], "negatives met in testing", *_shares(row)] for row in content["negatives"]]
    return ("of", "also in", f"overlap at {content['depth']}", "queries", "left out"), rows


def _shares(row: Mapping[str, Any]) -> list[str]:
    return [percent(row["overlap"]), f"{row['queries']:,}", f"{sum(row['left_out'].values()):,}"]


def hole_table(content: Mapping[str, Any]) -> tuple[Columns, Rows]:
    """One row a run: metrics, hole rate, overlap, queries."""
    metrics = list(next(iter(content["runs"].values()))["metrics"])
    shared = [f"overlap with {content['against']} at {content['overlap_depth']}"] if content["against"] else []
    rows = [
        [
            label,
            *(f"{row['metrics'][name]:.4f}" for name in metrics),
            percent(row["holes"]),
            *([percent(row["overlap"])] if shared else []),
            f"{row['queries']:,}",
        ]
        for label, row in content["runs"].items()
    ]
    return ("run", *metrics, f"holes at {content['depth']}", *shared, "queries"), rows


def win_table(content: Mapping[str, Any], examples: int) -> tuple[Columns, Rows]:
    """The queries that are won by most, then those that are lost by most, with the documents on which they part."""
    won = [case for case in content["queries"] if case["difference"] > 0][:examples]
    lost = [case for case in content["queries"] if case["difference"] < 0][::-1][:examples]
    rows = [
        [
            f"{case['query_id']} {case['text']}".strip(),
            f"{case['ours']:.3f}",
            f"{case['theirs']:.3f}",
            str(case["rank"] or "–"),
            *map(_document, case["documents"]),
        ]
        for case in [*won, *lost]
    ]
    return ("query", content["run"], content["against"], "rank", content["run"], content["against"]), rows


def _document(shown: Mapping[str, Any] | None) -> str:
    if shown is None:
        return "–"
    grade = "not judged" if shown["relevance"] is None else f"grade {shown['relevance']}"
    return f"{shown['doc_id']} ({grade}) {shortened(shown['text'])}".strip()


def shortened(text: str) -> str:
    """A text for a table's cell."""
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def percent(share: float | None) -> str:
    """A share in percent; a dash where there is none."""
    return "–" if share is None else f"{share:.1%}"
