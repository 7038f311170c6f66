"""Figure 6 of STAR/ADORE: a query, its positives and its negatives before and after training."""

from collections.abc import Sequence
from pathlib import Path

from hardneg.analysis.projection import Neighbourhood
from hardneg.reporting.figure import COLOURS, figure, plain_axes


def draw_projection(panels: dict[str, Neighbourhood], paths: Sequence[Path]) -> None:
    """One panel a model, all in the same plane: crosses are negatives, discs positives, the star is the query."""
    with figure(paths, len(panels), height=4.2) as drawn:
        for axes, (label, points) in zip(drawn, panels.items(), strict=True):
            axes.scatter(*points.negatives.T, marker="x", s=18, color="#8a8f94", label="negatives", linewidths=0.9)
            axes.scatter(*points.positives.T, marker="o", s=42, color=COLOURS[0], label="positives")
            axes.scatter(*points.query, marker="*", s=190, color=COLOURS[1], edgecolors="black", label="query")
            plain_axes(axes, label, "t-SNE, first coordinate", "t-SNE, second coordinate")
        drawn[0].legend(frameon=False, fontsize=8, ncols=3, loc="upper left", bbox_to_anchor=(0, -0.14))
        for axes in drawn[1:]:
            axes.sharex(drawn[0])
            axes.sharey(drawn[0])
            drawn[0].autoscale()
