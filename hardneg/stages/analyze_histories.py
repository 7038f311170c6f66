"""What the histories of a recipe's trainings say: drift of fixed negatives, gradients, refreshes."""

from collections.abc import Callable
from typing import Any

from hardneg.analysis.gradients import gradients
from hardneg.analysis.history_curves import Curve, drift_curves
from hardneg.analysis.refreshes import refreshes
from hardneg.errors import DataError
from hardneg.stages.context import StageContext
from hardneg.training.history import HISTORY, History, Record


def drift_found(work: StageContext[Any]) -> dict[str, dict[str, Curve]]:
    """The curves of each training that `training` names."""
    return _of_each(work, "training", drift_curves, "measured no drift; train it with `watch`")


def gradients_found(work: StageContext[Any]) -> dict[str, dict[str, Any]]:
    """The norms of each training that `gradients` names."""
    return _of_each(work, "gradients", gradients, "noted no norms of its gradients; train it again")


def refreshes_found(work: StageContext[Any]) -> dict[str, dict[str, Any]]:
    """Loss, dev metrics and refreshes of each training that `refreshes` names."""
    return _of_each(work, "refreshes", refreshes, "noted no loss; train it again")


def _of_each(
    work: StageContext[Any], field: str, measure: Callable[[list[Record]], dict[str, Any]], lacking: str
) -> dict[str, dict[str, Any]]:
    """What `measure` finds in the history of each training that a field names. Raises DataError where it is empty."""
    found = {}
    for label, source in work.inputs_of(field).items():
        found[label] = measure(History(source.folder / HISTORY).read())
        if not found[label]:
            raise DataError(f"{work.name}.{field}.{label}: {getattr(work.spec, field)[label]} {lacking}")
    return found
