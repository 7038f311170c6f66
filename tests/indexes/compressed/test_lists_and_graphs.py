"""Inverted lists and graphs: how much of them is searched, what that finds, and what they take."""

from pathlib import Path

import numpy as np
import pytest
from indexes.compressed.kinds import COUNT, DIMENSION, drawn_vectors, flat_index

from hardneg.indexes.backends.compressed import Hnsw, IvfFlat, IvfPq
from hardneg.indexes.backends.flat import Flat
from hardneg.runtime import Silent

faiss = pytest.importorskip("faiss")


def test_fewer_lists_than_hits_leave_pads(source: Path, tmp_path: Path) -> None:
    plugin = IvfPq(subvectors=4, bits=4, lists=16, nprobe=1)
    plugin.build(source, tmp_path / "made", Silent())
    index = faiss.read_index(str(tmp_path / "made" / "index"))
    assert (index.nlist, index.nprobe) == (16, 1)
    hits = plugin.open(tmp_path / "made").search(drawn_vectors()[:4], COUNT + 3)
    assert ((hits.rows == -1) == np.isneginf(hits.scores)).all()
    assert (hits.rows[:, -1] == -1).all()
    assert (hits.rows[:, 0] >= 0).all()


def test_a_graph_says_how_far_it_is_searched(source: Path, tmp_path: Path) -> None:
    Hnsw(m=4, ef_construction=30, ef_search=7).build(source, tmp_path / "made", Silent())
    index = faiss.read_index(str(tmp_path / "made" / "index"))
    graph = index.hnsw
    assert (graph.nb_neighbors(0), graph.nb_neighbors(1), graph.efConstruction, graph.efSearch) == (8, 4, 30, 7)


def test_more_lists_and_longer_walks_find_more(tmp_path: Path) -> None:
    source, queries = flat_index(tmp_path / "flat", drawn_vectors(2000)), drawn_vectors(40)[::-1] + 1
    best = Flat().open(source).search(queries, 10).rows
    found: dict[str, list[float]] = {}
    for plugin in (IvfFlat(20, 1), IvfFlat(20, 5), IvfFlat(20, 20), Hnsw(4, 20, 10), Hnsw(16, 100, 200)):
        path = tmp_path / repr(plugin)
        plugin.build(source, path, Silent())
        rows = plugin.open(path).search(queries, 10).rows
        shared = (rows[:, :, None] == best[:, None]).any(2).mean()
        found.setdefault(type(plugin).__name__, []).append(float(shared))
    assert found["IvfFlat"][0] < 0.7 < found["IvfFlat"][1] < found["IvfFlat"][2] == 1
    assert 0.3 < found["Hnsw"][0] < 0.9 < 0.99 < found["Hnsw"][1]


def test_several_threads_link_a_graph_as_good(tmp_path: Path) -> None:
    source = flat_index(tmp_path / "flat", drawn_vectors(1000))
    Hnsw(8, 60, 60, threads=2).build(source, tmp_path / "made", Silent())
    rows = Hnsw().open(tmp_path / "made").search(drawn_vectors(30), 10).rows
    best = Flat().open(source).search(drawn_vectors(30), 10).rows
    assert (rows[:, :, None] == best[:, None]).any(2).mean() > 0.97


def test_a_graph_of_nothing(tmp_path: Path) -> None:
    source = flat_index(tmp_path / "flat", np.empty((0, 4), np.float32))
    assert Hnsw().build(source, tmp_path / "made", Silent()) == 0
    assert Hnsw().open(tmp_path / "made").search(np.ones((2, 4), np.float32), 3).rows.tolist() == [[-1, -1, -1]] * 2


def test_what_lists_and_graphs_take(source: Path, tmp_path: Path) -> None:
    for plugin in (IvfFlat(8, 4), Hnsw(m=8)):
        plugin.build(source, tmp_path / repr(plugin), Silent())
        told, found = plugin.disk_bytes(COUNT, COUNT, DIMENSION), (tmp_path / repr(plugin) / "index").stat().st_size
        assert told == pytest.approx(found, rel=0.03)


def test_lists_that_stay_empty(tmp_path: Path) -> None:
    vectors = np.repeat(drawn_vectors(2, 4), 20, 0)
    plugin = IvfPq(subvectors=2, bits=2, lists=16, nprobe=16)
    assert plugin.build(flat_index(tmp_path / "flat", vectors), tmp_path / "made", Silent()) == 40
    hits = plugin.open(tmp_path / "made").search(vectors[[0, 20]], 40)
    assert hits.rows[0, :20].tolist() == list(range(20))
    assert np.sort(hits.rows, 1).tolist() == [list(range(40))] * 2
