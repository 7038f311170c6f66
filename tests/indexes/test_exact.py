import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from numpy.typing import NDArray
from torch.utils._python_dispatch import TorchDispatchMode

from hardneg.formats.vectors import FlatVectors
from hardneg.indexes import exact
from hardneg.indexes.exact import ExactOptions, Flat, FlatSearcher, search_exact
from hardneg.records import ArtifactError, Hits, UsageError
from hardneg.runtime import Silent
from hardneg.testing.indexes import write_encoded


def _naive(vectors: NDArray[np.float32], queries: NDArray[np.float32], k: int) -> Hits:
    scores = queries @ vectors.T
    rows = np.full((len(queries), k), -1, np.int64)
    best = np.full((len(queries), k), -np.inf, np.float32)
    for i, line in enumerate(scores):
        order = np.lexsort((np.arange(len(line)), -line))[:k]
        rows[i, : len(order)], best[i, : len(order)] = order, line[order]
    return Hits(rows, best)


def _same(one: Hits, two: Hits) -> bool:
    return np.array_equal(one.rows, two.rows) and np.array_equal(one.scores, two.scores)


@given(
    st.integers(0, 2**32 - 1), st.integers(0, 60), st.integers(0, 9), st.integers(1, 70), st.integers(1, 20),
    st.integers(1, 5), st.integers(0, 3),
)  # fmt: skip
def test_equals_a_full_sort_whatever_the_blocks(
    seed: int, documents: int, queries: int, k: int, corpus_block: int, query_block: int, largest: int
) -> None:
    generator = np.random.default_rng(seed)
    vectors = generator.integers(-largest, largest + 1, (documents, 4)).astype(np.float32)
    asked = generator.integers(-1, 2, (queries, 4)).astype(np.float32)
    expected = _naive(vectors, asked, k)
    hits = search_exact(vectors, asked, k, ExactOptions(corpus_block, query_block))
    assert _same(hits, expected) and (hits.rows.dtype, hits.scores.dtype) == (np.int64, np.float32)


@pytest.mark.parametrize(("corpus_block", "query_block"), [(64, 16), (512, 7), (None, None), (4000, 40)])
def test_many_candidates_and_selections(corpus_block: int | None, query_block: int | None) -> None:
    generator = np.random.default_rng(3)
    vectors = generator.integers(-3, 4, (4000, 8)).astype(np.float32)
    vectors += (np.arange(4000) // 500)[:, None].astype(np.float32)  # ever better ones, so that lists overflow
    queries = generator.integers(-2, 3, (40, 8)).astype(np.float32)
    for k in (1, 10, 300):
        hits = search_exact(vectors, queries, k, ExactOptions(corpus_block, query_block, "cpu"))
        assert _same(hits, _naive(vectors, queries, k))


def test_real_numbers_agree_with_numpy() -> None:
    generator = np.random.default_rng(1)
    vectors, queries = generator.standard_normal((3000, 16)), generator.standard_normal((20, 16))
    hits = search_exact(vectors.astype(np.float32), queries.astype(np.float32), 15, ExactOptions(700, 9))
    expected = _naive(vectors.astype(np.float32), queries.astype(np.float32), 15)
    assert np.allclose(hits.scores, expected.scores, atol=1e-5)
    assert (hits.rows == expected.rows).mean() > 0.99


def test_the_last_few_queries_alone_have_the_same_scores_to_the_bit() -> None:
    draws = np.random.default_rng(0)
    vectors, queries = draws.standard_normal((4000, 256), np.float32), draws.standard_normal((532, 256), np.float32)
    options = ExactOptions(device="cpu", expected=532)
    whole, last = (search_exact(vectors, some, 10, options) for some in (queries, queries[512:]))
    assert last.scores.tobytes() == whole.scores[512:].tobytes()


def test_mistakes_are_told() -> None:
    vectors, queries = np.ones((4, 3), np.float32), np.ones((2, 3), np.float32)
    broken = vectors.copy()
    broken[2, 1] = np.nan
    with pytest.raises(ArtifactError, match="row 2"):
        search_exact(broken, queries, 2, ExactOptions(corpus_block=2))
    with pytest.raises(UsageError, match="query 3"):
        search_exact(vectors, np.vstack([queries, broken[1:]])[:4], 2)
    with pytest.raises(UsageError, match=r"\[n, 3\]"):
        search_exact(vectors, np.ones((2, 4), np.float32), 2)
    with pytest.raises(UsageError, match="k is 0"):
        search_exact(vectors, queries, 0)
    with pytest.raises(UsageError, match="corpus_block and query_block must"):
        search_exact(vectors, queries, 1, ExactOptions(corpus_block=0))
    for sign in (1, -1):
        with pytest.raises(ArtifactError, match="range"):
            search_exact(vectors * np.float32(sign * 1e30), queries * np.float32(1e30), 1, ExactOptions())


def test_the_flat_backend(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).integers(-3, 4, (50, 5)).astype(np.float32)
    write_encoded(tmp_path / "vectors", vectors)
    assert Flat().build(tmp_path / "vectors", tmp_path / "index", Silent()) == 50
    searcher = Flat().open(tmp_path / "index")
    assert _same(searcher.search(vectors[:7], 9), _naive(vectors, vectors[:7], 9))
    opened = FlatVectors.open(tmp_path / "index").vectors
    assert _same(search_exact(opened, vectors[:7], 9), _naive(vectors, vectors[:7], 9))
    with pytest.raises(UsageError, match=r"\[n, 5\]"):
        searcher.search(vectors[:, :4], 9)
    with pytest.raises(UsageError, match="encode"):
        searcher.search(["text"], 9)


def test_a_small_index_stays_and_finds_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(5)
    vectors = generator.integers(-3, 4, (700, 8)).astype(np.float32)
    queries = generator.integers(-2, 3, (9, 8)).astype(np.float32)
    flat = FlatVectors.open(write_encoded(tmp_path / "index", vectors))
    held, read = (FlatSearcher(flat, options=ExactOptions(100, 4, resident=size)) for size in (4 * 700 * 8, 0))
    assert _same(held.search(queries, 12), read.search(queries, 12))
    monkeypatch.setattr(FlatVectors, "read", None)
    assert _same(held.search(queries, 12), _naive(vectors, queries, 12))
    with pytest.raises(TypeError):
        read.search(queries, 12)


@pytest.mark.parametrize("resident", [0, 100])
def test_gives_the_vectors_of_rows(tmp_path: Path, resident: int) -> None:
    flat = FlatVectors.open(write_encoded(tmp_path / "index", np.array([[1.0, 2], [3, 4], [5, 6]], np.float32)))
    searcher = FlatSearcher(flat, options=ExactOptions(resident=resident))
    found = searcher.vectors(np.array([2, 0, 2]))
    assert found.tolist() == [[5, 6], [1, 2], [5, 6]]
    assert (found.dtype, found.flags.aligned) == (np.float32, True)
    with pytest.raises(UsageError, match=r"from 0 to 2; remove any padding"):
        searcher.vectors(np.array([1, -1]))


class _Sizes(TorchDispatchMode):
    """The sizes in bytes of all tensors that are made."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[int] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = function(*args, **(kwargs or {}))
        tensors = found if isinstance(found, tuple | list) else [found]
        self.made += [each.numel() * each.element_size() for each in tensors if isinstance(each, torch.Tensor)]
        return found


@pytest.mark.parametrize("tied", [False, True])
def test_no_block_has_numbers_of_rows_as_large_as_its_scores(tied: bool) -> None:
    """On a GPU the largest block's scores take half a gigabyte; a few lines with ties are looked at alone."""
    draws = np.random.default_rng(2)
    vectors, queries = (draws.normal(size=(size, 8)).astype(np.float32) for size in (3000, 64))
    if tied:
        vectors[:5], queries[:2] = 4.0, 1.0
    options = ExactOptions(corpus_block=1000, query_block=64, device="cpu")
    with _Sizes() as sizes:
        hits = search_exact(vectors, queries, 3, options)
    expected = _naive(vectors, queries, 3)
    assert np.array_equal(hits.rows, expected.rows) and np.allclose(hits.scores, expected.scores, atol=1e-4)
    scores = 64 * 1000 * 4
    assert scores in sizes.made and max(sizes.made) == scores


def test_an_index_that_is_searched_again_and_again_stays_where_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (40 << 30, 80 << 30))
    found = [ExactOptions(device=device).for_few() for device in ("cuda", "cpu")]
    assert [each.resident for each in found] == [30 << 30, 512 << 20]


class _Package:
    """Takes every document of a block for a candidate, and gives up the queries of odd numbers."""

    corpus, queries = 16, 8
    computing = contextlib.nullcontext

    def rough_search(self, device: Any, queries: int, vectors: int, dimension: int, k: int) -> Any:
        return self if (queries, vectors, dimension, k) == (20, 100, 4, 7) else None

    def tiles(self, start: int, block: Any) -> Any:
        return start, block

    def part(self, queries: Any, k: int) -> "_Candidates":
        assert len(queries) <= self.queries
        return _Candidates(queries)


class _Candidates:
    def __init__(self, queries: torch.Tensor) -> None:
        self.queries, self.given_up = queries, torch.arange(len(queries)) % 2 == 1

    def candidates(self, tiles: Any, bar: torch.Tensor | None) -> Any:
        start, block = tiles
        assert len(block) <= _Package.corpus and (bar is None) == (start == 0)
        query, row = torch.ones(len(self.queries), len(block)).nonzero(as_tuple=True)
        scores = (self.queries[query] * block[row]).sum(1)
        return query, row + start, torch.where(self.given_up[query], scores + 1, scores)


def test_a_package_names_candidates_and_what_it_gives_up_is_searched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = np.random.default_rng(0)
    vectors, queries = (draws.integers(-3, 4, (size, 4)).astype(np.float32) for size in (100, 20))
    monkeypatch.setattr(exact, "faster", lambda name: _Package())
    for k in (7, 8):
        assert _same(search_exact(vectors, queries, k, ExactOptions(device="cpu")), _naive(vectors, queries, k))
