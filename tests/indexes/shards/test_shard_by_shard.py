"""Shards that are searched one by one: their lists are merged to those of the whole, also after a stop."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indexes.shards.parts import COUNT, documents, parts_of
from shard_folders import in_shards

from hardneg.indexes import shard_search
from hardneg.indexes.kernels.checks import merged_lists
from hardneg.indexes.kernels.exact.exact import ExactOptions
from hardneg.indexes.open_store import open_store
from hardneg.indexes.shard_search import KeptLists, ShardedSearcher
from hardneg.records.types import Hits
from hardneg.testing.forms import FORMS, drawn_queries, write_encoded


@pytest.mark.parametrize("form", FORMS)
@given(cuts=st.lists(st.integers(0, COUNT), min_size=1, max_size=7).map(sorted), k=st.sampled_from([1, 20, 400]))
@settings(max_examples=4, deadline=None)
def test_lists_of_shards_are_merged_to_those_of_the_whole(whole, tmp_path_factory, form, cuts, k):
    folder = tmp_path_factory.mktemp("cut")
    queries = drawn_queries(form, documents(form), exact=False)
    expected = open_store(whole[form], ExactOptions(device="cpu", corpus_block=64)).search(queries, k)
    searcher = parts_of(in_shards(whole[form], folder / "shards", cuts), folder / "kept")
    assert isinstance(searcher, ShardedSearcher)
    for _ in range(2):  # made, then read
        found = searcher.search(queries, k)
        assert found.rows.tobytes() == expected.rows.tobytes()
        assert found.scores.tobytes() == expected.scores.tobytes()
    assert len(list((folder / "kept").iterdir())) == 1


def test_two_lists_are_merged_by_score_then_row():
    one = Hits(np.array([[7, 2, -1]]), np.array([[3.0, 1.0, -np.inf]], np.float32))
    other = Hits(np.array([[1, 0, 9]]), np.array([[3.0, 2.0, 1.0]], np.float32))
    found = merged_lists(one, other)
    assert found.rows.tolist() == [[1, 7, 0]] and found.scores.tolist() == [[3, 3, 2]]
    pads = Hits(np.array([[-1, -1]]), np.full((1, 2), -np.inf, np.float32))
    assert merged_lists(Hits(one.rows[:, 1:], one.scores[:, 1:]), pads).rows.tolist() == [[2, -1]]


@pytest.mark.usefixtures("small_cells")
@pytest.mark.parametrize("form", FORMS)
def test_a_search_that_was_stopped_goes_on_with_the_next_shard(whole, tmp_path, monkeypatch, form):
    queries = drawn_queries(form, documents(form), exact=False)
    searcher = parts_of(in_shards(whole[form], tmp_path / "shards", [64, 130]), tmp_path / "kept")
    keep, written = KeptLists.keep, list[str]()

    def stops(kept, name, hits):
        written.append(name)
        if len(written) == 2:
            raise KeyboardInterrupt
        keep(kept, name, hits)

    monkeypatch.setattr(KeptLists, "keep", stops)
    with pytest.raises(KeyboardInterrupt):
        searcher.search(queries, 9)
    found = searcher.search(queries, 9)
    parts = [tuple(map(int, name.split("-")[1:])) for name in written]
    first, second, again, third, all_ = parts
    assert first[0] == 0 and first[1] == second[0] < second[1] and again == second and third == (again[1], COUNT)
    assert all_ == ()
    expected = open_store(whole[form], ExactOptions(device="cpu", corpus_block=64)).search(queries, 9)
    assert found.rows.tobytes() == expected.rows.tobytes() and found.scores.tobytes() == expected.scores.tobytes()


@pytest.mark.parametrize("engine", ["torch", "faiss", "bf16"])
def test_each_engine_finds_the_same_in_shards(tmp_path, engine):
    vectors, queries = (np.random.default_rng(n).standard_normal((n, 32), np.float32) for n in (9000, 300))
    vectors[4000:4100] = vectors[:100]
    options = ExactOptions(device="cpu", engine=engine, corpus_block=1024)
    expected = open_store(write_encoded(tmp_path / "whole", vectors), options).search(queries, 50)
    shards = in_shards(tmp_path / "whole", tmp_path / "shards", [1700, 1800, 4099, 7000])
    found = parts_of(shards, tmp_path / "kept", options).search(queries, 50)
    assert found.rows.tobytes() == expected.rows.tobytes() and found.scores.tobytes() == expected.scores.tobytes()


def test_a_search_that_goes_on_with_another_engine_finds_all(tmp_path, monkeypatch):
    monkeypatch.setattr(shard_search, "_CELL", 512)
    vectors, queries = (np.random.default_rng(n).standard_normal((n, 32), np.float32) for n in (3000, 40))
    whole = write_encoded(tmp_path / "whole", vectors)
    shards, kept = in_shards(whole, tmp_path / "shards", [1000, 2000]), tmp_path / "kept"
    torch, faiss = (ExactOptions(device="cpu", engine=engine) for engine in ("torch", "faiss"))
    keep = KeptLists.keep
    with monkeypatch.context() as patched, pytest.raises(ZeroDivisionError):
        patched.setattr(KeptLists, "keep", lambda *given: (keep(*given), 1 // 0))
        parts_of(shards, kept, torch).search(queries, 50)
    found, expected = parts_of(shards, kept, faiss).search(queries, 50), open_store(whole, torch).search(queries, 50)
    assert found.rows.tolist() == expected.rows.tolist()
