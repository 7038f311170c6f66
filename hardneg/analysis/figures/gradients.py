"""Figure 4 of ANCE: the loss, and the norm of the gradients by third of the layers, by training step."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hardneg.reporting.figure import by_measurement, decades, figure, lines, plain_axes

_NORM = "2-norm before clipping"
_TITLES = {"loss": ("training loss", "loss"), "all": ("gradients", _NORM)}
_TITLES |= {name: (f"gradients of the {name} layers", _NORM) for name in ("bottom", "middle", "top")}
_NAMES = ("loss", "bottom", "middle", "top")


def draw_gradients(found: Mapping[str, Mapping[str, Any]], paths: Sequence[Path]) -> None:
    """One panel a measurement, one line a training; `found` is what `gradients` says of each."""
    curves = {label: {name: each["curve"] for name, each in one.items()} for label, one in found.items()}
    panels = by_measurement(curves)
    names = [*(name for name in _NAMES if name in panels), *(name for name in panels if name not in _NAMES)]
    with figure(paths, len(names)) as drawn:
        for axes, name in zip(drawn, names, strict=True):
            lines(axes, panels[name])
            title, unit = _TITLES.get(name, (f"gradients of {name}", _NORM))
            plain_axes(axes, title, "training step", unit)
            decades(axes, panels[name])
