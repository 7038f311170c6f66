"""Figures of what runs say: the tail of scores, overlaps, holes, wins and losses."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hardneg.analysis.run_tables import percent
from hardneg.reporting.figure import COLOURS, bar_width, bars, figure, lines, plain_axes


def draw_scores(found: Mapping[str, Sequence[Mapping[str, Any]]], paths: Sequence[Path]) -> None:
    """Figure 3 of ANCE: one panel a depth, one line a run, eight queries of ten in its band; single ones are thin."""
    depths = sorted({tail["depth"] for tails in found.values() for tail in tails})
    with figure(paths, max(1, len(depths))) as panels:
        for axes, depth in zip(panels, depths, strict=False):
            _tails(axes, {label: tail for label, tails in found.items() for tail in tails if tail["depth"] == depth})
            plain_axes(axes, f"scores of the first {depth:,}", "rank", "share of the best (the last: 0)")


def _tails(axes: Any, tails: Mapping[str, Mapping[str, Any]]) -> None:
    lines(axes, {label: list(zip(tail["ranks"], tail["mean"], strict=True)) for label, tail in tails.items()})
    for place, tail in enumerate(tails.values()):
        look = {"color": COLOURS[place % len(COLOURS)], "alpha": 0.15, "linewidth": 0}
        axes.fill_between(tail["ranks"], tail["low"], tail["high"], **look)
        for shares in tail.get("single", {}).values():
            axes.plot(tail["ranks"], shares, color=look["color"], alpha=0.5, linewidth=0.7)


def draw_overlap(content: Mapping[str, Any], paths: Sequence[Path]) -> None:
    """One bar a pair of runs, and in a second panel one a training."""
    runs = {f"{row['run']} in {row['against']}": row["overlap"] for row in content["runs"]}
    trained = {row["training"]: row["overlap"] for row in content["negatives"]}
    panels = {"overlap of runs": runs, "training negatives met in testing": trained}
    _shares({f"{title}, {content['depth']} deep": shares for title, shares in panels.items() if shares}, paths)


def draw_holes(content: Mapping[str, Any], paths: Sequence[Path]) -> None:
    """One bar a run: documents that nobody judged; in a second panel the overlap, where it was measured."""
    panels = {f"not judged, of the first {content['depth']}": _column(content, "holes")}
    if content["against"]:
        title = f"overlap with {content['against']}, {content['overlap_depth']} deep"
        panels[title] = _column(content, "overlap")
    _shares(panels, paths)


def _column(content: Mapping[str, Any], name: str) -> dict[str, float | None]:
    return {label: row[name] for label, row in content["runs"].items()}


def _shares(panels: Mapping[str, Mapping[str, float | None]], paths: Sequence[Path]) -> None:
    widest = max(len(shares) for shares in panels.values())
    with figure(paths, len(panels), width=bar_width(widest)) as drawn:
        for axes, (title, shares) in zip(drawn, panels.items(), strict=True):
            known = {label: 100 * (share or 0.0) for label, share in shares.items()}
            bars(axes, known, {label: percent(share) for label, share in shares.items()})
            plain_axes(axes, title, "", "share (%)")


def draw_wins(content: Mapping[str, Any], paths: Sequence[Path]) -> None:
    """One bar a query, from the greatest win to the greatest loss."""
    differences = [case["difference"] for case in content["queries"]]
    colours = [COLOURS[0] if value > 0 else COLOURS[1] for value in differences]
    with figure(paths, 1, width=6.4) as (axes,):
        axes.bar(range(len(differences)), differences, color=colours, width=1.0)
        axes.axhline(0, color="#333333", linewidth=0.8)
        counts = f"{content['wins']} won, {content['losses']} lost, {content['ties']} equal"
        title = f"{content['run']} against {content['against']}: {counts}"
        plain_axes(axes, title, "queries, by difference", f"difference in {content['metric']}")
