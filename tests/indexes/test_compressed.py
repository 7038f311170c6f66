"""Compressed indexes: what faiss itself would have written, and what their searchers say of it."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from shard_folders import in_shards

from hardneg.formats.vectors.flat_vectors import FlatVectors, FlatWriter
from hardneg.indexes.backends import binary
from hardneg.indexes.backends.binary import Binary
from hardneg.indexes.backends.compressed import CompressedSearcher, Fp16, Sq8
from hardneg.indexes.backends.flat import Flat
from hardneg.indexes.backends.hnsw import Hnsw
from hardneg.indexes.backends.inverted_lists import IvfFlat, IvfPq
from hardneg.indexes.backends.product import OpqPq, Pq
from hardneg.indexes.dense import DenseIndex
from hardneg.indexes.kernels.faiss import compression
from hardneg.indexes.kernels.faiss.compression import Training, sample_rows
from hardneg.records.errors import ArtifactError, MissingDependency, UsageError
from hardneg.registry.protocols import DenseSearcher, ProductSearcher
from hardneg.runtime.progress import Silent
from hardneg.store.digest import tree_digest

faiss = pytest.importorskip("faiss")

KINDS = [Pq(subvectors=4, bits=4), Pq(subvectors=4, bits=6), OpqPq(subvectors=4, bits=4), Sq8(), Fp16()]
KINDS += [IvfPq(subvectors=4, bits=4, lists=8, nprobe=3), IvfFlat(lists=8, nprobe=3)]
KINDS += [Binary(), Hnsw(m=4, ef_construction=20, ef_search=20)]
_N, _D = 300, 16


def _folder(path: Path, vectors: NDArray[np.float32]) -> Path:
    with FlatWriter(path, vectors.shape[1], len(vectors)) as writer:
        if len(vectors):
            writer.write_block(0, 0, vectors)
        writer.write_doc_ids(f"d{i}" for i in range(len(vectors)))
        writer.close()
    return path


def _vectors(count: int = _N, dimension: int = _D) -> NDArray[np.float32]:
    return np.random.default_rng(7).standard_normal((count, dimension)).astype(np.float32)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _folder(tmp_path_factory.mktemp("flat") / "index", _vectors())


def _name(plugin: Any) -> str:
    return f"{type(plugin).__name__}-{getattr(plugin, 'bits', '')}"


@pytest.mark.parametrize("plugin", KINDS, ids=_name)
def test_the_file_is_that_of_faiss(plugin: Any, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "_BLOCK_BYTES", 100 * 4 * _D)  # three blocks
    assert plugin.build(source, tmp_path / "made", Silent()) == _N
    index = faiss.read_index(str(tmp_path / "made" / "index"))
    assert (index.ntotal, index.d, index.metric_type) == (_N, _D, faiss.METRIC_INNER_PRODUCT)
    faiss.write_index(index, str(tmp_path / "again"))
    assert (tmp_path / "again").read_bytes() == (tmp_path / "made" / "index").read_bytes()
    if not isinstance(plugin, Hnsw):  # a graph depends on how many vectors come at a time
        index.reset()
        index.add(_vectors())
        faiss.write_index(index, str(tmp_path / "whole"))
        assert (tmp_path / "whole").read_bytes() == (tmp_path / "made" / "index").read_bytes()
    assert (tmp_path / "made" / "docid").read_text().split() == [f"d{i}" for i in range(_N)]
    assert {path.name for path in (tmp_path / "made").iterdir()} == {"index", "docid"}


@pytest.mark.parametrize("plugin", KINDS, ids=_name)
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


@pytest.mark.parametrize("plugin", KINDS, ids=_name)
def test_vectors_in_shards_give_the_same_bytes(plugin: Any, source: Path, tmp_path: Path) -> None:
    plugin.build(source, tmp_path / "one", Silent())
    plugin.build(in_shards(source, tmp_path / "shards", [100, 170]), tmp_path / "three", Silent())
    assert tree_digest(tmp_path / "one") == tree_digest(tmp_path / "three")


def test_another_seed_gives_other_centroids(source: Path, tmp_path: Path) -> None:
    made = [Pq(4, 4, sample=100, seed=seed) for seed in (1, 2)]
    for plugin in made:
        plugin.build(source, tmp_path / str(plugin.seed), Silent())
    assert tree_digest(tmp_path / "1") != tree_digest(tmp_path / "2")


@pytest.mark.parametrize("plugin", KINDS, ids=_name)
def test_scores_are_products_with_the_vectors_that_it_gives(plugin: Any, source: Path, tmp_path: Path) -> None:
    plugin.build(source, tmp_path / "made", Silent())
    searcher = plugin.open(tmp_path / "made")
    assert isinstance(searcher, DenseSearcher)
    queries = np.random.default_rng(8).standard_normal((300, _D)).astype(np.float32)
    hits = searcher.search(queries, 20)
    found = hits.rows >= 0
    vectors = searcher.vectors(np.maximum(hits.rows, 0).ravel()).reshape(300, 20, _D)
    products = np.einsum("qd,qkd->qk", queries, vectors)
    assert found.mean() > 0.95
    np.testing.assert_allclose(products[found], hits.scores[found], atol=1e-4)


def test_bytes_a_vector(source: Path, tmp_path: Path) -> None:
    sizes = {}
    for plugin, width in ((Pq(4), 4), (Pq(4, 4), 2), (OpqPq(4), 4), (Binary(), _D // 8), (Sq8(), _D), (Fp16(), 2 * _D)):
        plugin.build(source, tmp_path / _name(plugin), Silent())
        index = compression.innermost(faiss.read_index(str(tmp_path / _name(plugin) / "index")))
        assert index.code_size == width
        sizes[_name(plugin)] = (tmp_path / _name(plugin) / "index").stat().st_size - _N * width
    assert sizes["Fp16-"] < 200
    assert sizes["Pq-8"] - 4 * 256 * _D < 200
    assert sizes["OpqPq-8"] - 4 * 256 * _D - 4 * _D * _D < 300


def test_codes_centroids_and_rotation_make_up_the_vectors(source: Path, tmp_path: Path) -> None:
    rows = np.array([5, 0, 299, 5])
    for plugin in KINDS[:3]:
        path = tmp_path / _name(plugin)
        plugin.build(source, path, Silent())
        searcher = plugin.open(path)
        assert isinstance(searcher, ProductSearcher)
        codes, centroids, rotation = searcher.codes(rows), searcher.centroids(), searcher.rotation()
        assert (codes.shape, codes.dtype) == ((4, 4), np.uint8)
        assert centroids.shape == (4, 2**plugin.bits, 4)
        joined = centroids[np.arange(4), codes].reshape(4, _D)
        vectors = joined if rotation is None else joined @ rotation
        np.testing.assert_allclose(vectors, searcher.vectors(rows), atol=1e-5)
        assert (rotation is None) == (plugin.name == "pq")


@pytest.mark.parametrize("plugin", KINDS[:3], ids=_name)
def test_other_centroids_with_the_same_codes(plugin: Any, source: Path, tmp_path: Path) -> None:
    plugin.build(source, tmp_path / "made", Silent())
    searcher = plugin.open(tmp_path / "made")
    searcher.write_with_centroids(tmp_path / "same", searcher.centroids())
    assert tree_digest(tmp_path / "same") == tree_digest(tmp_path / "made")
    searcher.write_with_centroids(tmp_path / "doubled", searcher.centroids() * 2)
    doubled, rows = plugin.open(tmp_path / "doubled"), np.arange(_N)
    np.testing.assert_allclose(doubled.vectors(rows), searcher.vectors(rows) * 2, atol=1e-5)
    assert np.array_equal(doubled.codes(rows), searcher.codes(rows))
    hits = doubled.search(_vectors()[:3], 5)
    np.testing.assert_allclose(hits.scores, 2 * searcher.search(_vectors()[:3], 5).scores, rtol=1e-5)
    for wrong in (searcher.centroids()[:, :1], searcher.centroids() * np.inf):
        with pytest.raises(UsageError, match=r"centroids have shape"):
            searcher.write_with_centroids(tmp_path / "wrong", wrong)


def test_ties_go_to_the_first_rows_however_many(tmp_path: Path) -> None:
    vectors = np.tile(np.array([[1.0, 0], [3, 0], [2, 1]], np.float32), (40, 1))
    Fp16().build(_folder(tmp_path / "flat", vectors), tmp_path / "made", Silent())
    searcher, queries = Fp16().open(tmp_path / "made"), np.array([[1.0, 0], [0, 1]], np.float32)
    for k in (1, 3, 39, 41, 80, 120, 130):
        found, exact = searcher.search(queries, k), Flat().open(tmp_path / "flat").search(queries, k)
        assert np.array_equal(found.rows, exact.rows), k
        assert np.array_equal(found.scores, exact.scores), k


def test_fewer_lists_than_hits_leave_pads(source: Path, tmp_path: Path) -> None:
    plugin = IvfPq(subvectors=4, bits=4, lists=16, nprobe=1)
    plugin.build(source, tmp_path / "made", Silent())
    index = faiss.read_index(str(tmp_path / "made" / "index"))
    assert (index.nlist, index.nprobe) == (16, 1)
    hits = plugin.open(tmp_path / "made").search(_vectors()[:4], _N + 3)
    assert ((hits.rows == -1) == np.isneginf(hits.scores)).all()
    assert (hits.rows[:, -1] == -1).all()
    assert (hits.rows[:, 0] >= 0).all()


def test_a_graph_says_how_far_it_is_searched(source: Path, tmp_path: Path) -> None:
    Hnsw(m=4, ef_construction=30, ef_search=7).build(source, tmp_path / "made", Silent())
    index = faiss.read_index(str(tmp_path / "made" / "index"))
    graph = index.hnsw
    assert (graph.nb_neighbors(0), graph.nb_neighbors(1), graph.efConstruction, graph.efSearch) == (8, 4, 30, 7)


def test_more_lists_and_longer_walks_find_more(tmp_path: Path) -> None:
    source, queries = _folder(tmp_path / "flat", _vectors(2000)), _vectors(40)[::-1] + 1
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
    source = _folder(tmp_path / "flat", _vectors(1000))
    Hnsw(8, 60, 60, threads=2).build(source, tmp_path / "made", Silent())
    rows = Hnsw().open(tmp_path / "made").search(_vectors(30), 10).rows
    best = Flat().open(source).search(_vectors(30), 10).rows
    assert (rows[:, :, None] == best[:, None]).any(2).mean() > 0.97


def test_a_graph_of_nothing(tmp_path: Path) -> None:
    source = _folder(tmp_path / "flat", np.empty((0, 4), np.float32))
    assert Hnsw().build(source, tmp_path / "made", Silent()) == 0
    assert Hnsw().open(tmp_path / "made").search(np.ones((2, 4), np.float32), 3).rows.tolist() == [[-1, -1, -1]] * 2


def test_what_lists_and_graphs_take(source: Path, tmp_path: Path) -> None:
    for plugin in (IvfFlat(8, 4), Hnsw(m=8)):
        plugin.build(source, tmp_path / repr(plugin), Silent())
        told, found = plugin.cost(_N, _N, _D), (tmp_path / repr(plugin) / "index").stat().st_size
        assert told.disk == pytest.approx(found, rel=0.03)
        assert told.memory == told.disk * (1 if isinstance(plugin, Hnsw) else 2)
    lists = IvfFlat(lists=1000, sample=2000).cost(5000, 5000, 10)
    assert lists.operations == 2 * 10 * 1000 * 5000  # each number with that of each centre, multiplied and added
    assert lists.seconds == pytest.approx(10 * 2 * 10 * 1000 * 2000 / 50e9)  # ten rounds over the sample
    one, two = (Hnsw(m=32, ef_construction=200, threads=count).cost(5000, 5000, 10) for count in (1, 2))
    assert one.seconds == 2 * two.seconds == pytest.approx(2 * 10 * 5000 * 200 * 32 / 8e9)


def test_lists_that_stay_empty(tmp_path: Path) -> None:
    vectors = np.repeat(_vectors(2, 4), 20, 0)
    plugin = IvfPq(subvectors=2, bits=2, lists=16, nprobe=16)
    assert plugin.build(_folder(tmp_path / "flat", vectors), tmp_path / "made", Silent()) == 40
    hits = plugin.open(tmp_path / "made").search(vectors[[0, 20]], 40)
    assert hits.rows[0, :20].tolist() == list(range(20))
    assert np.sort(hits.rows, 1).tolist() == [list(range(40))] * 2


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        (Pq(5), r"pq: vectors of dimension 16 cannot be cut into 5 subvectors; these fit: 1, 2, 4, 8, 16$"),
        (OpqPq(48), r"opq-pq: vectors of dimension 16 cannot be cut into 48 subvectors"),
        (Pq(4), r"pq: .* holds 100 vectors, but 256 centroids \(8 bits\) take 256 or more"),
        (IvfPq(4, 4, lists=128, nprobe=2), r"ivfpq: .* holds 100 vectors, but 128 lists take 128 or more"),
    ],
)
def test_vectors_that_do_not_fit(plugin: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        plugin.build(_folder(tmp_path / "flat", _vectors(100)), tmp_path / "made", Silent())


def test_no_vectors(tmp_path: Path) -> None:
    source = _folder(tmp_path / "flat", np.empty((0, 4), np.float32))
    with pytest.raises(UsageError, match=r"holds 0 vectors, but the ranges of its numbers take 1"):
        Sq8().build(source, tmp_path / "sq8", Silent())
    assert Fp16().build(source, tmp_path / "fp16", Silent()) == 0
    hits = Fp16().open(tmp_path / "fp16").search(np.ones((2, 4), np.float32), 3)
    assert hits.rows.tolist() == [[-1, -1, -1]] * 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Pq(0), "subvectors is 0"),
        (lambda: Pq(bits=9), "bits from 1 to 8"),
        (lambda: OpqPq(iterations=0), "iterations is 0"),
        (lambda: OpqPq(sample=200), r"opq-pq: sample is 200: 256 centroids \(8 bits\) take 256"),
        (lambda: IvfPq(lists=4, nprobe=5), "nprobe"),
        (lambda: IvfPq(lists=1000, nprobe=5, sample=999), "1000 lists take 1000"),
        (lambda: Sq8(sample=0), "sample is 0"),
        (lambda: IvfFlat(lists=4, nprobe=5), "ivf-flat: lists is 4 and nprobe is 5"),
        (lambda: IvfFlat(lists=1000, sample=999), "ivf-flat: sample is 999: 1000 lists take 1000"),
        (lambda: Hnsw(m=1, threads=0), "hnsw: m is 1, threads is 0: m must be at least 2, the others at least 1"),
        (lambda: Hnsw(ef_construction=0), "ef_construction is 0"),
        (lambda: Hnsw(ef_search=0), "ef_search is 0"),
    ],
)
def test_options_that_cannot_be(make: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()


def test_queries_and_rows_that_cannot_be(source: Path, tmp_path: Path) -> None:
    Fp16().build(source, tmp_path / "made", Silent())
    searcher = Fp16().open(tmp_path / "made")
    for wrong, message in (
        (["text"], "a compressed index searches with vectors"),
        (np.ones((2, 3), np.float32), r"instead of \[n, 16\]"),
        (np.full((1, _D), np.nan, np.float32), "query 0"),
    ):
        with pytest.raises(UsageError, match=message):
            searcher.search(wrong, 3)
    with pytest.raises(UsageError, match="k is 0"):
        searcher.search(np.ones((1, _D), np.float32), 0)
    for rows in ([-1], [_N]):
        with pytest.raises(UsageError, match="take out the pads"):
            searcher.vectors(np.array(rows))
    assert searcher.vectors(np.empty(0, np.int64)).shape == (0, _D)


def test_damaged_files(source: Path, tmp_path: Path) -> None:
    plugin, path = Pq(4, 4), tmp_path / "made"
    plugin.build(source, path, Silent())
    whole = (path / "index").read_bytes()
    for content in (b"", b"nonsense", whole[:30], whole[: len(whole) // 2], whole[:-5]):
        (path / "index").unlink()
        (path / "index").write_bytes(content)
        with pytest.raises(ArtifactError, match="not a faiss index that can be read"):
            plugin.open(path)
    (path / "index").write_bytes(whole)
    (path / "docid").unlink()
    with pytest.raises(ArtifactError, match="docid: missing"):
        plugin.open(path)
    faiss.write_index(faiss.IndexFlatL2(4), str(path / "index"))
    with pytest.raises(ArtifactError, match="no inner products"):
        CompressedSearcher.open(path)
    with pytest.raises(ArtifactError, match="not a product-quantised index"):
        Pq().open(source)


def test_a_vector_that_is_not_finite(tmp_path: Path) -> None:
    source = _folder(tmp_path / "flat", _vectors(40))
    with (source / "index").open("r+b") as file:
        file.seek(45 + 4 * _D * 33)
        file.write(np.float32("nan").tobytes())
    for plugin in (Sq8(), Fp16()):
        with pytest.raises(ArtifactError, match="row 33 is not finite"):
            plugin.build(source, tmp_path / "made", Silent())
    assert not (tmp_path / "made" / "index").exists()


def test_without_faiss(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    for plugin in KINDS:
        with pytest.raises(MissingDependency, match=r'pip install "hardneg\[cpu\]"'):
            plugin.build(source, tmp_path / "made", Silent())
        with pytest.raises(MissingDependency):
            plugin.open(tmp_path / "made")


def test_one_row_is_drawn_from_each_stretch() -> None:
    rows = sample_rows(1_000_003, 10, seed=1)
    assert (rows // 100_000.3).astype(int).tolist() == list(range(10))
    assert not np.array_equal(rows, sample_rows(1_000_003, 10, seed=2))
    assert sample_rows(5, 10, seed=1).tolist() == [0, 1, 2, 3, 4]
    assert len(sample_rows(0, 10, seed=1)) == 0


def test_building_holds_no_more_than_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, read = _folder(tmp_path / "flat", _vectors(400)), []
    monkeypatch.setattr(compression, "_BLOCK_BYTES", 50 * 4 * _D)
    plain = FlatVectors.read
    monkeypatch.setattr(FlatVectors, "read", lambda self, a, b, space: read.append(b - a) or plain(self, a, b, space))
    Pq(4, 4, sample=32).build(source, tmp_path / "made", Silent())
    assert read == [1] * 32 + [50] * 8
    assert not [name for name in os.listdir(tmp_path / "made") if name.startswith(".")]


def test_a_seed_of_any_size_is_one_of_faiss() -> None:
    clustering = SimpleNamespace()
    Training("ivf", sample=40, least=4, seed=2**31 + 5, what="lists").settle(clustering)
    assert vars(clustering) == {"seed": 5, "min_points_per_centroid": 1, "max_points_per_centroid": 40}


SIGNS = np.array([[3, -1, 2, -1, 1, 1, -1, 1], [1, 1, 1, 1, 1, 1, 1, 1], [-1, 2, -3, 1, -1, -1, 1, 0]], np.float32)


def test_a_score_of_bits_is_the_query_times_the_signs(tmp_path: Path) -> None:
    Binary().build(_folder(tmp_path / "flat", SIGNS), tmp_path / "bits", Silent())
    searcher = Binary().open(tmp_path / "bits")
    query = np.array([[1, 0.5, 0, 0, 0, 0, 0, -2]], np.float32)
    hits = searcher.search(query, 3)  # products with signs, by hand: 1 - .5 - 2, 1 + .5 - 2 and -1 + .5 + 2; 0 is below
    assert hits.rows.tolist() == [[2, 1, 0]]
    np.testing.assert_allclose(hits.scores, np.array([[1.5, -0.5, -1.5]]) / np.sqrt(8), rtol=1e-6)
    np.testing.assert_allclose(searcher.vectors(np.array([2])) * np.sqrt(8), [[-1, 1, -1, 1, -1, -1, 1, -1]], rtol=1e-6)


def test_of_bits_the_nearest_are_rescored_and_of_equal_ones_the_first(tmp_path: Path, monkeypatch: Any) -> None:
    vectors = np.repeat(SIGNS, 4, axis=0)
    Binary().build(_folder(tmp_path / "flat", vectors), tmp_path / "bits", Silent())
    monkeypatch.setattr(binary, "LEAST_RESCORED", 0)
    monkeypatch.setattr(binary, "RESCORED", 2)
    searcher = DenseIndex.open(tmp_path / "bits").searcher
    query = np.array([[1, 0.1, 1, 0.1, 0.1, 0.1, 0.1, -9]], np.float32)  # nearest by bits: row 4; by score: row 8
    assert searcher.search(query, 3).rows.tolist() == [[4, 5, 6]]
    assert searcher.search(query, 6).rows.tolist() == [[8, 9, 10, 11, 4, 5]]


def test_vectors_that_fill_no_bytes_have_no_signs(tmp_path: Path) -> None:
    source = _folder(tmp_path / "flat", _vectors(4, 12))
    with pytest.raises(UsageError, match="dimension 12: a multiple of 8 is needed"):
        Binary().build(source, tmp_path / "bits", Silent())
