"""Products in bf16 find what float32 finds: each list is compared with one made from all pairs, scored one by one."""

from typing import Any

import numpy as np
import pytest
import torch
from hardneg_fast_cpu import search
from hardneg_fast_cpu.search import (
    RoughSearch,
    Rounded,
    Tile,
    error_bounds,
    gathered_products,
    pair_products,
    reaching,
    rough_search,
    rounded_down,
)
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from hardneg.indexes import exact
from hardneg.indexes.exact import ExactOptions, search_exact
from hardneg.indexes.open_store import open_store
from hardneg.records import Hits
from hardneg.testing.indexes import write_encoded

pytestmark = pytest.mark.usefixtures("small_searches")

Vectors = NDArray[np.float32]


def _each_pair(vectors: Vectors, queries: Vectors, k: int) -> Hits:
    """Return the lists by the scores of all pairs, each computed as a separate product."""
    count = len(vectors)
    query, row = torch.arange(len(queries)).repeat_interleave(count), torch.arange(count).repeat(len(queries))
    counts = torch.full((len(queries),), count)
    each = pair_products(torch.from_numpy(queries), torch.from_numpy(vectors), counts, query, row)
    scores = each.view(-1, count).numpy()
    order = np.argsort(-scores, 1, kind="stable")[:, :k]
    return Hits(order, np.take_along_axis(scores, order, 1))


def _search(vectors: Vectors, queries: Vectors, k: int, *blocks: int | None) -> Hits:
    return search_exact(vectors, queries, k, ExactOptions(*(blocks or (None, None)), "cpu"))


def _float32_searches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which each later float32 search adds its number of queries."""
    asked: list[int] = []
    searched = exact.search_blocks

    def told(vectors: Any, queries: Vectors, k: int, blocks: Any, task: Any) -> Hits:
        asked.extend([len(queries)] if blocks.rough is None else [])
        return searched(vectors, queries, k, blocks, task)

    monkeypatch.setattr(exact, "search_blocks", told)
    return asked


def _spread(draws: np.random.Generator, count: int, dimension: int) -> Vectors:
    return draws.standard_normal((count, dimension), np.float32)


def _clustered(draws: np.random.Generator, count: int, dimension: int) -> Vectors:
    centres = _spread(draws, 12, dimension)
    return centres[draws.integers(0, 12, count)] + _spread(draws, count, dimension) * np.float32(0.05)


def _close(draws: np.random.Generator, count: int, dimension: int) -> Vectors:
    """Return whole numbers that bf16 cannot tell apart."""
    return draws.integers(1000, 1010, (count, dimension)).astype(np.float32)


def _repeated(draws: np.random.Generator, count: int, dimension: int) -> Vectors:
    return _spread(draws, 40, dimension)[draws.integers(0, 40, count)]


def _uneven(draws: np.random.Generator, count: int, dimension: int) -> Vectors:
    """Norms from 1e-30 to 1e6, and zeros."""
    lengths = np.float32(10.0) ** draws.integers(-30, 7, (count, 1)).astype(np.float32)
    return _spread(draws, count, dimension) * np.where(draws.random((count, 1)) < 0.2, np.float32(0), lengths)


@settings(deadline=None, max_examples=25)
@given(
    st.integers(0, 2**32 - 1), st.sampled_from([_spread, _clustered, _close, _repeated, _uneven]),
    st.integers(900, 1500), st.sampled_from([1, 3, 17]), st.sampled_from([1, 2, 9]), st.sampled_from([1, 4, 20]),
    st.sampled_from([None, 100, 1000]), st.sampled_from([None, 4]),
)  # fmt: skip
def test_lists_are_those_of_all_pairs(seed, kind, documents, dimension, asked, k, corpus, part):
    """Queries searched in float32 by whole blocks are excepted, since their scores differ in the last bits."""
    draws = np.random.default_rng(seed)
    vectors, queries = kind(draws, documents, dimension), _spread(draws, asked, dimension)
    if kind is _close:
        queries = draws.integers(-3, 4, (asked, dimension)).astype(np.float32)
    hits, expected = _search(vectors, queries, k, corpus, part), _each_pair(vectors, queries, k)
    scale = np.abs(expected.scores).max() or 1
    assert np.allclose(hits.scores / scale, expected.scores / scale, rtol=1e-5, atol=1e-6)
    if kind in {_close, _repeated}:
        assert np.array_equal(hits.rows, expected.rows)
    else:
        assert (hits.rows == expected.rows).mean() > 0.98


@pytest.mark.parametrize("blocks", [(None, None), (700, 7), (99, 64)])
def test_the_same_to_the_bit_and_nothing_goes_through_float32(blocks, monkeypatch):
    asked, draws = _float32_searches(monkeypatch), np.random.default_rng(1)
    vectors, queries = _spread(draws, 3000, 48), _spread(draws, 20, 48)
    vectors[2500:2600] = vectors[:100]  # equal scores, some of them at the last place
    for k in (1, 30):
        hits, expected = _search(vectors, queries, k, *blocks), _each_pair(vectors, queries, k)
        assert np.array_equal(hits.rows, expected.rows) and np.array_equal(hits.scores, expected.scores)
    assert asked == []


@pytest.mark.parametrize("factor", [0.0, 1.3])
def test_a_unit_that_breaks_the_bound_is_noticed(factor, monkeypatch):
    asked, draws = _float32_searches(monkeypatch), np.random.default_rng(4)
    vectors, queries = _spread(draws, 3000, 16), _spread(draws, 8, 16)
    multiplied = Tile.scores
    monkeypatch.setattr(Tile, "scores", lambda tile, queries, space: multiplied(tile, queries, space).mul_(factor))
    assert np.array_equal(_search(vectors, queries, 20).rows, _each_pair(vectors, queries, 20).rows)
    assert asked == [8]


def test_what_bf16_cannot_tell_apart_is_given_up_for_those_queries_alone(monkeypatch):
    asked, draws = _float32_searches(monkeypatch), np.random.default_rng(5)
    vectors = np.zeros((4000, 12), np.float32)
    vectors[:, :8], vectors[:, 8:] = _spread(draws, 4000, 8), 1 + draws.integers(0, 3, (4000, 4)) / 1024
    queries = np.zeros((6, 12), np.float32)
    queries[:4, :8], queries[4:, 8:] = _spread(draws, 4, 8), 1.0
    hits, expected = _search(vectors, queries, 10), _each_pair(vectors, queries, 10)
    assert np.array_equal(hits.rows[4:], expected.rows[4:]) and asked == [2]


def test_few_vectors_go_through_float32(monkeypatch):
    asked = _float32_searches(monkeypatch)
    vectors = np.arange(6, dtype=np.float32)[:, None]
    assert _search(vectors, np.ones((1, 1), np.float32), 9).rows.tolist() == [[5, 4, 3, 2, 1, 0, -1, -1, -1]]
    assert asked == [1]


def test_pairs_by_hand(monkeypatch):
    queries, documents = torch.tensor([[1.0, 2], [3, 4], [0, 1]]), torch.tensor([[1.0, 0], [0, 10]])
    query, row, counts = torch.tensor([0, 0, 2]), torch.tensor([1, 0, 1]), torch.tensor([2, 0, 1])
    monkeypatch.setattr("hardneg_fast_cpu.search._PAIRS", 2)
    assert pair_products(queries, documents, counts, query, row).tolist() == [20, 1, 10]
    assert gathered_products(queries, documents, query, row).tolist() == [20, 1, 10]
    assert gathered_products(queries, documents, query[:0], row[:0]).tolist() == []


def test_every_pair_is_multiplied_among_as_many(monkeypatch):
    """A GPU chooses the order of summation by the number of pairs, so equal vectors could get unequal scores."""
    lines: list[int] = []
    whole = torch.Tensor.sum
    monkeypatch.setattr(torch.Tensor, "sum", lambda of, axis: lines.append(len(of)) or whole(of, axis))
    monkeypatch.setattr("hardneg_fast_cpu.search._PAIRS", 4)
    queries, documents = torch.tensor([[1.0, 2], [3, 4]]), torch.tensor([[1.0, 0], [0, 10]])
    query, row = torch.tensor([0, 0, 0, 1, 1, 1]), torch.tensor([1, 0, 1, 0, 1, 0])
    assert gathered_products(queries, documents, query, row).tolist() == [20, 1, 20, 3, 40, 3]
    assert lines == [4, 4]


def test_the_bound_by_hand():
    """bf16 has eight bits: 1 + 2**-9 becomes 1, and 3 stays; [3, 4] has norm 5."""
    query = Rounded.of(torch.tensor([[1 + 2**-9, 0.0]]))
    documents = Rounded.of(torch.tensor([[3.0, 4.0], [1 + 2**-9, 0.0]]))
    assert (query.lost.tolist(), documents.norms.tolist()[0], documents.lost.tolist()) == ([2**-9], 5.0, [0.0, 2**-9])
    by_hand = 2**-9 * 5 + (1 + 2**-8) * 2**-9 + 2 * 2**-21 * (1 + 2**-9) * 5
    bound = float(error_bounds(query, documents))
    assert by_hand < bound < by_hand * 1.002


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 7, 64]), st.sampled_from([1e-18, 1.0, 1e12]))
@settings(deadline=None, max_examples=10)
def test_products_stay_within_the_bound(seed, dimension, scale):
    draws = np.random.default_rng(seed)
    some, others = (torch.from_numpy(_spread(draws, 64, dimension) * np.float32(scale)) for _ in range(2))
    one, other = Rounded.of(some), Rounded.of(others)
    rough = (one.values @ other.values.T).double()
    apart = (rough - some.double() @ others.double().T).abs() - rough.abs() * 2**-8
    assert (apart <= error_bounds(one, other)[:, None]).all()


def test_a_result_at_the_score_reaches_what_it_is_rounded_down_to():
    scores = torch.tensor([1.0, 1 + 2**-8, 1.999, -1.0, -1 - 2**-8, 0.0, 3e38, -torch.inf])
    low = rounded_down(scores).float()
    assert (low <= scores).all() and (low >= scores - scores.abs() * 2**-6).all()
    cut = (scores.view(torch.int32) & -65536).view(torch.float32)  # towards zero, as some units round
    assert (cut >= low).all()


def test_groups_of_neighbours_and_what_reaches_the_bar():
    """33 vectors make three groups, the last of one; rows 16 and 32 reach the first query's bar, row 3 the second's."""
    vectors = torch.zeros(33, 2)
    vectors[[3, 16, 32]] = torch.tensor([[0.0, 2.0], [5.0, 0.0], [4.0, 0.0]])
    assert Tile.of(0, vectors).columns[:, 0].nonzero().view(-1).tolist() == [1, 2]
    tile, queries = Tile.of(0, vectors), Rounded.of(torch.eye(2))
    for bar, kept in (([4.0, 2.0], [(0, 16, 5.0), (0, 32, 4.0), (1, 3, 2.0)]), ([5.0, -1.0], None)):
        scores = tile.scores(queries, torch.empty(96, dtype=torch.bfloat16))
        found = list(zip(*(each.tolist() for each in reaching(scores, torch.tensor(bar).bfloat16(), 33)), strict=True))
        assert found == kept or (kept is None and found[0] == (0, 16, 5.0) and len(found) == 34)


CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.mark.parametrize(
    ("device", "queries", "vectors", "k", "taken"),
    [
        (CPU, 10_000, 100_000, 10, True),
        (CPU, 100, 10_000_000, 10, False),
        (CPU, 1000, 2000, 10, False),
        (CPU, 10_000, 100_000, 10_000, False),
        (GPU, 4096, 65_536, 10, True),
        (GPU, 4095, 65_536, 10, False),
        (GPU, 32, 8_841_823, 10, False),
    ],
)
def test_large_searches_take_it_where_there_are_units(device, queries, vectors, k, taken, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(search.runtime, "has_bf16_units", lambda device: True)
    found = rough_search(device, queries, vectors, 384, k)
    assert found == ((RoughSearch(65_536, 1024) if device is CPU else RoughSearch(65_536, 2048)) if taken else None)
    monkeypatch.setattr(search.runtime, "has_bf16_units", lambda device: False)
    assert rough_search(device, queries, vectors, 384, k) is None


def test_a_folder_is_searched_on_several_devices_and_held_as_in_one_pass(tmp_path, monkeypatch):
    asked, draws = _float32_searches(monkeypatch), np.random.default_rng(6)
    vectors, queries = _spread(draws, 3000, 16), _spread(draws, 20, 16)
    vectors[2500:2600] = vectors[:100]
    folder, expected = write_encoded(tmp_path / "index", vectors), _each_pair(vectors, queries, 30)
    cpu = torch.device("cpu")
    for devices, resident in (([cpu], 0), ([cpu, cpu], 0), ([cpu], 1 << 20)):
        monkeypatch.setattr(ExactOptions, "everywhere", devices)
        found = open_store(folder, ExactOptions(512, 7, "cpu", resident)).search(queries, 30)
        assert np.array_equal(found.rows, expected.rows) and np.array_equal(found.scores, expected.scores)
    assert asked == []
