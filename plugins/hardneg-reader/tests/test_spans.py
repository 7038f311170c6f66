"""Spans by hand: the best one, and the likelihood of several."""

from math import exp, log

import pytest
import torch
from hardneg_reader.reader import best_spans, log_probabilities, span_log_likelihood
from hardneg_reader.training import ReadingLoss, ReadingScores, padded_spans

STARTS = torch.tensor([[0.2, 0.5, 0.3], [0.6, 0.2, 0.2]], dtype=torch.float64).log()
ENDS = torch.tensor([[0.1, 0.3, 0.6], [0.5, 0.3, 0.2]], dtype=torch.float64).log()


@pytest.mark.parametrize(
    ("longest", "spans", "products"),
    [(1, [(2, 2), (0, 0)], [0.18, 0.30]), (2, [(1, 2), (0, 0)], [0.30, 0.30]), (9, [(1, 2), (0, 0)], [0.30, 0.30])],
)
def test_the_best_span_has_the_highest_product(longest, spans, products):
    best, first, last = best_spans(STARTS, ENDS, longest)
    assert list(zip(first.tolist(), last.tolist(), strict=True)) == spans
    assert best.exp().tolist() == pytest.approx(products)


def test_of_equal_spans_the_shortest_is_taken():
    equal = torch.zeros(1, 3)
    assert [part.tolist() for part in best_spans(equal, equal, 3)] == [[0.0], [0], [0]]


def test_an_answer_may_stand_in_several_places():
    spans, there = padded_spans([[(1, 1), (1, 2)], [(0, 2)]])
    assert there.tolist() == [[True, True], [True, False]]
    likelihood = span_log_likelihood(STARTS, ENDS, spans, there)
    assert likelihood.exp().tolist() == pytest.approx([0.15 + 0.30, 0.12])


def test_the_loss_is_that_of_the_passage_and_of_its_spans():
    selected = torch.tensor([[2.0, 1.0, 0.0], [0.0, 0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    spans = torch.tensor([log(0.45), 0.0], dtype=torch.float64, requires_grad=True)
    loss = ReadingLoss()(ReadingScores(selected, spans))
    total = exp(2) + exp(1) + 1
    first, second = log(total) - 2 - log(0.45), log(3)
    assert loss.item() == pytest.approx((first + second) / 2) == pytest.approx(1.152363, abs=1e-6)
    loss.backward()
    assert spans.grad is not None and spans.grad.tolist() == [-0.5, -0.5]
    assert selected.grad is not None and selected.grad[1].tolist() == pytest.approx([-1 / 3, 1 / 6, 1 / 6])
    assert selected.grad[0].tolist() == pytest.approx([(exp(2) / total - 1) / 2, exp(1) / total / 2, 1 / total / 2])


def test_probabilities_are_those_of_the_tokens_that_may_be_in_an_answer():
    logits = torch.tensor([[5.0, 0.0, log(3)], [1.0, 2.0, 3.0]], requires_grad=True)
    found = log_probabilities(logits, torch.tensor([[False, True, True], [False, False, False]]))
    assert found.exp().tolist() == [pytest.approx([0.0, 0.25, 0.75]), [0.0, 0.0, 0.0]]
    found[0, 1].backward()
    assert logits.grad is not None
    assert logits.grad.tolist() == [pytest.approx([0.0, 0.75, -0.75]), [0.0, 0.0, 0.0]]
