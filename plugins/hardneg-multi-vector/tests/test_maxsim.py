"""MaxSim, and queries that are filled up, against numbers worked out by hand."""

import numpy as np
import pytest
import torch
from hardneg_multi_vector.encoding import EXPANDED, Expansion, VectorAToken, maxsim
from hardneg_multi_vector.store import TokenVectors
from torch import Tensor

from hardneg.encoders.tokens.tokens import Tokens


def _tensor(*texts: list[list[float]]) -> Tensor:
    flat = np.array([vector for text in texts for vector in text], np.float32).reshape(-1, 2)
    offsets = np.cumsum([0, *(len(text) for text in texts)])
    return VectorAToken().tensor(TokenVectors(offsets, flat), torch.device("cpu"))


_QUERIES = ([[1, 0], [0, 1]], [[3, 4]])
_DOCUMENTS = ([[2, 0], [1, 1]], [[-1, -2]], [[0, 1], [5, 0], [-9, 9]])


def test_each_query_token_takes_its_best_document_token_and_padding_takes_no_part() -> None:
    # Query 0: best of (2, 1) and of (0, 1); of -1 and of -2; of (0, 5, -9) and of (1, 0, 9).
    # Query 1: best of (6, 7); of -11 alone, where padding would give 0; of (4, 15, 9).
    scores = maxsim(_tensor(*_QUERIES), _tensor(*_DOCUMENTS))
    torch.testing.assert_close(scores, torch.tensor([[3.0, -3.0, 14.0], [7.0, -11.0, 15.0]]))


def test_mean_divides_by_the_tokens_of_the_query() -> None:
    scores = maxsim(_tensor(*_QUERIES), _tensor(*_DOCUMENTS), mean=True)
    torch.testing.assert_close(scores, torch.tensor([[1.5, -1.5, 7.0], [7.0, -11.0, 15.0]]))


def test_lists_are_scored_by_their_own_query() -> None:
    documents = VectorAToken().collect(_tensor(*_DOCUMENTS)[torch.tensor([0, 2, 1, 0])])
    scores = VectorAToken().score_lists(_tensor(*_QUERIES), documents)
    torch.testing.assert_close(scores, torch.tensor([[3.0, 14.0], [-11.0, 7.0]]))


def test_gradients_go_to_the_best_token_alone() -> None:
    queries, documents = _tensor([[1, 0], [0, 1]]), _tensor([[2, 0], [1, 1], [0, 3]]).requires_grad_()
    maxsim(queries, documents).sum().backward()
    assert documents.grad is not None
    assert documents.grad[0].tolist() == [[1, 0, 0], [0, 0, 0], [0, 1, 0]]


def test_a_document_without_tokens_is_far_below_all_others() -> None:
    scores = maxsim(_tensor([[1, 0]]), _tensor([[-5, 0]], []))
    assert scores[0, 0] == -5
    assert scores[0, 1] < -1e8


@pytest.mark.parametrize("rows", [[0, 1, 2], [2], []])
def test_vectors_come_back_from_the_tensor_as_they_were(rows: list[int]) -> None:
    offsets = np.array([0, 2, 2, 5])
    texts = TokenVectors(offsets, np.arange(10, dtype=np.float32).reshape(5, 2))[np.array(rows, np.int64)]
    back = VectorAToken().collect(VectorAToken().tensor(texts, torch.device("cpu")))
    np.testing.assert_array_equal(back.offsets, texts.offsets)
    np.testing.assert_array_equal(back.vectors, texts.vectors)


def _tokens(left: bool = False) -> Tokens:
    ids, mask = np.array([2, 7, 3, 2, 8, 9, 6, 3]), np.ones(8, np.int64)
    return Tokens({"input_ids": ids, "attention_mask": mask}, np.array([0, 3, 8]), {"input_ids": 0}, left, 0)


@pytest.mark.parametrize("attended", [False, True])
def test_a_short_query_is_filled_and_a_long_one_stays(attended: bool) -> None:
    found = Expansion(4, 99, attended).expand(_tokens())
    assert found.offsets.tolist() == [0, 4, 9]
    assert found.columns["input_ids"].tolist() == [2, 7, 3, 99, 2, 8, 9, 6, 3]
    assert found.columns["attention_mask"].tolist() == [1, 1, 1, int(attended), 1, 1, 1, 1, 1]
    assert found.columns[EXPANDED].tolist() == [0, 0, 0, 1, 0, 0, 0, 0, 0]


def test_tokens_go_before_the_text_where_padding_does() -> None:
    found = Expansion(5, 99, False).expand(_tokens(left=True))
    assert found.columns["input_ids"].tolist() == [99, 99, 2, 7, 3, 2, 8, 9, 6, 3]
