"""Arithmetic shared by the losses: scores of positives, a teacher's scores, weighted means."""

import torch
from torch import Tensor

from hardneg.records import errors, types


def check_temperature(loss: str, temperature: float) -> None:
    """Raise PluginError if the temperature is not above 0; the message starts with the name of the loss."""
    if not temperature > 0:
        raise errors.PluginError(f"{loss}: temperature must be above 0, not {temperature}")


def safe_scores(batch: types.ScoreBatch) -> Tensor:
    """Return the scores in float32 or float64, [B, M]; 0 without gradient where `valid` is false."""
    scores = batch.scores if batch.scores.dtype == torch.float64 else batch.scores.float()
    return scores.masked_fill(~batch.valid, 0.0)


def negatives(batch: types.ScoreBatch) -> Tensor:
    """Return the mask of each row's possible negatives, which are valid and not positive, bool [B, M]."""
    return batch.valid & ~batch.positive


def positive_scores(scores: Tensor, batch: types.ScoreBatch) -> tuple[Tensor, Tensor]:
    """Return the scores of each row's positives, padded to [B, P], and a mask, bool [B, P], false for padding."""
    drawn = batch.positive & batch.valid
    count = max(1, int(drawn.sum(1).max())) if drawn.numel() else 0
    present, columns = drawn.to(torch.uint8).topk(min(count, drawn.shape[1]), dim=1)
    return scores.gather(1, columns), present.bool()


def lowered(values: Tensor, counted: Tensor) -> Tensor:
    """Return the values, lowered to a quarter of the dtype's lowest finite number where `counted` is false."""
    return values.masked_fill(~counted, torch.finfo(values.dtype).min / 4)


def weighted_mean(losses: Tensor, mask: Tensor, weights: Tensor | None) -> Tensor:
    """Return the mean of `losses` over `mask`, weighted by row; 0 with zero gradient if the mask is empty.

    Only the ratios of `weights`, [B], matter; a row with weight 0 is ignored. None means equal weights.
    """
    counted = mask.to(losses.dtype)
    if weights is not None:
        counted = counted * weights.to(losses.dtype).reshape(-1, *[1] * (losses.dim() - 1))
    total = counted.sum()
    return (losses * counted).sum() / torch.where(total > 0, total, torch.ones_like(total))


_SUREST = 1e-7  # probabilities are clamped this far from 0 and 1, the rounding error of float32
_BEYOND = 1e-6  # a run stores equal scores in small downward steps, possibly below 0; sums may round above 1


def teacher_scores(loss: str, batch: types.ScoreBatch, probabilities: bool = False) -> tuple[Tensor, Tensor]:
    """Return the teacher's scores, [B, M], 0 where missing, and a mask of the scores that are present, bool [B, M].

    probabilities: whether to convert the scores from probabilities to logits.

    Raises:
        TrainingError: the batch has no teacher scores, or the scores should be probabilities but are not.
    """
    if batch.teacher is None:
        raise errors.TrainingError(f"{loss}: the batch has no teacher scores; set the stage's `teacher` to a run")
    scored = batch.teacher.isfinite()
    scores = batch.teacher.to(safe_scores(batch).dtype)
    if probabilities:
        if bool(((scores < -_BEYOND) | (scores > 1 + _BEYOND)).any()):
            raise errors.TrainingError(f"{loss}: the teacher's scores are not probabilities; remove `probabilities`")
        scores = scores.logit(_SUREST)
    return scores.masked_fill(~scored, 0.0), scored
