"""How training goes while negatives are refreshed: the loss, the dev metrics, and where refreshes were taken up."""

from collections.abc import Sequence
from typing import Any

from hardneg.analysis.history_curves import Curve, Record
from hardneg.reporting.curve import is_number, measurements, thinned


def refreshes(history: Sequence[Record]) -> dict[str, Any]:
    """What a training's history says of its refreshes; a history without any has its curves alone.

    Returns:
        `steps`; `loss`: the mean over their last tenth; `curves`: the loss in 300 points, then each dev metric;
        `refreshes`: a step, counted from 1, and the number of the refresh that it was the first to use (what the very
        first step used is none); `lag`: `mean` and `largest`, in steps between the model that mined and the one that
        was trained, None where that is not told; `kept`: a step that took up other negatives, and the share of them
        that was there before; `falls`: by dev metric, how far it once was below its best until then.
        Empty where there is no loss.

    Source: ANCE (Xiong et al., ICLR 2021), figure 5.
    """
    curves = measurements(history)
    if "loss" not in curves:
        return {}
    lags = [record["lag"] for record in history if is_number(record.get("lag"))]
    return {
        "steps": int(max(step for step, _ in curves["loss"])),
        "loss": _last_tenth(curves["loss"]),
        "curves": {name: thinned(curve) if name == "loss" else curve for name, curve in curves.items()},
        "refreshes": _taken_up(history, curves["loss"][0][0]),
        "lag": {"mean": sum(lags) / len(lags), "largest": max(lags)} if lags else None,
        "kept": [(int(row["step"]), float(row["kept"])) for row in history if is_number(row.get("kept"))],
        "falls": {name: _fall(curve) for name, curve in curves.items() if name != "loss"},
    }


def _taken_up(history: Sequence[Record], first: float) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    used: int | None = None
    for record in history:
        number = record.get("refresh")
        if number is not None and number != used:
            used = int(number)
            if record["step"] != first:
                found.append((int(record["step"]), used))
    return found


def _last_tenth(curve: Curve) -> float:
    last = [value for _, value in curve[-max(1, len(curve) // 10) :]]
    return sum(last) / len(last)


def _fall(curve: Curve) -> float:
    best, fall = curve[0][1], 0.0
    for _, value in curve:
        best = max(best, value)
        fall = max(fall, best - value)
    return fall
