"""Tests of the backend `cagra`: its graph on a CPU, its calls of cuVS, and the contract of indexes."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hardneg_cagra import graph
from hardneg_cagra.backend import Cagra, CagraSearcher
from hardneg_cagra.graph import GpuGraph, as_faiss, links_of

from hardneg.formats.vectors import FlatVectors
from hardneg.indexes.compressed import Fp16
from hardneg.indexes.exact import ExactOptions, Flat
from hardneg.indexes.open_store import DenseIndex
from hardneg.records import ArtifactError, MissingDependency, UsageError
from hardneg.runtime import Silent
from hardneg.testing import IndexTests
from hardneg.testing.indexes import write_encoded

faiss = pytest.importorskip("faiss")

_N, _D = 900, 16
_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="cagra is built on a GPU, and there is none")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return _written(tmp_path / "flat", _N)


def _written(folder: Path, count: int) -> Path:
    vectors = np.random.default_rng(7).standard_normal((count, _D)).astype(np.float32)
    return write_encoded(folder, vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def _queries() -> np.ndarray:
    return np.random.default_rng(8).standard_normal((40, _D)).astype(np.float32)


def _links(count: int, degree: int) -> np.ndarray:
    return np.random.default_rng(3).integers(0, count, (count, degree)).astype(np.uint32)


@pytest.mark.parametrize("degree", [8, 10, 24])
def test_the_graph_is_the_lowest_level(degree, source, tmp_path):
    graph, vectors = _links(_N, degree), FlatVectors.open(source)
    index = as_faiss(graph, vectors, 30, 1, Silent())
    assert np.array_equal(links_of(index), graph)
    faiss.write_index(index, str(tmp_path / "a"))
    again = faiss.read_index(str(tmp_path / "a"))
    assert type(again) is faiss.IndexHNSWFlat and again.hnsw.efSearch == 30
    assert np.array_equal(links_of(again), graph)
    faiss.write_index(as_faiss(graph, vectors, 30, 1, Silent()), str(tmp_path / "b"))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_upper_levels_hold_one_vector_of_so_many_and_lead_to_their_own(source):
    index = as_faiss(_links(_N, 20), FlatVectors.open(source), 30, 1, Silent())
    heights = faiss.vector_to_array(index.hnsw.levels)
    starts, links = faiss.vector_to_array(index.hnsw.offsets), faiss.vector_to_array(index.hnsw.neighbors)
    upper = np.flatnonzero(heights > 1)
    assert len(upper) == _N // 10 and heights[index.hnsw.entry_point] == heights.max() == index.hnsw.max_level + 1
    found = 0
    for row in upper:
        for level in range(1, heights[row]):
            there = links[starts[row] + 20 + 10 * (level - 1) :][:10]
            assert (heights[there[there >= 0]] > level).all()
            found += int((there >= 0).sum())
    assert found > 2 * len(upper)


def test_it_is_built_searched_and_opened_anywhere(cuvs, source, tmp_path):
    plugin = Cagra(degree=16, intermediate=40, algorithm="nn_descent", width=100)
    assert plugin.build(source, tmp_path / "made", Silent()) == _N
    asked = {"metric": "inner_product", "graph_degree": 16, "intermediate_graph_degree": 40, "build_algo": "nn_descent"}
    assert cuvs.asked == [("build", asked)]
    exact = Flat().open(source).using(ExactOptions(device="cpu"), None).search(_queries(), 10)
    for searcher in (plugin.open(tmp_path / "made"), DenseIndex.open(tmp_path / "made").searcher):
        hits = searcher.search(_queries(), 10)
        assert (hits.rows[:, :, None] == exact.rows[:, None]).any(2).mean() > 0.95
    there = replace(plugin.open(tmp_path / "made"))
    there = replace(there, copy=GpuGraph(there.index, "cpu", 100))
    hits = there.search(_queries(), 10)
    assert np.array_equal(hits.rows, exact.rows)
    np.testing.assert_allclose(hits.scores, exact.scores, atol=1e-5)
    assert cuvs.asked[1:] == [("search", {"itopk_size": 128})]


def test_lists_that_a_gpu_cannot_hold_come_from_the_cpu(cuvs, source, tmp_path):
    plugin = Cagra(degree=16, intermediate=40)
    plugin.build(source, tmp_path / "made", Silent())
    searcher = plugin.open(tmp_path / "made")
    searcher = replace(searcher, copy=GpuGraph(searcher.index, "cpu", 32))
    cuvs.asked.clear()
    assert (searcher.search(_queries(), 600).rows >= 0).mean() > 0.99 and cuvs.asked == []
    searcher.search(_queries(), 511)
    assert cuvs.asked == [("search", {"itopk_size": 512})]


def test_without_a_gpu_it_is_told_what_to_take(source, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UsageError, match=r"cagra needs a GPU, but torch finds none; use hnsw or ivf"):
        Cagra().build(source, tmp_path / "made", Silent())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setitem(sys.modules, "cuvs", None)
    with pytest.raises(MissingDependency, match=r'pip install "hardneg-cagra\[cuda12\]"'):
        Cagra().build(source, tmp_path / "made", Silent())
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"degree": 6}, "degree must be even, at least 8"),
        ({"degree": 9}, "degree is 9"),
        ({"degree": 64, "intermediate": 32}, "at most `intermediate`"),
        ({"width": 513}, "width is 513; it must be from 1 to 512"),
    ],
)
def test_options_that_cannot_be(options, told):
    with pytest.raises(UsageError, match=told):
        Cagra(**options)


def test_folders_that_are_none_of_its_own(cuvs, source, tmp_path):
    Fp16().build(source, tmp_path / "made", Silent())
    with pytest.raises(ArtifactError, match="not a graph"):
        Cagra().open(tmp_path / "made")
    with pytest.raises(UsageError, match=r"has 100 vectors, but intermediate is 128; lower it, or use flat"):
        Cagra().build(_written(tmp_path / "few", 100), tmp_path / "no", Silent())


def test_what_it_takes(cuvs, source, tmp_path):
    plugin = Cagra(degree=16, intermediate=40)
    plugin.build(source, tmp_path / "made", Silent())
    told, found = plugin.disk_bytes(_N, _N, _D), (tmp_path / "made" / "index").stat().st_size
    assert told == pytest.approx(found, rel=0.03)


@dataclass(frozen=True)
class CagraThere(Cagra):
    __doc__ = Cagra.__doc__

    def open(self, path: Path, rows: Any = None) -> CagraSearcher:
        opened = super().open(path)
        return replace(opened, copy=GpuGraph(opened.index, graph._BUILT_ON, self.width))


@pytest.mark.usefixtures("cuvs")
class TestCagraThereByHand(IndexTests):
    plugin = CagraThere(degree=32, intermediate=64)
    exact = False
    recall = 0.99


@pytest.mark.usefixtures("cuvs")
class TestCagraByHand(IndexTests):
    plugin = Cagra(degree=32, intermediate=64)
    exact = False
    recall = 0.95


@_GPU
class TestCagraThere(IndexTests):
    plugin = CagraThere(degree=32, intermediate=64, algorithm="nn_descent")
    exact = False
    recall = 0.95
