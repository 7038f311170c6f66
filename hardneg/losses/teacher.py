"""A teacher's scores as losses take them."""

from torch import Tensor

from hardneg.errors import TrainingError
from hardneg.losses.pairs import safe_scores
from hardneg.types import ScoreBatch

_SUREST = 1e-7  # a probability nearer to 0 or 1 is rounding of a float32
_BEYOND = 1e-6  # equal scores of a run are stored in steps down, which may lead below 0; sums may round above 1


def taught_scores(loss: str, batch: ScoreBatch, probabilities: bool = False) -> tuple[Tensor, Tensor]:
    """The teacher's scores, [B, M], 0 where it has none, and where it has one, bool [B, M].

    probabilities: they are such, but for rounding, and are turned back into logits.

    Raises:
        TrainingError: the batch has none at all, or they are no probabilities where they should be.
    """
    if batch.teacher is None:
        raise TrainingError(f"{loss}: the batch has no teacher's scores: name a run as the stage's `teacher`")
    taught = batch.teacher.isfinite()
    scores = batch.teacher.to(safe_scores(batch).dtype)
    if probabilities:
        if bool(((scores < -_BEYOND) | (scores > 1 + _BEYOND)).any()):
            raise TrainingError(f"{loss}: the teacher's scores are no probabilities: leave `probabilities` out")
        scores = scores.logit(_SUREST)
    return scores.masked_fill(~taught, 0.0), taught
