"""Analyses of training histories: drift of fixed negatives, gradients, and refreshes."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from hardneg.plugin import Analysis, AnalysisInputs, Table, errors, fields, figures

History = Sequence[Mapping[str, Any]]
Curves = Mapping[str, Mapping[str, figures.Points]]

_MOST_POINTS = 300
_NORM = "2-norm before clipping"
_LAYERS = ("bottom", "middle", "top")
_TITLES = {
    "overlap": ("overlap with the real hard negatives", "overlap (share)"),
    "best_rank": ("best rank of the fixed negatives", "rank (mean over queries)"),
    "best_rank_median": ("best rank of the fixed negatives", "rank (median over queries)"),
    "loss": ("training loss", "loss"),
    "all": ("gradients", _NORM),
    **{name: (f"gradients of the {name} layers", _NORM) for name in _LAYERS},
}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _thinned(points: figures.Points) -> figures.Points:
    """Reduce a curve to at most 300 points by averaging neighbours."""
    size = -(-len(points) // _MOST_POINTS) or 1
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    return [(sum(s for s, _ in group) / len(group), sum(v for _, v in group) / len(group)) for group in groups]


def curves_of(history: History, pick: Callable[[Mapping[str, Any]], Any]) -> dict[str, figures.Points]:
    """Return curves of (step, value) pairs by name, from the mappings of numbers that `pick` returns for records."""
    curves: dict[str, figures.Points] = {}
    for record in history:
        measured = pick(record)
        if isinstance(measured, Mapping) and _is_number(record.get("step")):
            for name, value in measured.items():
                if _is_number(value):
                    curves.setdefault(str(name), []).append((float(record["step"]), float(value)))
    return curves


class OfTrainings(Analysis):
    """Base class for analyses of training histories.

    Subclasses extract results from a history in `of_history`; `lacking` is the message for a history without results.
    """

    lacking: ClassVar[str]
    trainings: Annotated[
        dict[fields.Name, fields.Name], fields.Reference(("model",)), fields.Option(metavar="HISTORY...", argument=True)
    ] = Field(min_length=1, description="history.jsonl files of training runs.")

    @staticmethod
    @abstractmethod
    def of_history(history: History) -> dict[str, Any]:
        """Return the results from the records of one training run; empty if there are none."""

    def measure(self, inputs: AnalysisInputs) -> dict[str, dict[str, Any]]:
        """Return the results for each training run, by label. Raises DataError if a history has none."""
        results = {}
        for label in self.trainings:
            results[label] = self.of_history(inputs.history(f"trainings.{label}"))
            if not results[label]:
                raise errors.DataError(f"{inputs.location(f'trainings.{label}')}: {self.lacking}")
        return results


class Drift(OfTrainings):
    """Show how fixed negatives drift while a model trains: overlap with current hard negatives, best rank, a metric.

    Example: hardneg analyze drift static/history.jsonl dynamic/history.jsonl --plot drift.svg
    """

    name = "drift"
    title = "drift of fixed negatives"
    paper = "STAR/ADORE, Figure 4"
    lacking = "has no `drift`; train with `watch`"

    @staticmethod
    def of_history(history: History) -> dict[str, figures.Points]:
        """Return a curve of pairs (step, value) for each number under `drift`: `overlap`, `best_rank`, a metric, ..."""
        return curves_of(history, lambda row: row.get("drift"))

    def table(self, results: Any) -> Table:
        rows = [
            [label, name, f"{curve[0][1]:,.4g}", f"{curve[-1][1]:,.4g}", f"{curve[-1][0]:,.0f}"]
            for label, curves in results.items()
            for name, curve in curves.items()
        ]
        return Table(("training", "measured", "first", "last", "at step"), rows, 2)

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """Draw one panel per measurement, with one line per training run."""
        _draw(results, paths, "{} of the watched queries")


class Gradients(OfTrainings):
    """Show the loss and the gradient norms of each third of the layers while a model trains.

    Example: hardneg analyze gradients bm25/history.jsonl refreshed/history.jsonl --plot gradients.svg
    """

    name = "gradients"
    title = "loss and gradients"
    explained = (
        "Loss, and 2-norms of gradients before clipping, by third of the transformer layers. Embeddings belong to the "
        "bottom third, the head to the top third."
    )
    paper = "ANCE, Figure 4"
    lacking = "has no `gradient_norms`; retrain the model"

    @staticmethod
    def of_history(history: History) -> dict[str, Any]:
        """Return `mean`, `largest`, `steps` and `curve` (up to 300 points) of the loss and of each gradient norm.

        Empty if no record has norms.

        Source: ANCE (Xiong et al., ICLR 2021), figure 4.
        """

        def norms(record: Mapping[str, Any]) -> Mapping[str, Any] | None:
            own = record.get("gradient_norms")
            return {"loss": record.get("loss"), **own} if isinstance(own, Mapping) else None

        results = {}
        for name, curve in curves_of(history, norms).items():
            values = [value for _, value in curve]
            numbers = {"mean": fmean(values), "largest": max(values), "steps": len(curve)}
            results[name] = {**numbers, "curve": _thinned(curve)}
        return results

    def table(self, results: Any) -> Table:
        rows = [
            [label, name, f"{each['mean']:.4g}", f"{each['largest']:.4g}", f"{each['steps']:,}"]
            for label, measured in results.items()
            for name, each in measured.items()
        ]
        return Table(("training", "measured", "mean", "largest", "steps"), rows, 2)

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """Draw one panel per measurement, with one line per training run."""
        curves = {label: {name: each["curve"] for name, each in one.items()} for label, one in results.items()}
        _draw(curves, paths, "gradients of {}", ("loss", *_LAYERS))


def _draw(curves: Curves, paths: Sequence[Path], title: str, first: Sequence[str] = ()) -> None:
    """Draw a panel per measurement. title: for names not in `_TITLES`. first: names to put first, if present."""
    there = dict.fromkeys(name for measured in curves.values() for name in measured)
    names = [*(name for name in first if name in there), *(name for name in there if name not in first)]
    with figures.figure(paths, max(1, len(names))) as drawn:
        for axes, name in zip(drawn, names, strict=False):
            series = {label: list(measured.get(name, [])) for label, measured in curves.items()}
            figures.lines(axes, series)
            words, unit = _TITLES.get(name, (title.format(name), name))
            figures.plain_axes(axes, words, "training step", unit)
            values = [value for points in series.values() for _, value in points]
            if name == "overlap":
                axes.set_ylim(0, 1)
            elif values and max(values) >= 10 * min(values) > 0:
                axes.set_yscale("log", subs=[2, 5])
                axes.yaxis.set_major_formatter("{x:,g}")
                axes.yaxis.set_minor_formatter("{x:,g}")


class Refreshes(OfTrainings):
    """Show loss and dev metric by step for several training runs, and when their negatives were refreshed.

    Example: hardneg analyze refreshes every-100/history.jsonl every-500/history.jsonl --plot refreshes.svg
    """

    name = "refreshes"
    title = "refreshed negatives"
    explained = (
        "Refreshes: the number of switches to newly mined negatives; lag: the steps between the model that mined and "
        "the model being trained; loss: the mean over the last tenth of the steps; largest drop: of the dev metric "
        "below its best so far."
    )
    paper = "ANCE, Figure 5"
    lacking = "has no `loss`; use the history of a training run"

    @staticmethod
    def of_history(history: History) -> dict[str, Any]:
        """Return the refreshes and the curves in a training history.

        Returns:
            `steps`: the last step. `loss`: the mean loss over the last tenth of the steps. `curves`: the loss in up to
            300 points, then each dev metric. `refreshes`: for each refresh first used after the first step, that step,
            counted from 1, and the number of the refresh. `lag`: `mean` and `largest`, the steps between the model that
            mined and the model trained, None if unknown. `falls`: the largest drop of each dev metric below its best so
            far. Empty if the history has no loss.

        Source: ANCE (Xiong et al., ICLR 2021), figure 5.
        """
        curves = figures.measurements(history)
        if "loss" not in curves:
            return {}
        taken: list[tuple[int, int]] = []
        used: int | None = None
        for record in history:
            number = record.get("refresh")
            if number is not None and number != used:
                used = int(number)
                if record["step"] != curves["loss"][0][0]:
                    taken.append((int(record["step"]), used))
        lags = [record["lag"] for record in history if _is_number(record.get("lag"))]
        falls = {}
        for name, curve in curves.items():
            values = np.array([value for _, value in curve])
            falls[name] = float((np.maximum.accumulate(values) - values).max())
        del falls["loss"]
        return {
            "steps": int(max(step for step, _ in curves["loss"])),
            "loss": fmean(value for _, value in curves["loss"][-max(1, len(curves["loss"]) // 10) :]),
            "curves": {name: _thinned(curve) if name == "loss" else curve for name, curve in curves.items()},
            "refreshes": taken,
            "lag": {"mean": fmean(lags), "largest": max(lags)} if lags else None,
            "falls": falls,
        }

    def table(self, results: Any) -> Table:
        """Return a row per training run: steps, refreshes, lags, loss, and the first dev metric found, if any."""
        metric = _dev_metric(results)
        rows = []
        for label, each in results.items():
            lag, curve = each["lag"], each["curves"].get(metric)
            row = [label, f"{each['steps']:,}", f"{len(each['refreshes']):,}"]
            row += [f"{lag[name]:,.1f}" if lag else "–" for name in ("mean", "largest")]
            row.append(f"{each['loss']:.4f}")
            if curve:
                step, best = max(curve, key=lambda point: point[1])
                row += [f"{best:.4f}", f"{step:,.0f}", f"{curve[-1][1]:.4f}", f"{each['falls'][metric]:.4f}"]
            elif metric:
                row += ["–"] * 4
            rows.append(row)
        columns = ("training", "steps", "refreshes", "mean lag", "largest lag", "loss")
        return Table((*columns, *((f"best {metric}", "at step", "last", "largest drop") if metric else ())), rows)

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """Draw the loss and the first dev metric, with a line per run and a bar across it at each refresh."""
        metric = _dev_metric(results)
        names = ["loss", *([metric] if metric else [])]
        with figures.figure(paths, len(names)) as panels:
            for axes, name in zip(panels, names, strict=True):
                curves = {label: each["curves"].get(name, []) for label, each in results.items()}
                figures.lines(axes, curves)
                for position, (curve, each) in enumerate(zip(curves.values(), results.values(), strict=True)):
                    if curve:
                        steps, values = zip(*curve, strict=True)
                        at = [step for step, _ in each["refreshes"] if steps[0] <= step <= steps[-1]]
                        bar = {"color": figures.COLOURS[position % len(figures.COLOURS)], "markeredgewidth": 1.4}
                        axes.plot(at, np.interp(at, steps, values), "|", markersize=11, **bar)
                title = "training loss" if name == "loss" else f"{name} on the dev set"
                figures.plain_axes(axes, f"{title}; bars: refreshes", "training step", name)


def _dev_metric(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the first dev metric found in the training runs, or an empty string."""
    return next((name for each in results.values() for name in each["curves"] if name != "loss"), "")
