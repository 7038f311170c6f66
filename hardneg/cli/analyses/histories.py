"""`hardneg analyze drift`: of the histories of trainings."""

from pathlib import Path
from typing import Annotated

import typer

from hardneg.cli.analyses.output import AsJson, Plot, check_plot, show
from hardneg.cli.evaluate import run_labels
from hardneg.errors import UsageError


def drift(
    histories: Annotated[list[Path], typer.Argument(metavar="HISTORY...", help="history.jsonl files of trainings.")],
    as_json: AsJson = False,
    plot: Plot = None,
) -> None:
    """Show how fixed negatives age while a model learns: overlap with the real hard ones, best rank, a metric.

    Example: hardneg analyze drift static/history.jsonl dynamic/history.jsonl --plot drift.svg
    """
    from hardneg.analysis.drift_curves import drift_curves
    from hardneg.analysis.figures.drift import draw_drift
    from hardneg.data.json_rows import json_row
    from hardneg.data.lines import read_lines

    check_plot(plot)
    curves = {
        label: drift_curves(json_row(path, number, line) for number, line in read_lines(path))
        for path, label in run_labels(histories).items()
    }
    for path, label in run_labels(histories).items():
        if not curves[label]:
            raise UsageError(f"{path}: holds no `drift`; train with `watch`")
    if plot:
        draw_drift(curves, [plot])
    rows = [
        [label, name, f"{curve[0][1]:,.4g}", f"{curve[-1][1]:,.4g}", f"{curve[-1][0]:,.0f}"]
        for label, measured in curves.items()
        for name, curve in measured.items()
    ]
    show(curves, as_json, ("history", "measured", "first", "last", "at step"), rows)
