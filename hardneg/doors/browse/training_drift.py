"""How negatives changed during training: the share each refresh kept, and the staleness of fixed ones."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hardneg.analysis.trainings import curves_of, refreshes
from hardneg.training.history import History

Curve = list[tuple[float, float]]
KEPT = "kept of a query's negatives at a refresh (share)"
_NAMES = {
    "overlap": "overlap of fixed negatives with the real hard ones (share)",
    "best_rank": "best rank of fixed negatives (mean)",
    "best_rank_median": "best rank of fixed negatives (median)",
}


@dataclass(frozen=True)
class TrainingDrift:
    """The measures of one training by name, as (step, value), and its number of refreshes."""

    label: str
    refreshes: int
    curves: Mapping[str, Curve]


def drifts(histories: Mapping[str, Path]) -> list[TrainingDrift]:
    """The drift of the trainings that measured any."""
    trainings = [_drift(label, path) for label, path in histories.items()]
    return [item for item in trainings if item.curves]


def _drift(label: str, path: Path) -> TrainingDrift:
    history = History(path).read()
    refreshed = refreshes(history)
    kept: Curve = [(float(step), share) for step, share in refreshed.get("kept", ())]
    watched = curves_of(history, lambda row: row.get("drift"))
    named = {_NAMES.get(name, f"{name} of the watched queries"): list(curve) for name, curve in watched.items()}
    return TrainingDrift(label, len(refreshed.get("refreshes", ())), {**({KEPT: kept} if kept else {}), **named})
