"""`hardneg analyze drift`, `gradients` and `refreshes`: of the histories of trainings."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from hardneg.cli.analyses.output import AsJson, Overwrite, Plot, check_plot, drawing, show
from hardneg.cli.evaluate import run_labels
from hardneg.errors import UsageError

Histories = Annotated[list[Path], typer.Argument(metavar="HISTORY...", help="history.jsonl files of trainings.")]


def drift(histories: Histories, as_json: AsJson = False, plot: Plot = None, overwrite: Overwrite = False) -> None:
    """Show how fixed negatives age while a model learns: overlap with the real hard ones, best rank, a metric.

    Example: hardneg analyze drift static/history.jsonl dynamic/history.jsonl --plot drift.svg
    """
    from hardneg.analysis.figures.drift import draw_drift
    from hardneg.analysis.history_curves import drift_curves

    check_plot(plot, overwrite, histories)
    curves = _of_each(histories, drift_curves, "holds no `drift`; train with `watch`")
    if plot:
        with drawing(plot):
            draw_drift(curves, [plot])
    rows = [
        [label, name, f"{curve[0][1]:,.4g}", f"{curve[-1][1]:,.4g}", f"{curve[-1][0]:,.0f}"]
        for label, measured in curves.items()
        for name, curve in measured.items()
    ]
    show(curves, as_json, ("history", "measured", "first", "last", "at step"), rows)


def gradients(histories: Histories, as_json: AsJson = False, plot: Plot = None, overwrite: Overwrite = False) -> None:
    """Show the loss and the norms of the gradients while a model trains, by third of its layers.

    Example: hardneg analyze gradients bm25/history.jsonl refreshed/history.jsonl --plot gradients.svg
    """
    from hardneg.analysis.figures.gradients import draw_gradients
    from hardneg.analysis.gradients import gradients as gradients_of
    from hardneg.analysis.history_tables import gradient_table

    check_plot(plot, overwrite, histories)
    found = _of_each(histories, gradients_of, "holds no `gradient_norms`; train again")
    if plot:
        with drawing(plot):
            draw_gradients(found, [plot])
    show(found, as_json, *gradient_table(found))


def refreshes(histories: Histories, as_json: AsJson = False, plot: Plot = None, overwrite: Overwrite = False) -> None:
    """Show loss and dev metric by step for several trainings, and where their negatives were refreshed.

    Example: hardneg analyze refreshes every-100/history.jsonl every-500/history.jsonl --plot refreshes.svg
    """
    from hardneg.analysis.figures.refreshes import draw_refreshes
    from hardneg.analysis.history_tables import refresh_table
    from hardneg.analysis.refreshes import refreshes as refreshes_of

    check_plot(plot, overwrite, histories)
    found = _of_each(histories, refreshes_of, "holds no `loss`; give the history of a training")
    if plot:
        with drawing(plot):
            draw_refreshes(found, [plot])
    show(found, as_json, *refresh_table(found))


def _of_each(
    histories: Sequence[Path], measure: Callable[[list[Mapping[str, Any]]], dict[str, Any]], lacking: str
) -> dict[str, dict[str, Any]]:
    """What `measure` finds in each history, by label. Raises UsageError where it is empty."""
    from hardneg.data.json_rows import json_row
    from hardneg.data.text_lines import read_lines

    found = {}
    for path, label in run_labels(histories).items():
        found[label] = measure([json_row(path, number, line) for number, line in read_lines(path)])
        if not found[label]:
            raise UsageError(f"{path}: {lacking}")
    return found
