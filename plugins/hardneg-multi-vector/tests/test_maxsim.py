"""MaxSim, its exact index, and queries that are filled up, against numbers worked out by hand and plain loops."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hardneg_multi_vector.encoding import EXPANDED, VectorAToken, expanded, maxsim
from hardneg_multi_vector.indexes import MultiVector
from hardneg_multi_vector.maxsim import MultiVectorSearcher, block_scores, maxsim_matrix, maxsim_pairs
from hardneg_multi_vector.store import TokenStore, TokenVectors
from hardneg_multi_vector.testing import write_tokens
from hypothesis import given, settings, strategies as st
from torch import Tensor

from hardneg.encoders.tokens import Tokens
from hardneg.indexes.candidate_scoring import rank_candidates
from hardneg.indexes.exact import ExactOptions
from hardneg.indexes.open_store import open_store
from hardneg.records import ArtifactError, UsageError


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
    mean = maxsim(_tensor(*_QUERIES), _tensor(*_DOCUMENTS), mean=True)  # over the tokens of the query
    torch.testing.assert_close(mean, scores / torch.tensor([[2.0], [1.0]]))


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


MASKS = SimpleNamespace(mask_token_id=99)


@pytest.mark.parametrize("attended", [False, True])
def test_a_short_query_is_filled_and_a_long_one_stays(attended: bool) -> None:
    found = expanded(_tokens(), MASKS, {"length": 4, "token": None, "attend": attended})
    assert found.offsets.tolist() == [0, 4, 9]
    assert found.columns["input_ids"].tolist() == [2, 7, 3, 99, 2, 8, 9, 6, 3]
    assert found.columns["attention_mask"].tolist() == [1, 1, 1, int(attended), 1, 1, 1, 1, 1]
    assert found.columns[EXPANDED].tolist() == [0, 0, 0, 1, 0, 0, 0, 0, 0]


def test_tokens_go_before_the_text_where_padding_does() -> None:
    found = expanded(_tokens(left=True), MASKS, {"length": 5, "token": None, "attend": False})
    assert found.columns["input_ids"].tolist() == [99, 99, 2, 7, 3, 2, 8, 9, 6, 3]


def tokens(*texts: list[list[float]], dimension: int = 2) -> TokenVectors:
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int64)
    rows = [row for text in texts for row in text]
    return TokenVectors(offsets, np.array(rows, np.float32).reshape(-1, dimension))


def drawn(lengths: list[int], seed: int, dimension: int = 3) -> TokenVectors:
    draws = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return TokenVectors(offsets, draws.integers(-3, 4, (int(offsets[-1]), dimension)).astype(np.float32))


def brute_force(queries: TokenVectors, documents: TokenVectors) -> np.ndarray:
    scores = np.full((len(queries), len(documents)), -np.inf, np.float32)
    for i in range(len(queries)):
        for j in range(len(documents)):
            query, document = queries[i : i + 1].vectors, documents[j : j + 1].vectors
            if len(query) and len(document):
                scores[i, j] = (query @ document.T).max(1).sum()
    return scores


def best(scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    scores = np.pad(scores, ((0, 0), (0, max(0, k - scores.shape[1]))), constant_values=-np.inf)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    ordered = np.take_along_axis(scores, order, 1)
    return np.where(np.isneginf(ordered), -1, order), ordered


QUERIES = tokens([[1, 0], [0, 2]], [[-1, -1]], [])
DOCUMENTS = tokens([[3, 1], [0, 4]], [[-1, -2]], [], [[2, 2], [2, 2], [2, 2]])
# query 0: max(3, 0) + max(2, 8) = 11; -1 - 4 = -5; none; 2 + 4 = 6. query 1: max(-4, -4); 3; none; -4.
SCORES = [[11, -5, -np.inf, 6], [-4, 3, -np.inf, -4], [-np.inf] * 4]


def test_scores_by_hand():
    assert maxsim_matrix(QUERIES, DOCUMENTS).tolist() == SCORES
    pairs = maxsim_pairs(QUERIES[np.array([0, 1, 0, 1, 2, 0])], DOCUMENTS[np.array([0, 1, 2, 3, 0, 3])])
    assert pairs.tolist() == [11, 3, -np.inf, -4, -np.inf, 6]


def test_hits_by_hand(tmp_path):
    hits = MultiVector().open(write_tokens(tmp_path, DOCUMENTS)).search(QUERIES, 5)
    assert hits.rows.tolist() == [[0, 3, 1, -1, -1], [1, 0, 3, -1, -1], [-1] * 5]
    assert hits.scores[0].tolist() == [11, 6, -5, -np.inf, -np.inf]
    assert np.isneginf(hits.scores[2]).all()


LENGTHS = st.lists(st.integers(0, 4), max_size=9)


@settings(max_examples=30, deadline=None)
@given(LENGTHS, LENGTHS, st.integers(1, 12), st.integers(1, 9), st.integers(1, 9), st.integers(0, 3))
def test_any_texts_in_any_blocks(tmp_path_factory, asked, there, k, block, part, seed):
    queries, documents = drawn(asked, seed), drawn(there, seed + 9)
    expected = brute_force(queries, documents)
    assert np.array_equal(maxsim_matrix(queries, documents), expected)
    row, column = np.indices(expected.shape).reshape(2, -1)
    pairs = maxsim_pairs(queries[row], documents[column], tokens=block)
    assert np.array_equal(pairs, expected.reshape(-1))
    store = TokenStore.open(write_tokens(tmp_path_factory.mktemp("store"), documents))
    for resident in (0, 1 << 20):
        options = ExactOptions(corpus_block=block, query_block=part, device="cpu", resident=resident)
        hits = MultiVectorSearcher(store, options=options).search(queries, k)
        rows, scores = best(expected, k)
        assert np.array_equal(hits.rows, rows)
        assert np.array_equal(hits.scores, scores)


def test_candidates_are_ranked_by_maxsim(tmp_path):
    searcher = open_store(write_tokens(tmp_path, DOCUMENTS))
    given = np.array([[1, 2, 0, 3], [3, 0, -1, -1], [0, 1, -1, -1]])
    for at_once in (None, 1):
        hits = rank_candidates(searcher, QUERIES, given, 3, at_once)
        assert hits.rows.tolist() == [[0, 3, 1], [0, 3, -1], [-1, -1, -1]]
        assert hits.scores.tolist() == [[11, 6, -5], [-4, -4, -np.inf], [-np.inf] * 3]


def test_scores_are_of_whole_numbers_whatever_a_trainer_has_set(tmp_path, monkeypatch):
    """The context that keeps GPU products in float32 is entered before anything is multiplied."""
    inside: list[torch.device] = []

    @contextmanager
    def products(device: torch.device) -> Iterator[None]:
        inside.append(device)
        yield
        inside.pop()

    def guarded(made: Any) -> Any:
        def multiplied(*given: Any) -> Any:
            assert inside == [torch.device("cpu")]
            return made(*given)

        return multiplied

    monkeypatch.setattr("hardneg.indexes.exact.float32_products", products)
    monkeypatch.setattr("hardneg_multi_vector.maxsim.block_scores", guarded(block_scores))
    monkeypatch.setattr(torch, "bmm", guarded(torch.bmm))
    searcher = MultiVectorSearcher(
        TokenStore.open(write_tokens(tmp_path, DOCUMENTS)), options=ExactOptions(device="cpu")
    )
    assert searcher.search(QUERIES, 1).rows.tolist() == [[0], [1], [-1]]
    assert maxsim_pairs(QUERIES[:2], DOCUMENTS[:2], torch.device("cpu")).tolist() == [11, 3]
    assert not inside


def test_long_documents_are_scored_few_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr("hardneg_multi_vector.maxsim._HELD", 6)
    searcher = MultiVector().open(write_tokens(tmp_path, DOCUMENTS))
    assert searcher.at_once == 2  # the longest has three tokens
    asked: list[int] = []
    monkeypatch.setattr(TokenStore, "gather", lambda store, rows: asked.append(len(rows)) or DOCUMENTS[rows])
    hits = rank_candidates(searcher, QUERIES, np.array([[0, 1, 3]] * 3), 3)
    assert hits.rows.tolist() == [[0, 3, 1], [1, 0, 3], [-1, -1, -1]]
    assert max(asked) == 2


def test_what_cannot_be_searched_is_told(tmp_path):
    searcher = MultiVector().open(write_tokens(tmp_path / "tokens", DOCUMENTS))
    for queries in (["text"], np.ones((2, 2), np.float32)):
        with pytest.raises(UsageError, match="one vector per token"):
            searcher.search(queries, 1)
    with pytest.raises(UsageError, match=r"instead of \[n, 2\]"):
        searcher.search(tokens([[1, 2, 3]], dimension=3), 1)
    with pytest.raises(UsageError, match=r"query 1 .* is not finite"):
        searcher.search(tokens([[1, 2]], [[1, np.nan]]), 1)
    with pytest.raises(UsageError, match="k is 0"):
        searcher.search(QUERIES, 0)
    with pytest.raises(UsageError, match="cannot be paired"):
        maxsim_pairs(QUERIES, DOCUMENTS)
    huge = tokens([[3e38, 0]])
    with pytest.raises(ArtifactError, match="exceed the range"):
        MultiVector().open(write_tokens(tmp_path / "huge", huge)).search(huge, 1)
