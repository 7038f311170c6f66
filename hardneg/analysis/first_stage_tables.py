"""What first stages find, by depth, number of candidates and size of vectors, as tables of words."""

from collections.abc import Mapping
from typing import Any

from hardneg.analysis.history_tables import Columns, Rows


def depth_table(content: Mapping[str, Any]) -> tuple[Columns, Rows]:
    """One row a run: nDCG at the deepest cut, recall at each."""
    cuts = content["depths"]
    rows = [
        [label, f"{row['ndcg']:.4f}", *(f"{value:.4f}" for value in row["recall"])]
        for label, row in content["runs"].items()
    ]
    return ("run", f"ndcg@{max(cuts)}", *(f"recall@{cut}" for cut in cuts)), rows


def candidate_table(content: Mapping[str, Any]) -> tuple[Columns, Rows]:
    """One row a number of candidates: quality of each pipeline, then the recall of its candidates."""
    runs, metric = content["runs"], content["metric"]
    rows = [
        [f"{found[0]['candidates']:,}", *(f"{row[name]:.4f}" for name in ("quality", "recall") for row in found)]
        for found in zip(*runs.values(), strict=True)
    ]
    columns = [f"{label}: {name}" for name in (metric, "recall") for label in runs]
    return ("candidates", *columns), rows


def dimension_table(content: Mapping[str, Any]) -> tuple[Columns, Rows]:
    """One row a size of vectors, one column a series; a dash where it has no such size."""
    series = {label: dict(points) for label, points in content["runs"].items()}
    sizes = sorted({size for points in series.values() for size in points})
    rows = [
        [f"{size:,}", *(f"{points[size]:.4f}" if size in points else "–" for points in series.values())]
        for size in sizes
    ]
    return ("dimensions", *(f"{label}: {content['metric']}" for label in series)), rows
