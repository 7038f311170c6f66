"""A teacher's scores as losses take them."""

from torch import Tensor

from hardneg.errors import TrainingError
from hardneg.losses.pairs import safe_scores
from hardneg.types import ScoreBatch


def taught_scores(loss: str, batch: ScoreBatch) -> tuple[Tensor, Tensor]:
    """The teacher's scores, [B, M], 0 where it has none, and where it has one, bool [B, M].

    Raises:
        TrainingError: the batch has none at all.
    """
    if batch.teacher is None:
        raise TrainingError(f"{loss}: the batch has no teacher's scores: name a run as the stage's `teacher`")
    taught = batch.teacher.isfinite()
    return batch.teacher.to(safe_scores(batch).dtype).masked_fill(~taught, 0.0), taught
