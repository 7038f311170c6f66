"""Spans of tokens by the scores of where they start and end: pure functions of tensors.

Source: Karpukhin et al., Dense Passage Retrieval for Open-Domain Question Answering (EMNLP 2020), section 6.1.
"""

import torch
from torch import Tensor


def log_probabilities(logits: Tensor, answerable: Tensor) -> Tensor:
    """The log of the softmax over the tokens that may be in an answer.

    logits: float [n, L]. answerable: bool [n, L].
    Returns float32 [n, L], -inf at the other tokens; a row without any token has -inf only.
    """
    masked = logits.float().masked_fill(~answerable, -torch.inf)
    return masked - torch.logsumexp(masked, 1, keepdim=True).masked_fill(~answerable.any(1, keepdim=True), 0.0)


def span_log_likelihood(starts: Tensor, ends: Tensor, spans: Tensor, there: Tensor) -> Tensor:
    """The log of the sum over a row's spans (s, e) of P(start = s) P(end = e).

    starts, ends: log-probabilities, float [n, L]. spans: int64 [n, S, 2], first and last token. there: bool [n, S],
    false for padding; at least one true in each row.
    Returns float [n].
    """
    scores = starts.gather(1, spans[:, :, 0]) + ends.gather(1, spans[:, :, 1])
    return torch.logsumexp(scores.masked_fill(~there, -torch.inf), 1)


def best_spans(starts: Tensor, ends: Tensor, longest: int) -> tuple[Tensor, Tensor, Tensor]:
    """For each row the span of up to `longest` tokens with the highest P(start) P(end); of equal ones the shortest.

    starts, ends: log-probabilities, float [n, L].
    Returns its log-probability, float [n], -inf where there is none, and its first and last token, int64 [n].
    """
    best, first = (starts + ends).max(1)
    last = first.clone()
    for more in range(1, min(longest, starts.shape[1])):
        score, start = (starts[:, :-more] + ends[:, more:]).max(1)
        better = score > best
        best = torch.where(better, score, best)
        first, last = torch.where(better, start, first), torch.where(better, start + more, last)
    return best, first, last
