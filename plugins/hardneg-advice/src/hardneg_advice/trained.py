"""Checks of trainings: the learning curve, what came of it beside the start model, and whether vectors collapsed."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.plugin import FlatVectors, HardnegError, Measured, layout, measurements, significance
from hardneg_advice.finished_run import START, CheckResult, Figures, FinishedRun, sample

Points = list[tuple[float, float]]
TRAININGS = ("train", "train-queries", "train-refreshed")
MOST_FALL = 0.01
MOST_CLOSER = 0.2
LEAST_KEPT = 1 / 3
"""Trainings in small batches on mined negatives kept half, and helped (recipe `dose-batches`)."""
_PARTS = 5
_LEAST_STEPS = 20
_ERRORS = 3.0
_ELSE = "see what else is suspect; `hardneg recommend` trains at several rates beside the model as shipped"
_LOWER = "lower options.learning_rate to a third, or train fewer steps; see whether warmup_steps covers a tenth of them"
_WATCH = "; `validation` with options.evaluate_every shows on dev when it turns"


def learning_curve(run: FinishedRun, stage: str) -> CheckResult:
    """Whether the loss rises, or validation falls after its best; of several seeds the mean curve.

    The loss rises where the mean of its last fifth is above that of its lowest fifth by three standard errors and a
    tenth. Negatives that are mined anew make it rise by design. A loss that falls excludes nothing: validation counts.
    """
    curves = _curves(run, stage)
    figures, problems, said = Figures(), list[str](), list[str]()
    losses = [value for _, value in curves.pop("loss", [])]
    if len(losses) >= _LEAST_STEPS and run.recipe.stages[stage].stage != "train-refreshed":
        lowest, last, risen = _rise(losses)
        figures |= {"lowest_loss": lowest, "last_loss": last}
        line = f"the mean loss of the last fifth of the steps is {last:.4g}, of the lowest fifth {lowest:.4g}"
        (problems if risen else said).append(line)
    if curves:
        wanted = getattr(getattr(run.recipe.stages[stage], "options", None), "metric", "")
        metric = wanted if wanted in curves else next(iter(curves))
        (step, best), (end, last) = max(curves[metric], key=lambda point: point[1]), curves[metric][-1]
        figures |= {"metric": metric, "best": best, "best_step": int(step), "last": last}
        line = f"{metric} on dev is {best:.4f} at its best, at step {step:,.0f}, and {last:.4f} at step {end:,.0f}"
        (problems if best - last > MOST_FALL else said).append(line)
    if problems or _watched(curves):
        return CheckResult.of(bool(problems), "; ".join(problems or said), figures, _LOWER)
    said.append("without a dev curve a rate too high or too many steps cannot be excluded, as the loss falls then too")
    return CheckResult("unknown", "; ".join(said), figures, _LOWER + _WATCH)


def _curves(run: FinishedRun, stage: str) -> dict[str, Points]:
    """The loss and the dev metrics by step, of several seeds the mean of those that have the step."""
    values: dict[str, dict[float, list[float]]] = {}
    for name in run.copies(stage):
        lines = (run.artifact(name).path / layout.HISTORY).read_text("utf-8").splitlines()
        for measured, points in measurements([json.loads(line) for line in lines]).items():
            for step, value in points:
                values.setdefault(measured, {}).setdefault(step, []).append(value)
    return {name: [(step, fmean(steps[step])) for step in sorted(steps)] for name, steps in values.items()}


def _watched(curves: Mapping[str, Points]) -> bool:
    """Whether dev was measured during a training, and not in its end alone."""
    return any(len(points) > 1 for name, points in curves.items() if name != "loss")


def _rise(losses: Sequence[float]) -> tuple[float, float, bool]:
    """The mean of the lowest fifth and of the last, and whether the loss has risen."""
    size = len(losses) // _PARTS
    parts = np.asarray(losses[len(losses) - size * _PARTS :], np.float64).reshape(_PARTS, size)
    means, errors = parts.mean(axis=1), parts.var(axis=1, ddof=1) / size
    low = int(means.argmin())
    gap = means[-1] - means[low]
    risen = gap > _ERRORS * (errors[-1] + errors[low]) ** 0.5 and means[-1] > 1.1 * means[low]
    return float(means[low]), float(means[-1]), bool(risen)


def trained_rows(run: FinishedRun) -> list[str]:
    """The rows of the metrics that are searches with trained models."""
    return [label for label, encoder in _encoders(run).items() if encoder != START]


def outcome(run: FinishedRun, label: str) -> CheckResult:
    """Whether a trained model is better or worse than the start model, by the first metric, over seeds if there are."""
    encoders, measured = _encoders(run), run.measured
    shipped = next((row for row, encoder in encoders.items() if encoder == START), None)
    if shipped is None or not {label, shipped} <= measured.results.keys():
        return CheckResult("unknown", "the metrics have no row of the start model: search and evaluate that too")
    metric = next((name for name in measured.results[label] if name in measured.results[shipped]), None)
    if metric is None:
        return CheckResult("unknown", f"{label} and {shipped} have no metric in common")
    test = _test(measured, label, shipped, metric)
    difference = test.difference if test.system == label else -test.difference
    decided, queries = significance.verdict(test, measured.significance_level), len(measured.results[label][metric])
    figures: Figures = {"metric": metric, "baseline": shipped, "difference": difference}
    figures |= {"verdict": decided, "queries": queries}
    line = f"{metric} is {difference:+.4f} against {shipped} over {queries:,} queries"
    if seeds := getattr(test, "seeds", None):
        line += f" and {max(seeds)} seeds"
    if decided == "difference":
        better = "better" if difference > 0 else "worse"
        advice = f"first {_LOWER}{_WATCH}; then {_ELSE}"
        with suppress(HardnegError, OSError):
            advice = _ELSE if _watched(_curves(run, encoders[label])) else advice
        return CheckResult.of(difference < 0, f"{better}: {line}", figures, advice)
    if decided == "equivalent":
        return CheckResult("suspect", f"equivalent, so it did not help: {line}", figures, _ELSE)
    advice = "undecided is not worse: evaluate on more queries, and train with several `seeds`"
    return CheckResult("unknown", f"undecided: {line}", figures, advice)


def _encoders(run: FinishedRun) -> dict[str, str]:
    """By row of an evaluation: the training, or `start`, whose model encodes the queries of its search."""
    encoders = dict[str, str]()
    for name in run.stages("evaluate"):
        for label, runs in run.recipe.stages[name].runs.items():
            first = run.recipe.stages.get(runs if isinstance(runs, str) else next(iter(runs.values())))
            index = getattr(first, "index", None) if getattr(first, "stage", "") == "search" else None
            if index and (encoder := run.encoder_of(index)):
                encoders.setdefault(label, encoder)
    return encoders


def _test(measured: Measured, label: str, shipped: str, metric: str) -> Any:
    """The test of the two in the metrics, that over seeds first; one by query where it lacks them."""
    tests: list[Any] = [*measured.over_seeds, *measured.comparisons]
    for test in tests:
        if {test.system, test.baseline} == {label, shipped} and test.metric == metric:
            return test
    scores = {name: measured.results[name][metric] for name in (shipped, label)}
    design = significance.Design(measured.equivalence_margin, measured.query_groups)
    return significance.compare(scores, metric, [shipped], design=design)[0]


def trained_indexes(run: FinishedRun) -> list[str]:
    """The indexes that trained models have encoded."""
    return [name for name in run.stages("encode") if run.encoder_of(name) not in ("", START)]


def collapse(run: FinishedRun, index: str) -> CheckResult:
    """The mean cosine of pairs of documents and their effective dimensions, beside those of the start model's index."""
    starts = [name for name in run.stages("encode") if run.encoder_of(name) == START]
    if not starts:
        return CheckResult("unknown", "the recipe encodes no index with the start model to compare with")
    first = next((name for name in starts if run.dataset_of(name) == run.dataset_of(index)), starts[0])
    (before, wide), (after, narrow) = (_spread(run, name) for name in (first, index))
    return CheckResult.of(
        after - before > MOST_CLOSER or narrow < LEAST_KEPT * wide,
        f"the mean cosine of two documents is {after:.3f} ({first}: {before:.3f}), their effective dimensions are "
        f"{narrow:.1f} ({wide:.1f})",
        {"cosine": after, "start_cosine": before, "dimensions": narrow, "start_dimensions": wide},
        "the vectors collapse: lower the rate, raise the temperature of the loss or the batch, and take fewer or less "
        "hard negatives",
    )


def _spread(run: FinishedRun, stage: str) -> tuple[float, float]:
    stored = FlatVectors.open(run.part(stage, "index"))
    vectors = stored.gather(sample(len(stored), "vectors")).astype(np.float64)
    return mean_cosine(vectors), effective_dimensions(vectors)


def mean_cosine(vectors: NDArray[np.float64]) -> float:
    """The mean cosine of all pairs of different rows; vectors: [n, d], n above 1. A row of zeros has cosine 0."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    units = vectors / np.where(norms > 0, norms, 1)
    count = len(units)
    return float((np.square(units.sum(axis=0)).sum() - np.square(units).sum()) / max(count * (count - 1), 1))


def effective_dimensions(vectors: NDArray[np.float64]) -> float:
    """The participation ratio of the eigenvalues of the covariance, tr(C)^2 / tr(C^2), between 1 and d; 0 of none.

    Source: Gao et al., A theory of multineuronal dimensionality, dynamics and measurement (2017), equation 3.
    """
    centred = vectors - vectors.mean(axis=0)
    covariance = centred.T @ centred
    total = np.square(covariance).sum()
    return float(np.trace(covariance) ** 2 / total) if total else 0.0
