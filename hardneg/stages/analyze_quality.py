"""What a recipe's evaluation says, as bars of an ablation and as a matrix of systems."""

from typing import Any

from hardneg.analysis.matrix import Matrix, matrix
from hardneg.errors import UsageError
from hardneg.layout import METRICS
from hardneg.registry import suggestion
from hardneg.stages.context import StageContext


def ablation(work: StageContext[Any]) -> dict[str, Any]:
    """The metric, and by system its mean and its interval (None where there is none)."""
    metric, systems = _estimates(work, "evaluation", work.spec.metric, "metric")
    intervals = {
        label: (found.interval.low, found.interval.high) if found.interval else None for label, found in systems.items()
    }
    return {"metric": metric, "means": {label: found.mean for label, found in systems.items()}, "intervals": intervals}


def systems_matrix(work: StageContext[Any]) -> Matrix:
    """The means of the systems that the recipe names, by rows and columns."""
    spec = work.spec.matrix
    metric, systems = _estimates(work, "matrix.evaluation", spec.metric, "matrix.metric")
    try:
        return matrix(metric, spec.rows, {label: found.mean for label, found in systems.items()}, spec.axes)
    except UsageError as error:
        raise UsageError(f"{work.name}.matrix.{error}") from None


def _estimates(work: StageContext[Any], source: str, wanted: str | None, place: str) -> tuple[str, dict[str, Any]]:
    """The wanted metric, or the first one, and each system's estimate of it."""
    from hardneg.evaluation.metrics_json import read_metrics
    from hardneg.reporting.content import estimates

    results = read_metrics(work.inputs[source].folder / METRICS).results
    systems = {label: estimates(scores) for label, scores in results.items()}
    metrics = list(dict.fromkeys(name for measured in systems.values() for name in measured))
    metric = wanted or metrics[0]
    if metric not in metrics:
        hint = suggestion(metric, metrics)
        raise UsageError(f"{work.name}.{place}: {metric!r} was not evaluated{hint}; there are: {', '.join(metrics)}")
    return metric, {label: measured[metric] for label, measured in systems.items()}
