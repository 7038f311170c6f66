"""Figure 5 of STAR/ADORE: one bar a system, by one metric."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from hardneg.reporting.figure import COLOURS, bar_width, figure, plain_axes


def draw_ablation(
    metric: str, means: Mapping[str, float], intervals: Mapping[str, tuple[float, float] | None], paths: Sequence[Path]
) -> None:
    """Means over queries with their 95 % intervals, in the order given; the bars start at zero."""
    with figure(paths, 1, width=bar_width(len(means))) as (axes,):
        places = range(len(means))
        axes.bar(places, list(means.values()), color=COLOURS[0], width=0.65)
        for place, (label, mean) in enumerate(means.items()):
            ends = intervals.get(label)
            if ends:
                axes.errorbar(
                    place, mean, [[mean - ends[0]], [ends[1] - mean]], color="#333333", capsize=3, linewidth=1
                )
            axes.annotate(f"{mean:.3f}", (place, 0), (0, 4), textcoords="offset points", ha="center", color="white")
        axes.set_xticks(places, list(means), rotation=20, ha="right", fontsize=8)
        plain_axes(axes, f"{metric} with 95 % intervals", "", metric)
