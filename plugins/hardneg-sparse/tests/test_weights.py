import numpy as np
import torch
from hardneg_sparse.store import SparseRows
from hardneg_sparse.weights import TermWeights

WEIGHTS = TermWeights(["a", "b", "c", "d"])
TENSOR = torch.tensor([[0.0, 2.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0], [3.0, 0.0, 0.5, 0.25]])


def test_what_is_not_0_is_kept():
    rows = WEIGHTS.collect(TENSOR)
    assert rows.offsets.tolist() == [0, 2, 2, 5] and rows.width == 4
    assert rows.terms.tolist() == [1, 3, 0, 2, 3] and rows.weights.tolist() == [2, 1, 3, 0.5, 0.25]
    assert torch.equal(WEIGHTS.tensor(rows, torch.device("cpu")), TENSOR)


def test_the_largest_are_kept():
    rows = TermWeights(WEIGHTS.terms, most=2).collect(TENSOR)
    assert rows.terms.tolist() == [1, 3, 0, 2] and rows.offsets.tolist() == [0, 2, 2, 4]


def test_batches_in_any_order_become_texts_in_order():
    batches = [(np.array([2, 0]), TENSOR[[2, 0]]), (np.array([1]), TENSOR[[1]])]
    assert same(WEIGHTS.gathered(batches, 3, 4), WEIGHTS.collect(TENSOR))
    empty = WEIGHTS.gathered((), 0, 4)
    assert len(empty) == 0 and empty.width == 4


def test_scores_are_inner_products():
    queries = torch.tensor([[1.0, 1.0, 0.0, 2.0], [0.0, 0.0, 2.0, 0.0]])
    assert WEIGHTS.score(queries, TENSOR, None).tolist() == [[4, 0, 3.5], [0, 0, 1]]
    assert WEIGHTS.score(queries, TENSOR, torch.tensor([2, 2, 0])).tolist() == [[3.5, 3.5, 4], [1, 1, 0]]
    lists = WEIGHTS.score_lists(queries.requires_grad_(), WEIGHTS.collect(TENSOR[[0, 1, 2, 0]]))
    assert lists.tolist() == [[4, 0], [1, 0]]
    lists[0].sum().backward()
    assert queries.grad is not None and queries.grad.tolist() == [[0, 2, 0, 1], [0, 0, 0, 0]]


def same(one: SparseRows, other: SparseRows) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("offsets", "terms", "weights"))
