"""The usual peak learning rate of each kind of encoder."""

from hardneg.encoders.open.resolved import ResolvedModel
from hardneg.training.options import LearningOptions

TRANSFORMER: float = LearningOptions.learning_rate
ADAPTER, TABLE = 2e-4, 0.01
_LARGE_TABLES = {"packaged:wordllama": 0.03}
"""Tables of larger numbers: Adam's steps are as long as the rate, whatever the size of a weight."""


def usual_rate(model: ResolvedModel) -> float | None:
    """The rate that a training takes where its recipe gives none; None where the kind of the model is not known yet."""
    if model.spec.adapter is not None:
        return ADAPTER
    if model.known_family is None:
        return None
    return _LARGE_TABLES.get(model.origins[0][0].name, TABLE) if getattr(model.family, "tables", False) else TRANSFORMER
