"""What an `analyze` stage made, as sections of a report: one table and one figure an analysis."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hardneg.analysis.costs import time_unit
from hardneg.analysis.operations import operation_table
from hardneg.reporting.table import Section, Table
from hardneg.stages.analyze import (
    ABLATION,
    CANDIDATES,
    COSTS,
    DENOISING,
    DEPTHS,
    DIMENSIONS,
    DRIFT,
    ERRORS,
    GRADIENTS,
    HOLES,
    MATRIX,
    OPERATIONS,
    OVERLAP,
    PLANTED,
    PROJECTION,
    REFRESHES,
    SCORES,
    SIZES,
    WINS,
)
from hardneg.stages.denoising_sections import denoising_section, example_section, planted_section
from hardneg.stages.first_stage_sections import candidate_section, depth_section, dimension_section
from hardneg.stages.run_sections import hole_section, overlap_section, score_section, win_section
from hardneg.stages.training_sections import gradient_section, refresh_section


def sections(label: str, folder: Path, names: Sequence[str]) -> list[Section]:
    """The sections of the analyses `names` in the folder of a finished stage, which the report calls `label`."""
    found = []
    contents = {name: json.loads((folder / f"{name}.json").read_text("utf-8")) for name in names}
    for name, content in contents.items():
        title, columns, rows, explained = _TABLES[name](content)
        if name == SIZES:
            columns, rows = _beside(columns, rows, contents)
        svg = (folder / f"{name}.svg").read_text("utf-8")
        found.append(Section(f"{label}: {title}", [Table(columns, rows)], explained, svg))
        if name == DENOISING and content["examples"]:
            title, columns, rows, explained = example_section(content)
            found.append(Section(f"{label}: {title}", [Table(columns, rows)], explained))
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


def _matrix(content: Any) -> _Table:
    rows = [
        [row, *("–" if value is None else f"{value:.4f}" for value in values)]
        for row, values in zip(content["rows"], content["values"], strict=True)
    ]
    down, across = content["axes"]
    explained = f"{content['metric']}; rows: {down}; columns: {across}." if down and across else ""
    return "matrix", (content["metric"], *content["columns"]), rows, explained


def _sizes(content: Any) -> _Table:
    rows = [
        [row["index"], f"{row['bytes'] / 1e6:,.2f}", f"{row['bytes_per_vector']:,.1f}", f"{row['ratio']:.1%}"]
        for row in content
    ]
    explained = "Bytes on disk without the ids; what an index has once, such as centroids, counts too."
    return "index sizes", ("index", "MB", "bytes a vector", "of the first"), rows, explained


def _beside(
    columns: Sequence[str], rows: Sequence[Sequence[str]], contents: Mapping[str, Any]
) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Rows and columns of the sizes, with what the matrix and the costs of the same stage say of the same labels."""
    for name, chosen in ((MATRIX, slice(1, None)), (COSTS, _COSTS_BESIDE)):
        if name in contents:
            _, others, known, _ = _TABLES[name](contents[name])
            found = {row[0]: row[chosen] for row in known}
            lacking = ["–"] * len(others[chosen])
            columns = [*columns, *others[chosen]]
            rows = [[*row, *found.get(row[0], lacking)] for row in rows]
    return columns, rows


def _projection(content: Any) -> _Table:
    row = [content["text"], str(len(content["positives"])), str(len(content["negatives"]))]
    explained = "t-SNE: which points are close says something; distances and directions do not."
    return "projection", ("query", "positives", "negatives"), [row], explained


def _costs(content: Any) -> _Table:
    unit, length = time_unit(row["seconds"] for row in content)
    rows = [
        [
            row["method"],
            f"{row['seconds'] / length:,.2f}",
            "unknown" if row["peak_memory"] is None else f"{row['peak_memory'] / 1e9:.1f}",
            "–" if row["speedup"] is None else f"{row['speedup']:.3g}×",
            f"{row['steps']:,}",
            ", ".join(row["devices"]) or "unknown",
        ]
        for row in content
    ]
    explained = "Wall time of the stages themselves; of one that was stopped, up to its checkpoints, and its last run."
    return "training costs", ("method", unit, "peak GB", "speed", "steps", "device"), rows, explained


def _operations(content: Any) -> _Table:
    explained = (
        "Wall time of whole stages over what they went through: a search opens its index and encodes its queries, a "
        "training measures its dev metrics and writes its checkpoints. Behind the colon: parts of the stage before; "
        "`making negatives` is all that refreshes took, for each step."
    )
    return "time of operations", *operation_table(content), explained


_COSTS_BESIDE = slice(1, 3)
"""Of the costs: time and peak memory."""


_TABLES: dict[str, Callable[[Any], _Table]] = {
    ERRORS: _errors,
    DRIFT: _drift,
    GRADIENTS: gradient_section,
    REFRESHES: refresh_section,
    SCORES: score_section,
    OVERLAP: overlap_section,
    HOLES: hole_section,
    WINS: win_section,
    DENOISING: denoising_section,
    PLANTED: planted_section,
    DEPTHS: depth_section,
    CANDIDATES: candidate_section,
    DIMENSIONS: dimension_section,
    ABLATION: _ablation,
    MATRIX: _matrix,
    SIZES: _sizes,
    PROJECTION: _projection,
    COSTS: _costs,
    OPERATIONS: _operations,
}
