"""What trainings' histories tell: how fixed negatives age, how large gradients are, how refreshes go."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from hardneg.plugin import (
    COLOURS,
    Analysis,
    AnalysisInputs,
    DataError,
    Name,
    Option,
    Reference,
    Table,
    figure,
    lines,
    measurements,
    plain_axes,
)
from hardneg_papers.analyses.shared import Points

_MOST_POINTS = 300
_NORM = "2-norm before clipping"
_NORMS = ("loss", "bottom", "middle", "top")
_TITLES = {
    "overlap": ("overlap with the real hard negatives", "overlap (share)"),
    "best_rank": ("best rank of the fixed negatives", "rank (mean over queries)"),
    "best_rank_median": ("best rank of the fixed negatives", "rank (median over queries)"),
    "loss": ("training loss", "loss"),
    "all": ("gradients", _NORM),
    **{name: (f"gradients of the {name} layers", _NORM) for name in _NORMS[1:]},
}

Trainings = Annotated[dict[Name, Name], Reference(("model",)), Option(metavar="HISTORY...", argument=True)]
"""Trainings by label; on the command line their history.jsonl files."""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _thinned(points: Points) -> Points:
    """At most 300 points, each the mean of as many neighbours."""
    size = -(-len(points) // _MOST_POINTS) or 1
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    return [(sum(s for s, _ in group) / len(group), sum(v for _, v in group) / len(group)) for group in groups]


def curves_of(history: Iterable[Mapping[str, Any]], pick: Callable[[Mapping[str, Any]], Any]) -> dict[str, Points]:
    """The numbers of what is picked from each record with a step, by name, as (step, value)."""
    curves: dict[str, Points] = {}
    for record in history:
        measured = pick(record)
        if isinstance(measured, Mapping) and _is_number(record.get("step")):
            for name, value in measured.items():
                if _is_number(value):
                    curves.setdefault(str(name), []).append((float(record["step"]), float(value)))
    return curves


class OfTrainings(Analysis):
    """Base of analyses of trainings' histories.

    Subclasses say what they find in one (`of_history`) and, as `lacking`, what a history lacks in which that is
    nothing.
    """

    lacking: ClassVar[str]
    trainings: Trainings = Field(min_length=1, description="history.jsonl files of trainings.")

    @abstractmethod
    def of_history(self, history: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """What a training's records tell."""

    def measure(self, inputs: AnalysisInputs) -> dict[str, dict[str, Any]]:
        """What is found in the history of each training.

        Raises:
            DataError: nothing is found.
        """
        results = {}
        for label in self.trainings:
            results[label] = self.of_history(inputs.history(f"trainings.{label}"))
            if not results[label]:
                raise DataError(f"{inputs.location(f'trainings.{label}')}: {self.lacking}")
        return results


class Drift(OfTrainings):
    """Show how fixed negatives age while a model learns: overlap with the real hard ones, best rank, a metric.

    Example: hardneg analyze drift static/history.jsonl dynamic/history.jsonl --plot drift.svg
    """

    name = "drift"
    title = "drift of fixed negatives"
    paper = "STAR/ADORE, Figure 4"
    lacking = "holds no `drift`; train with `watch`"

    def of_history(self, history: Sequence[Mapping[str, Any]]) -> dict[str, Points]:
        """The numbers under `drift` by step: `overlap`, `best_rank`, a metric, ..."""
        return curves_of(history, lambda row: row.get("drift"))

    def table(self, results: Any) -> Table:
        rows = [
            [label, name, f"{curve[0][1]:,.4g}", f"{curve[-1][1]:,.4g}", f"{curve[-1][0]:,.0f}"]
            for label, curves in results.items()
            for name, curve in curves.items()
        ]
        return Table(("training", "measured", "first", "last", "at step"), rows, 2)

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """One panel a measurement, one line a training."""
        _draw(_by_measurement(results), paths, "{} of the watched queries")


class Gradients(OfTrainings):
    """Show the loss and the norms of the gradients while a model trains, by third of its layers.

    Example: hardneg analyze gradients bm25/history.jsonl refreshed/history.jsonl --plot gradients.svg
    """

    name = "gradients"
    title = "loss and gradients"
    explained = (
        "The loss, and 2-norms of the gradients before clipping, by third of the transformer's layers: embeddings "
        "belong to the bottom, the head to the top."
    )
    paper = "ANCE, Figure 4"
    lacking = "holds no `gradient_norms`; train again"

    def of_history(self, history: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """See `gradients`."""
        return gradients(history)

    def table(self, results: Any) -> Table:
        rows = [
            [label, name, f"{each['mean']:.4g}", f"{each['largest']:.4g}", f"{each['steps']:,}"]
            for label, measured in results.items()
            for name, each in measured.items()
        ]
        return Table(("training", "measured", "mean", "largest", "steps"), rows, 2)

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """One panel a measurement, one line a training."""
        panels = _by_measurement(
            {label: {name: each["curve"] for name, each in one.items()} for label, one in results.items()}
        )
        names = [*(name for name in _NORMS if name in panels), *(name for name in panels if name not in _NORMS)]
        _draw({name: panels[name] for name in names}, paths, "gradients of {}")


def _draw(panels: Mapping[str, Mapping[str, Points]], paths: Sequence[Path], title: str) -> None:
    """A panel each; title: of those that `_TITLES` lacks."""
    with figure(paths, max(1, len(panels))) as drawn:
        for axes, (name, series) in zip(drawn, panels.items(), strict=False):
            lines(axes, series)
            words, unit = _TITLES.get(name, (title.format(name), name))
            plain_axes(axes, words, "training step", unit)
            if name == "overlap":
                axes.set_ylim(0, 1)
            else:
                _decades(axes, series)


def _by_measurement(curves: Mapping[str, Mapping[str, Points]]) -> dict[str, dict[str, Points]]:
    """Turn curves by label and measurement into curves by measurement and label; a missing one is empty."""
    names = dict.fromkeys(name for measured in curves.values() for name in measured)
    return {name: {label: list(measured.get(name, [])) for label, measured in curves.items()} for name in names}


def _decades(axes: Any, series: Mapping[str, Points]) -> None:
    """Make the axis logarithmic where values are positive and differ by a factor of ten."""
    values = [value for points in series.values() for _, value in points]
    if values and max(values) >= 10 * min(values) > 0:
        axes.set_yscale("log", subs=[2, 5])
        axes.yaxis.set_major_formatter("{x:,g}")
        axes.yaxis.set_minor_formatter("{x:,g}")


def gradients(history: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The loss and the norm of each group's gradients: mean and largest over all steps, and a curve of 300 points.

    Empty where no record has norms.

    Source: ANCE (Xiong et al., ICLR 2021), figure 4.
    """

    def norms(record: Mapping[str, Any]) -> Mapping[str, Any] | None:
        own = record.get("gradient_norms")
        return {"loss": record.get("loss"), **own} if isinstance(own, Mapping) else None

    return {
        name: {
            "mean": math.fsum(value for _, value in curve) / len(curve),
            "largest": max(value for _, value in curve),
            "steps": len(curve),
            "curve": _thinned(curve),
        }
        for name, curve in curves_of(history, norms).items()
    }


class Refreshes(OfTrainings):
    """Show loss and dev metric by step for several trainings, and where their negatives were refreshed.

    Example: hardneg analyze refreshes every-100/history.jsonl every-500/history.jsonl --plot refreshes.svg
    """

    name = "refreshes"
    title = "refreshed negatives"
    explained = (
        "Refreshes: how often training went over to newly mined negatives; lag: steps between the model that mined and "
        "the one that was trained. Loss: of the last tenth of the steps. The deepest fall: how far the dev metric once "
        "was below its best until then."
    )
    paper = "ANCE, Figure 5"
    lacking = "holds no `loss`; give the history of a training"

    def of_history(self, history: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """See `refreshes`."""
        return refreshes(history)

    def table(self, results: Any) -> Table:
        """One row a training. Its dev metric is the first one of any."""
        metric = next(iter(_dev_metrics(results)), None)
        columns = ("training", "steps", "refreshes", "mean lag", "largest lag", "kept at last", "loss")
        rows = [
            [
                label,
                f"{each['steps']:,}",
                f"{len(each['refreshes']):,}",
                *(f"{each['lag'][name]:,.1f}" if each["lag"] else "–" for name in ("mean", "largest")),
                f"{100 * each['kept'][-1][1]:.1f} %" if each["kept"] else "–",
                f"{each['loss']:.4f}",
                *(_best(each, metric) if metric else ()),
            ]
            for label, each in results.items()
        ]
        return Table((*columns, *((f"best {metric}", "at step", "last", "deepest fall") if metric else ())), rows)

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """Two panels, the loss and the first dev metric, one line a training; a bar across its line is a refresh."""
        names = ["loss", *_dev_metrics(results)[:1]]
        with figure(paths, len(names)) as panels:
            for axes, name in zip(panels, names, strict=True):
                lines(axes, {label: each["curves"].get(name, []) for label, each in results.items()})
                for position, each in enumerate(results.values()):
                    _mark(axes, each["curves"].get(name, []), each["refreshes"], COLOURS[position % len(COLOURS)])
                title = "training loss" if name == "loss" else f"{name} on the dev set"
                plain_axes(axes, f"{title}; bars: refreshes", "training step", name)


def refreshes(history: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
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
    lags = [record["lag"] for record in history if _is_number(record.get("lag"))]
    last = [value for _, value in curves["loss"][-max(1, len(curves["loss"]) // 10) :]]
    return {
        "steps": int(max(step for step, _ in curves["loss"])),
        "loss": sum(last) / len(last),
        "curves": {name: _thinned(curve) if name == "loss" else curve for name, curve in curves.items()},
        "refreshes": _taken_up(history, curves["loss"][0][0]),
        "lag": {"mean": sum(lags) / len(lags), "largest": max(lags)} if lags else None,
        "kept": [(int(row["step"]), float(row["kept"])) for row in history if _is_number(row.get("kept"))],
        "falls": {name: _fall(curve) for name, curve in curves.items() if name != "loss"},
    }


def _taken_up(history: Sequence[Mapping[str, Any]], first: float) -> list[tuple[int, int]]:
    taken: list[tuple[int, int]] = []
    used: int | None = None
    for record in history:
        number = record.get("refresh")
        if number is not None and number != used:
            used = int(number)
            if record["step"] != first:
                taken.append((int(record["step"]), used))
    return taken


def _fall(curve: Points) -> float:
    values = np.array([value for _, value in curve])
    return float((np.maximum.accumulate(values) - values).max())


def _dev_metrics(metrics: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The dev metrics of any training, each once."""
    return list(dict.fromkeys(name for each in metrics.values() for name in each["curves"] if name != "loss"))


def _best(each: Mapping[str, Any], metric: str) -> list[str]:
    curve = each["curves"].get(metric)
    if not curve:
        return ["–"] * 4
    step, best = max(curve, key=lambda point: point[1])
    return [f"{best:.4f}", f"{step:,.0f}", f"{curve[-1][1]:.4f}", f"{each['falls'][metric]:.4f}"]


def _mark(axes: Any, curve: Points, taken_up: Sequence[tuple[int, int]], colour: str) -> None:
    """A bar at each refresh that the curve reaches."""
    if curve:
        steps, values = zip(*curve, strict=True)
        positions = [step for step, _ in taken_up if steps[0] <= step <= steps[-1]]
        axes.plot(positions, np.interp(positions, steps, values), "|", color=colour, markersize=11, markeredgewidth=1.4)
