"""What trainings' histories say, as tables of words."""

from collections.abc import Mapping, Sequence
from typing import Any

Columns = Sequence[str]
Rows = Sequence[Sequence[str]]


def gradient_table(found: Mapping[str, Mapping[str, Any]]) -> tuple[Columns, Rows]:
    """One row a training and measurement; `found` is what `gradients` says of each training."""
    rows = [
        [label, name, f"{each['mean']:.4g}", f"{each['largest']:.4g}", f"{each['steps']:,}"]
        for label, measured in found.items()
        for name, each in measured.items()
    ]
    return ("training", "measured", "mean", "largest", "steps"), rows


def refresh_table(found: Mapping[str, Mapping[str, Any]]) -> tuple[Columns, Rows]:
    """One row a training; `found` is what `refreshes` says of each. Its dev metric is the first one of any."""
    metric = next(iter(dev_metrics(found)), None)
    columns = ("training", "steps", "refreshes", "mean lag", "largest lag", "kept at last", "loss")
    rows = [
        [
            label,
            f"{each['steps']:,}",
            f"{len(each['refreshes']):,}",
            *(f"{each['lag'][name]:,.1f}" if each["lag"] else "–" for name in ("mean", "largest")),
            f"{100 * each['kept'][-1][1]:.1f} %" if each["kept"] else "–",
            f"{each['loss']:.4f}",
            *(_measured(each, metric) if metric else ()),
        ]
        for label, each in found.items()
    ]
    return (*columns, *((f"best {metric}", "at step", "last", "deepest fall") if metric else ())), rows


def dev_metrics(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The dev metrics of any training, each once."""
    return list(dict.fromkeys(name for each in found.values() for name in each["curves"] if name != "loss"))


def _measured(each: Mapping[str, Any], metric: str) -> list[str]:
    curve = each["curves"].get(metric)
    if not curve:
        return ["–"] * 4
    step, best = max(curve, key=lambda point: point[1])
    return [f"{best:.4f}", f"{step:,.0f}", f"{curve[-1][1]:.4f}", f"{each['falls'][metric]:.4f}"]
