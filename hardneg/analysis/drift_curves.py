"""What a training history says of its negatives' drift: one curve a measurement."""

from collections.abc import Iterable, Mapping
from typing import Any

Curve = list[tuple[float, float]]
"""(step, value), in the order of the records."""


def drift_curves(history: Iterable[Mapping[str, Any]]) -> dict[str, Curve]:
    """The numbers under `drift` of each record that has some, by name: `overlap`, `best_rank`, a metric, ..."""
    curves: dict[str, Curve] = {}
    for record in history:
        measured = record.get("drift")
        if not isinstance(measured, Mapping) or not _number(record.get("step")):
            continue
        for name, value in measured.items():
            if _number(value):
                curves.setdefault(str(name), []).append((float(record["step"]), float(value)))
    return curves


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value
