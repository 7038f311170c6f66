"""Figure 3 of STAR/ADORE: how pairwise errors are spread over queries."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hardneg.analysis.error_table import Bucket
from hardneg.reporting.figure import COLOURS, figure, plain_axes


def draw_errors(distributions: Mapping[str, Sequence[Bucket]], paths: Sequence[Path]) -> None:
    """One panel a system: bars are the share of queries by number of errors, the line is their share of all errors."""
    names = max(([bucket.label for bucket in buckets] for buckets in distributions.values()), key=len, default=[])
    with figure(paths, max(1, len(distributions))) as panels:
        for axes, (label, buckets) in zip(panels, distributions.items(), strict=False):
            _panel(axes, label, buckets)
            axes.set_xticks(range(len(names)), names, rotation=30, ha="right", fontsize=8)


def _panel(axes: Any, label: str, buckets: Sequence[Bucket]) -> None:
    places = range(len(buckets))
    axes.bar(places, [100 * b.queries for b in buckets], color=COLOURS[0], width=0.7, label="of all queries")
    axes.plot(places, [100 * b.errors for b in buckets], color=COLOURS[1], marker="o", label="of all errors")
    plain_axes(axes, label, "pairwise errors of a query", "share (%)")
    axes.set_ylim(0, 120)
    axes.set_yticks(range(0, 101, 20))
    axes.legend(frameon=False, fontsize=8, ncols=2, loc="upper right")
