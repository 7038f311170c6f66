"""What an `analyze` stage made, as sections of a report: one table and one figure an analysis."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hardneg.evaluation.report import Section
from hardneg.stages.analyze import ABLATION, COSTS, DRIFT, ERRORS, PROJECTION


def sections(label: str, folder: Path, names: Sequence[str]) -> list[Section]:
    """The sections of the analyses `names` in the folder of a finished stage, which the report calls `label`."""
    found = []
    for name in names:
        title, columns, rows, explained = _TABLES[name](json.loads((folder / f"{name}.json").read_text("utf-8")))
        svg = (folder / f"{name}.svg").read_text("utf-8")
        found.append(Section(f"{label}: {title}", columns, rows, explained, svg))
    return found


_Table = tuple[str, Sequence[str], Sequence[Sequence[str]], str]


def _errors(content: Any) -> _Table:
    rows = [
        [
            label,
            "–" if table["total_errors"] is None else f"{table['total_errors']:,.1f}",
            f"{'≥ ' if table['at_least'] else ''}{table['top_errors']:,.1f}",
            f"{table['cut']:,}",
            f"{table['queries']:,}",
            f"{sum(table['left_out'].values()):,}",
        ]
        for label, table in content.items()
    ]
    explained = (
        "Negatives above a positive, summed over a query's positives: in the whole corpus, and within the top K "
        "negatives; means over queries. Copies of positives are neither positives nor negatives. "
        "≥: some positives are below what the run lists."
    )
    columns = ("system", "total errors", "top-K errors", "K", "queries", "left out")
    return "pairwise errors", columns, rows, explained


def _drift(content: Any) -> _Table:
    rows = [
        [label, name, f"{curve[0][1]:,.3f}", f"{curve[-1][1]:,.3f}", f"{curve[-1][0]:,.0f}"]
        for label, curves in content.items()
        for name, curve in curves.items()
    ]
    return "drift of fixed negatives", ("model", "measured", "first", "last", "at step"), rows, ""


def _ablation(content: Any) -> _Table:
    rows = [[label, f"{mean:.4f}"] for label, mean in content["means"].items()]
    return "ablation", ("system", content["metric"]), rows, ""


def _projection(content: Any) -> _Table:
    row = [content["text"], str(len(content["positives"])), str(len(content["negatives"]))]
    explained = "t-SNE: which points are close says something; distances and directions do not."
    return "projection", ("query", "positives", "negatives"), [row], explained


def _costs(content: Any) -> _Table:
    rows = [
        [
            row["method"],
            f"{row['seconds'] / 3600:,.3f}",
            f"{row['steps']:,}",
            ", ".join(row["devices"]) or "unknown",
            "unknown" if row["peak_memory"] is None else f"{row['peak_memory'] / 1e9:.1f}",
            "–" if row["speedup"] is None else f"{row['speedup']:.3g}×",
        ]
        for row in content
    ]
    explained = "Wall time of the training stages themselves; of one that went on from a checkpoint, of its last run."
    return "training costs", ("method", "hours", "steps", "device", "peak GB", "speed"), rows, explained


_TABLES: dict[str, Callable[[Any], _Table]] = {
    ERRORS: _errors,
    DRIFT: _drift,
    ABLATION: _ablation,
    PROJECTION: _projection,
    COSTS: _costs,
}
