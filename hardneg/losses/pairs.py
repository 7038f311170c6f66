"""The arithmetic that losses share: pairs of a positive and a negative, a teacher's scores, means over what counts."""

import torch
from torch import Tensor
from torch.nn.functional import softplus

from hardneg.records import errors, types


def check_temperature(loss: str, temperature: float) -> None:
    """Raise PluginError for a temperature of 0 or below."""
    if not temperature > 0:
        raise errors.PluginError(f"{loss}: temperature must be above 0, not {temperature}")


def safe_scores(batch: types.ScoreBatch) -> Tensor:
    """The scores in float32 or better, [B, M]; 0 without gradient where `valid` is false."""
    scores = batch.scores if batch.scores.dtype == torch.float64 else batch.scores.float()
    return scores.masked_fill(~batch.valid, 0.0)


def negatives(batch: types.ScoreBatch) -> Tensor:
    """bool [B, M]: the documents that may count as a negative of each row."""
    return batch.valid & ~batch.positive


def positive_scores(scores: Tensor, batch: types.ScoreBatch) -> tuple[Tensor, Tensor]:
    """The scores of each row's positives, [B, P], and which of them are real, bool [B, P]."""
    drawn = batch.positive & batch.valid
    count = max(1, int(drawn.sum(1).max())) if drawn.numel() else 0
    present, columns = drawn.to(torch.uint8).topk(min(count, drawn.shape[1]), dim=1)
    return scores.gather(1, columns), present.bool()


def lowered(values: Tensor, counted: Tensor) -> Tensor:
    """The values, far below the others where nothing counts."""
    return values.masked_fill(~counted, torch.finfo(values.dtype).min / 4)


def pair_losses(scores: Tensor, batch: types.ScoreBatch) -> tuple[Tensor, Tensor]:
    """RankNet's loss of each pair, [B, P, M], and which positives are real, bool [B, P]."""
    positive, present = positive_scores(scores, batch)
    return softplus(scores[:, None, :] - positive[:, :, None]), present


def pair_mean(losses: Tensor, present: Tensor, chosen: Tensor, weights: Tensor | None) -> Tensor:
    """The mean of [B, P, M] losses over real positives and the `chosen` negatives (bool [B, M])."""
    return weighted_mean(losses, present[:, :, None] & chosen[:, None, :], weights)


def weighted_mean(losses: Tensor, mask: Tensor, weights: Tensor | None) -> Tensor:
    """The mean of `losses` where `mask`, each row weighted; 0 with zero gradient where nothing is left.

    A row of weight 0 is as good as absent, and only the ratios of weights matter.
    """
    counted = mask.to(losses.dtype)
    if weights is not None:
        counted = counted * weights.to(losses.dtype).reshape(-1, *[1] * (losses.dim() - 1))
    total = counted.sum()
    return (losses * counted).sum() / torch.where(total > 0, total, torch.ones_like(total))


_SUREST = 1e-7  # a probability nearer to 0 or 1 is rounding of a float32
_BEYOND = 1e-6  # equal scores of a run are stored in steps down, which may lead below 0; sums may round above 1


def taught_scores(loss: str, batch: types.ScoreBatch, probabilities: bool = False) -> tuple[Tensor, Tensor]:
    """The teacher's scores, [B, M], 0 where it has none, and where it has one, bool [B, M].

    probabilities: they are such, but for rounding, and are turned back into logits.

    Raises:
        TrainingError: the batch has none at all, or they are no probabilities where they should be.
    """
    if batch.teacher is None:
        raise errors.TrainingError(f"{loss}: the batch has no teacher's scores: name a run as the stage's `teacher`")
    taught = batch.teacher.isfinite()
    scores = batch.teacher.to(safe_scores(batch).dtype)
    if probabilities:
        if bool(((scores < -_BEYOND) | (scores > 1 + _BEYOND)).any()):
            raise errors.TrainingError(f"{loss}: the teacher's scores are no probabilities: leave `probabilities` out")
        scores = scores.logit(_SUREST)
    return scores.masked_fill(~taught, 0.0), taught
