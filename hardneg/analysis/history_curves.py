"""What a training history says, as curves by step: of its negatives' drift, of its gradients."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hardneg.reporting.curve import is_number

Curve = list[tuple[float, float]]
"""(step, value), in the order of the records."""

Record = Mapping[str, Any]


def drift_curves(history: Iterable[Record]) -> dict[str, Curve]:
    """The numbers under `drift` of each record that has some, by name: `overlap`, `best_rank`, a metric, ..."""
    return _curves(history, lambda record: record.get("drift"))


def gradient_curves(history: Iterable[Record]) -> dict[str, Curve]:
    """The loss and the norm of each group's gradients, by name, of each record that has norms.

    Source: ANCE (Xiong et al., ICLR 2021), figure 4.
    """
    return _curves(history, _gradients)


def _gradients(record: Record) -> Record | None:
    norms = record.get("gradient_norms")
    return {"loss": record.get("loss"), **norms} if isinstance(norms, Mapping) else None


def _curves(history: Iterable[Record], pick: Callable[[Record], Any]) -> dict[str, Curve]:
    """The numbers of what is picked from each record with a step, by name."""
    curves: dict[str, Curve] = {}
    for record in history:
        measured = pick(record)
        if not isinstance(measured, Mapping) or not is_number(record.get("step")):
            continue
        for name, value in measured.items():
            if is_number(value):
                curves.setdefault(str(name), []).append((float(record["step"]), float(value)))
    return curves
