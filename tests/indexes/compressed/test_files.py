"""Compressed indexes on disk: what faiss itself would have written."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from indexes.compressed.kinds import COUNT, DIMENSION, KINDS, drawn_vectors, flat_index, kind_name
from shard_folders import in_shards

from hardneg.formats.vectors import FlatVectors
from hardneg.indexes.backends.compressed import Fp16, Hnsw, Sq8
from hardneg.indexes.backends.product import Binary, OpqPq, Pq
from hardneg.indexes.kernels.faiss import compression
from hardneg.indexes.kernels.faiss.compression import Training, sample_rows
from hardneg.runtime import Silent
from hardneg.store import tree_digest

faiss = pytest.importorskip("faiss")


@pytest.mark.parametrize("plugin", KINDS, ids=kind_name)
def test_the_file_is_that_of_faiss(plugin: Any, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "_BLOCK_BYTES", 100 * 4 * DIMENSION)  # three blocks
    assert plugin.build(source, tmp_path / "made", Silent()) == COUNT
    index = faiss.read_index(str(tmp_path / "made" / "index"))
    assert (index.ntotal, index.d, index.metric_type) == (COUNT, DIMENSION, faiss.METRIC_INNER_PRODUCT)
    faiss.write_index(index, str(tmp_path / "again"))
    assert (tmp_path / "again").read_bytes() == (tmp_path / "made" / "index").read_bytes()
    if not isinstance(plugin, Hnsw):  # a graph depends on how many vectors come at a time
        index.reset()
        index.add(drawn_vectors())
        faiss.write_index(index, str(tmp_path / "whole"))
        assert (tmp_path / "whole").read_bytes() == (tmp_path / "made" / "index").read_bytes()
    assert (tmp_path / "made" / "docid").read_text().split() == [f"d{i}" for i in range(COUNT)]
    assert {path.name for path in (tmp_path / "made").iterdir()} == {"index", "docid"}


@pytest.mark.parametrize("plugin", KINDS, ids=kind_name)
def test_the_same_seed_gives_the_same_bytes_on_any_number_of_threads(plugin: Any, source: Path, tmp_path: Path) -> None:
    threads = faiss.omp_get_max_threads()
    try:
        for i, count in enumerate((1, 2)):
            faiss.omp_set_num_threads(count)
            plugin.build(source, tmp_path / str(i), Silent())
            assert faiss.omp_get_max_threads() == count
    finally:
        faiss.omp_set_num_threads(threads)
    assert tree_digest(tmp_path / "0") == tree_digest(tmp_path / "1")


@pytest.mark.parametrize("plugin", KINDS, ids=kind_name)
def test_vectors_in_shards_give_the_same_bytes(plugin: Any, source: Path, tmp_path: Path) -> None:
    plugin.build(source, tmp_path / "one", Silent())
    plugin.build(in_shards(source, tmp_path / "shards", [100, 170]), tmp_path / "three", Silent())
    assert tree_digest(tmp_path / "one") == tree_digest(tmp_path / "three")


def test_another_seed_gives_other_centroids(source: Path, tmp_path: Path) -> None:
    made = [Pq(4, 4, sample=100, seed=seed) for seed in (1, 2)]
    for plugin in made:
        plugin.build(source, tmp_path / str(plugin.seed), Silent())
    assert tree_digest(tmp_path / "1") != tree_digest(tmp_path / "2")


def test_bytes_a_vector(source: Path, tmp_path: Path) -> None:
    sizes = {}
    for plugin, width in (
        (Pq(4), 4),
        (Pq(4, 4), 2),
        (OpqPq(4), 4),
        (Binary(), DIMENSION // 8),
        (Sq8(), DIMENSION),
        (Fp16(), 2 * DIMENSION),
    ):
        plugin.build(source, tmp_path / kind_name(plugin), Silent())
        index = compression.innermost(faiss.read_index(str(tmp_path / kind_name(plugin) / "index")))
        assert index.code_size == width
        sizes[kind_name(plugin)] = (tmp_path / kind_name(plugin) / "index").stat().st_size - COUNT * width
    assert sizes["Fp16-"] < 200
    assert sizes["Pq-8"] - 4 * 256 * DIMENSION < 200
    assert sizes["OpqPq-8"] - 4 * 256 * DIMENSION - 4 * DIMENSION * DIMENSION < 300


def test_one_row_is_drawn_from_each_stretch() -> None:
    rows = sample_rows(1_000_003, 10, seed=1)
    assert (rows // 100_000.3).astype(int).tolist() == list(range(10))
    assert not np.array_equal(rows, sample_rows(1_000_003, 10, seed=2))
    assert sample_rows(5, 10, seed=1).tolist() == [0, 1, 2, 3, 4]
    assert len(sample_rows(0, 10, seed=1)) == 0


def test_building_holds_no_more_than_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, read = flat_index(tmp_path / "flat", drawn_vectors(400)), []
    monkeypatch.setattr(compression, "_BLOCK_BYTES", 50 * 4 * DIMENSION)
    plain = FlatVectors.read
    monkeypatch.setattr(FlatVectors, "read", lambda self, a, b, space: read.append(b - a) or plain(self, a, b, space))
    Pq(4, 4, sample=32).build(source, tmp_path / "made", Silent())
    assert read == [1] * 32 + [50] * 8
    assert not [name for name in os.listdir(tmp_path / "made") if name.startswith(".")]


def test_a_seed_of_any_size_is_one_of_faiss() -> None:
    clustering = SimpleNamespace()
    Training("ivf", sample=40, least=4, seed=2**31 + 5, what="lists").settle(SimpleNamespace(cp=clustering))
    assert vars(clustering) == {"seed": 5, "min_points_per_centroid": 1, "max_points_per_centroid": 40}
