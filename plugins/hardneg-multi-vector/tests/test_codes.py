"""Codes and candidates by their lists, against numbers worked out by hand."""

from pathlib import Path

import numpy as np
import pytest
from hardneg_multi_vector.codes import CODES, TokenCodes, by_centroids, write_codes, write_lists
from hardneg_multi_vector.indexes import MultiVector, MultiVectorPq
from hardneg_multi_vector.store import TokenStore, TokenVectors
from hardneg_multi_vector.testing import write_tokens
from hypothesis import given, settings, strategies as st

from hardneg.records import ArtifactError, UsageError
from hardneg.runtime import Silent

pytest.importorskip("faiss")

CENTROIDS = np.array([[1, 0], [0, 1], [-1, 0]], np.float32)
BOOKS = np.zeros((2, CODES, 1), np.float32)  # two parts of one number each
BOOKS[:, 1, 0] = 0.25, -0.5
OFFSETS = np.array([0, 2, 2, 4, 5])
NEAREST = [0, 1, 2, 2, 1]
CODED = np.array([[0, 1, 0], [1, 0, 0], [2, 0, 1], [2, 0, 0], [1, 1, 1]], np.uint8)


def coded(folder: Path) -> Path:
    vectors = np.zeros((len(NEAREST), 2), np.float32)
    store = TokenStore.open(write_tokens(folder / "tokens", TokenVectors(OFFSETS, vectors)))
    write_codes(folder / "codes", CENTROIDS, BOOKS, iter([CODED[:3], CODED[3:]]), store)
    write_lists(folder / "codes", len(CENTROIDS), store)
    return folder / "codes"


def test_codes_by_hand(tmp_path):
    codes = TokenCodes.open(coded(tmp_path))
    assert (len(codes), codes.dimension, codes.nearest.tolist()) == (4, 2, NEAREST)
    found = codes.gather(np.array([3, 1, 0]))
    assert found.offsets.tolist() == [0, 1, 1, 3]
    assert found.vectors.tolist() == [[0.25, 0.5], [1.25, 0], [0, 1]]
    lists = [codes.lists[a:b].tolist() for a, b in zip(codes.list_offsets, codes.list_offsets[1:], strict=False)]
    assert lists == [[0], [0, 3], [2]]


def test_candidates_by_hand(tmp_path):
    codes = TokenCodes.open(coded(tmp_path))
    query = TokenVectors(np.array([0, 2, 2, 3]), np.array([[0, 2], [0.5, 1], [-1, 0]], np.float32))
    # both tokens of query 0 look into list 1: documents 0 and 3. By centroids: 2 + 1 for both of them.
    # query 2 looks into list 2: document 2.
    assert by_centroids(codes, query, 1, 3).tolist() == [[0, 3, -1], [-1] * 3, [2, -1, -1]]
    # all lists: document 2 has 0 - 0.5 with query 0; documents 0 and 3 have 0 with query 2.
    assert by_centroids(codes, query, 3, 4).tolist() == [[0, 3, 2, -1], [-1] * 4, [2, 0, 3, -1]]


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 6), st.integers(1, 30), st.integers(0, 5))
def test_documents_of_the_lists_are_ranked_by_centroids(tmp_path_factory, probes, count, seed):
    draws, folder = np.random.default_rng(seed), tmp_path_factory.mktemp("codes")
    offsets = np.concatenate([[0], np.cumsum(draws.integers(0, 5, 30))]).astype(np.int64)
    store = TokenStore.open(
        write_tokens(folder / "tokens", TokenVectors(offsets, np.zeros((offsets[-1], 2), np.float32)))
    )
    centroids, query = (draws.standard_normal((n, 2)).astype(np.float32) for n in (6, 3))
    numbers = draws.integers(0, 6, (offsets[-1], 1)).astype(np.uint8)
    write_codes(folder / "codes", centroids, BOOKS, iter([np.hstack([numbers, numbers * 0, numbers * 0])]), store)
    write_lists(folder / "codes", 6, store)
    found = by_centroids(TokenCodes.open(folder / "codes"), TokenVectors(np.array([0, 1, 3]), query), probes, count)
    for line, rows in zip(found, (query[:1], query[1:]), strict=True):
        products = rows @ centroids.T
        looked_into = np.argsort(-products, axis=1)[:, :probes]
        scores = {
            document: products[:, own].max(1).sum()
            for document, own in enumerate(np.split(numbers[:, 0], offsets[1:-1]))
            if np.isin(own, looked_into).any()
        }
        expected = sorted(scores, key=lambda document: (-round(scores[document], 5), document))[:count]
        assert line.tolist() == expected + [-1] * (count - len(expected))


def topical(count: int, dimension: int, noise: float = 0.4) -> TokenVectors:
    draws = np.random.default_rng(0)
    lengths = draws.integers(1, 9, count)
    topics = draws.standard_normal((25, dimension))
    vectors = np.repeat(topics[draws.integers(0, 25, count)], lengths, axis=0)
    vectors = vectors + noise * draws.standard_normal(vectors.shape)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return TokenVectors(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), vectors.astype(np.float32))


def test_scores_are_those_of_the_decoded_vectors_and_near_the_exact_ones(tmp_path):
    documents = topical(300, 16)
    source = write_tokens(tmp_path / "tokens", documents)
    plugin = MultiVectorPq(subvectors=16, probes=8)
    assert plugin.build(source, tmp_path / "codes", Silent()) == 300
    queries = documents[np.array([5, 80, 211])]
    hits, exact = plugin.open(tmp_path / "codes").search(queries, 300), MultiVector().open(source).search(queries, 300)
    near = {row: score for row, score in zip(exact.rows[0], exact.scores[0], strict=True)}
    pairs = zip(hits.rows[0], hits.scores[0], strict=True)
    assert max(abs(near[row] - score) for row, score in pairs if row >= 0) < 0.1
    assert (hits.rows[:, 0] == exact.rows[:, 0]).all()
    assert (tmp_path / "codes" / "codes.npy").stat().st_size == 16 * documents.offsets[-1] + 128
    again = MultiVectorPq(subvectors=16, probes=8)
    again.build(source, tmp_path / "again", Silent())
    for path in (tmp_path / "codes").iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes(), path.name


def test_what_does_not_fit_is_told(tmp_path):
    source = write_tokens(tmp_path / "tokens", topical(40, 6))
    for options, told in (
        ({"subvectors": 4}, "cannot be split into 4 subvectors; possible: 1, 2, 3, 6"),
        ({"subvectors": 3}, "token vectors, and training uses at most 4096|256 centroids .* need at least 256"),
        ({"subvectors": 3, "centroids": 9999}, "9999 lists need at least 9999"),
    ):
        with pytest.raises(UsageError, match=told):
            MultiVectorPq(**options).build(source, tmp_path / "codes", Silent())
    for options in ({"sample": 9}, {"probes": 0}, {"centroids": 0}):
        with pytest.raises(UsageError, match="must be at least"):
            MultiVectorPq(**options)


@pytest.mark.parametrize("name", ["codebooks.safetensors", "nearest.npy", "codes.npy", "lists.npy", "docid"])
def test_damage_is_told(tmp_path, name):
    path = coded(tmp_path)
    whole = (path / name).read_bytes()
    for damaged in (whole[:-4], b""):
        (path / name).unlink()
        (path / name).write_bytes(damaged)
        with pytest.raises(ArtifactError, match=str(path)):
            TokenCodes.open(path)
    (path / name).unlink()
    with pytest.raises(ArtifactError, match=str(path)):
        TokenCodes.open(path)
