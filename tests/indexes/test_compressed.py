"""Indexes of faiss: their files, what their searchers say, and vectors, options and files that make none."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hardneg.formats.vectors import FlatVectors
from hardneg.indexes import compressed, product
from hardneg.indexes.compressed import CompressedSearcher, Fp16, Hnsw, Sq8
from hardneg.indexes.exact import Flat, FlatSearcher
from hardneg.indexes.open_store import DenseIndex
from hardneg.indexes.product import Binary, IvfFlat, IvfPq, OpqPq, Pq
from hardneg.protocols import DenseSearcher, ProductSearcher
from hardneg.records import ArtifactError, MissingDependency, UsageError
from hardneg.runtime import Silent
from hardneg.store import tree_digest
from hardneg.testing import IndexTests
from hardneg.testing.indexes import write_encoded

faiss = pytest.importorskip("faiss")

KINDS: list[Any] = [Pq(subvectors=4, bits=4), Pq(subvectors=4, bits=6), OpqPq(subvectors=4, bits=4), Sq8(), Fp16()]
KINDS += [IvfPq(subvectors=4, bits=4, lists=8, nprobe=3), IvfFlat(lists=8, nprobe=3)]
KINDS += [Binary(), Pq(subvectors=16, bits=1), Hnsw(m=4, ef_construction=20, ef_search=20)]
COUNT, DIMENSION = 300, 16


def kind_name(plugin: Any) -> str:
    return f"{type(plugin).__name__}-{getattr(plugin, 'bits', '')}"


of_each_kind = pytest.mark.parametrize("plugin", KINDS, ids=kind_name)


def drawn_vectors(count: int = COUNT, dimension: int = DIMENSION) -> NDArray[np.float32]:
    return np.random.default_rng(7).standard_normal((count, dimension)).astype(np.float32)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoded(tmp_path_factory.mktemp("flat") / "index", drawn_vectors())


def built(plugin: Any, source: Path, path: Path) -> Any:
    plugin.build(source, path, Silent())
    return plugin.open(path)


class TestCompressed(IndexTests):
    exact = False

    @pytest.fixture(
        autouse=True,
        ids=lambda param: type(param[0]).__name__,
        params=[
            (Pq(subvectors=8), IndexTests.recall),
            (Sq8(), IndexTests.recall),
            (Fp16(), 0.99),
            (OpqPq(subvectors=8, bits=7), 0.7),
            (IvfPq(subvectors=8, bits=7, lists=8, nprobe=6), 0.7),
            (IvfFlat(lists=8, nprobe=6), 0.95),
            (Hnsw(m=8, ef_construction=40, ef_search=40), 0.98),
        ],
    )
    def _each(self, request: pytest.FixtureRequest) -> None:
        self.plugin, self.recall = request.param  # type: ignore[misc]


@of_each_kind
def test_the_file_is_that_of_faiss(plugin: Any, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compressed, "_BLOCK_BYTES", 100 * 4 * DIMENSION)  # three blocks
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


@of_each_kind
def test_the_same_seed_gives_the_same_bytes_on_any_number_of_threads(plugin: Any, source: Path, tmp_path: Path) -> None:
    threads = faiss.omp_get_max_threads()
    try:
        for count in (1, 2):
            faiss.omp_set_num_threads(count)
            plugin.build(source, tmp_path / str(count), Silent())
            assert faiss.omp_get_max_threads() == count
    finally:
        faiss.omp_set_num_threads(threads)
    assert tree_digest(tmp_path / "1") == tree_digest(tmp_path / "2")


def test_another_seed_gives_other_centroids(source: Path, tmp_path: Path) -> None:
    for seed in (1, 2):
        Pq(4, 4, sample=100, seed=seed).build(source, tmp_path / str(seed), Silent())
    assert tree_digest(tmp_path / "1") != tree_digest(tmp_path / "2")


def test_bytes_a_vector_and_in_all(source: Path, tmp_path: Path) -> None:
    codes: list[tuple[Any, int]] = [(Pq(4), 4), (Pq(4, 4), 2), (OpqPq(4), 4), (Binary(), DIMENSION // 8)]
    for plugin, width in [*codes, (Sq8(), DIMENSION), (Fp16(), 2 * DIMENSION), (IvfFlat(8, 4), None), (Hnsw(8), None)]:
        index = built(plugin, source, tmp_path / repr(plugin)).index
        told, found = plugin.disk_bytes(COUNT, COUNT, DIMENSION), (tmp_path / repr(plugin) / "index").stat().st_size
        assert width in (None, getattr(compressed.innermost(index), "code_size", None))
        assert told == pytest.approx(found, rel=0.03, abs=300)


def test_one_row_is_drawn_from_each_stretch() -> None:
    rows = compressed.sample_rows(1_000_003, 10, seed=1)
    assert (rows // 100_000.3).astype(int).tolist() == list(range(10))
    assert not np.array_equal(rows, compressed.sample_rows(1_000_003, 10, seed=2))
    assert compressed.sample_rows(5, 10, seed=1).tolist() == [0, 1, 2, 3, 4]
    assert len(compressed.sample_rows(0, 10, seed=1)) == 0


def test_building_holds_no_more_than_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, read = write_encoded(tmp_path / "flat", drawn_vectors(400)), []
    monkeypatch.setattr(compressed, "_BLOCK_BYTES", 50 * 4 * DIMENSION)
    plain = FlatVectors.read
    monkeypatch.setattr(FlatVectors, "read", lambda self, a, b, space: read.append(b - a) or plain(self, a, b, space))
    Pq(4, 4, sample=32).build(source, tmp_path / "made", Silent())
    assert read == [1] * 32 + [50] * 8
    assert not [path for path in (tmp_path / "made").iterdir() if path.name.startswith(".")]


def test_a_seed_of_any_size_is_one_of_faiss() -> None:
    clustering = SimpleNamespace()
    compressed.Training("ivf", sample=40, least=4, seed=2**31 + 5, what="lists").settle(SimpleNamespace(cp=clustering))
    assert vars(clustering) == {"seed": 5, "min_points_per_centroid": 1, "max_points_per_centroid": 40}


@of_each_kind
def test_scores_are_products_with_the_vectors_that_it_gives(plugin: Any, source: Path, tmp_path: Path) -> None:
    searcher, opened = built(plugin, source, tmp_path / "made"), DenseIndex.open(tmp_path / "made")
    assert isinstance(searcher, DenseSearcher) and type(opened.searcher) is type(searcher)
    assert (opened.dimension, len(opened.doc_ids), opened.doc_ids[59]) == (DIMENSION, COUNT, "d59")
    queries = np.random.default_rng(8).standard_normal((300, DIMENSION)).astype(np.float32)
    hits = searcher.search(queries, 20)
    found = hits.rows >= 0
    vectors = searcher.vectors(np.maximum(hits.rows, 0).ravel()).reshape(300, 20, DIMENSION)
    products = np.einsum("qd,qkd->qk", queries, vectors)
    assert found.mean() > 0.95
    np.testing.assert_allclose(products[found], hits.scores[found], atol=1e-4)


@pytest.mark.parametrize("plugin", KINDS[:3], ids=kind_name)
def test_codes_centroids_and_rotation_make_up_the_vectors(plugin: Any, source: Path, tmp_path: Path) -> None:
    rows, searcher = np.array([5, 0, 299, 5]), built(plugin, source, tmp_path)
    assert isinstance(searcher, ProductSearcher)
    codes, centroids, rotation = searcher.codes(rows), searcher.centroids(), searcher.rotation()
    assert (codes.shape, codes.dtype) == ((4, 4), np.uint8)
    assert centroids.shape == (4, 2**plugin.bits, 4)
    joined = centroids[np.arange(4), codes].reshape(4, DIMENSION)
    vectors = joined if rotation is None else joined @ rotation
    np.testing.assert_allclose(vectors, searcher.vectors(rows), atol=1e-5)
    assert (rotation is None) == (plugin.name == "pq")


@pytest.mark.parametrize("plugin", KINDS[:3], ids=kind_name)
def test_other_centroids_with_the_same_codes(plugin: Any, source: Path, tmp_path: Path) -> None:
    searcher = built(plugin, source, tmp_path / "made")
    searcher.write_with_centroids(tmp_path / "same", searcher.centroids())
    assert tree_digest(tmp_path / "same") == tree_digest(tmp_path / "made")
    searcher.write_with_centroids(tmp_path / "doubled", searcher.centroids() * 2)
    doubled, rows = plugin.open(tmp_path / "doubled"), np.arange(COUNT)
    np.testing.assert_allclose(doubled.vectors(rows), searcher.vectors(rows) * 2, atol=1e-5)
    assert np.array_equal(doubled.codes(rows), searcher.codes(rows))
    hits = doubled.search(drawn_vectors()[:3], 5)
    np.testing.assert_allclose(hits.scores, 2 * searcher.search(drawn_vectors()[:3], 5).scores, rtol=1e-5)
    for wrong in (searcher.centroids()[:, :1], searcher.centroids() * np.inf):
        with pytest.raises(UsageError, match=r"centroids have shape"):
            searcher.write_with_centroids(tmp_path / "wrong", wrong)


def test_ties_go_to_the_first_rows_however_many(tmp_path: Path) -> None:
    vectors = np.tile(np.array([[1.0, 0], [3, 0], [2, 1]], np.float32), (40, 1))
    searcher = built(Fp16(), write_encoded(tmp_path / "flat", vectors), tmp_path / "made")
    queries = np.array([[1.0, 0], [0, 1]], np.float32)
    for k in (1, 3, 39, 41, 80, 120, 130):
        found, exact = searcher.search(queries, k), Flat().open(tmp_path / "flat").search(queries, k)
        assert np.array_equal(found.rows, exact.rows), k
        assert np.array_equal(found.scores, exact.scores), k


SIGNS = np.array([[3, -1, 2, -1, 1, 1, -1, 1], [1, 1, 1, 1, 1, 1, 1, 1], [-1, 2, -3, 1, -1, -1, 1, 0]], np.float32)


def test_a_score_of_bits_is_the_query_times_the_signs(tmp_path: Path) -> None:
    searcher = built(Binary(), write_encoded(tmp_path / "flat", SIGNS), tmp_path / "bits")
    query = np.array([[1, 0.5, 0, 0, 0, 0, 0, -2]], np.float32)
    hits = searcher.search(query, 3)  # products with signs, by hand: 1 - .5 - 2, 1 + .5 - 2 and -1 + .5 + 2; 0 is below
    assert hits.rows.tolist() == [[2, 1, 0]]
    np.testing.assert_allclose(hits.scores, np.array([[1.5, -0.5, -1.5]]) / np.sqrt(8), rtol=1e-6)
    np.testing.assert_allclose(searcher.vectors(np.array([2])) * np.sqrt(8), [[-1, 1, -1, 1, -1, -1, 1, -1]], rtol=1e-6)


def test_of_bits_the_nearest_are_rescored_and_of_equal_ones_the_first(tmp_path: Path, monkeypatch: Any) -> None:
    Binary().build(write_encoded(tmp_path / "flat", np.repeat(SIGNS, 4, axis=0)), tmp_path / "bits", Silent())
    monkeypatch.setattr(product, "LEAST_RESCORED", 0)
    monkeypatch.setattr(product, "RESCORED", 2)
    searcher = DenseIndex.open(tmp_path / "bits").searcher
    query = np.array([[1, 0.1, 1, 0.1, 0.1, 0.1, 0.1, -9]], np.float32)  # nearest by bits: row 4; by score: row 8
    assert searcher.search(query, 3).rows.tolist() == [[4, 5, 6]]
    assert searcher.search(query, 6).rows.tolist() == [[8, 9, 10, 11, 4, 5]]


def test_fewer_lists_than_hits_leave_pads(source: Path, tmp_path: Path) -> None:
    searcher = built(IvfPq(subvectors=4, bits=4, lists=16, nprobe=1), source, tmp_path)
    assert (searcher.index.nlist, searcher.index.nprobe) == (16, 1)
    hits = searcher.search(drawn_vectors()[:4], COUNT + 3)
    assert ((hits.rows == -1) == np.isneginf(hits.scores)).all()
    assert (hits.rows[:, -1] == -1).all()
    assert (hits.rows[:, 0] >= 0).all()


def test_a_graph_says_how_far_it_is_searched(source: Path, tmp_path: Path) -> None:
    index = built(Hnsw(m=4, ef_construction=30, ef_search=7), source, tmp_path).index
    graph = index.hnsw
    assert (graph.nb_neighbors(0), graph.nb_neighbors(1), graph.efConstruction, graph.efSearch) == (8, 4, 30, 7)


def test_more_lists_and_longer_walks_find_more(tmp_path: Path) -> None:
    source, queries = write_encoded(tmp_path / "flat", drawn_vectors(2000)), drawn_vectors(40)[::-1] + 1
    best = Flat().open(source).search(queries, 10).rows
    found: dict[str, list[float]] = {}
    for plugin in (IvfFlat(20, 1), IvfFlat(20, 5), IvfFlat(20, 20), Hnsw(4, 20, 10), Hnsw(16, 100, 200, threads=2)):
        rows = built(plugin, source, tmp_path / repr(plugin)).search(queries, 10).rows
        shared = (rows[:, :, None] == best[:, None]).any(2).mean()
        found.setdefault(type(plugin).__name__, []).append(float(shared))
    assert found["IvfFlat"][0] < 0.7 < found["IvfFlat"][1] < found["IvfFlat"][2] == 1
    assert 0.3 < found["Hnsw"][0] < 0.9 < 0.99 < found["Hnsw"][1]


def test_lists_that_stay_empty(tmp_path: Path) -> None:
    vectors = np.repeat(drawn_vectors(2, 4), 20, 0)
    plugin = IvfPq(subvectors=2, bits=2, lists=16, nprobe=16)
    hits = built(plugin, write_encoded(tmp_path / "flat", vectors), tmp_path / "made").search(vectors[[0, 20]], 40)
    assert hits.rows[0, :20].tolist() == list(range(20))
    assert np.sort(hits.rows, 1).tolist() == [list(range(40))] * 2


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        (Pq(5), r"pq: dimension 16 cannot be split into 5 subvectors; possible: 1, 2, 4, 8, 16$"),
        (Pq(4), r"pq: .* has 100 vectors, but 256 centroids \(8 bits\) need at least 256"),
        (IvfPq(4, 4, lists=128, nprobe=2), r"ivfpq: .* has 100 vectors, but 128 lists need at least 128"),
    ],
)
def test_vectors_that_do_not_fit(plugin: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        plugin.build(write_encoded(tmp_path / "flat", drawn_vectors(100)), tmp_path / "made", Silent())
    with pytest.raises(UsageError, match="must be a multiple of 8, not 12"):
        Binary().build(write_encoded(tmp_path / "odd", drawn_vectors(4, 12)), tmp_path / "bits", Silent())


def test_no_vectors(tmp_path: Path) -> None:
    source = write_encoded(tmp_path / "flat", np.empty((0, 4), np.float32))
    with pytest.raises(UsageError, match=r"has 0 vectors, but its value ranges need at least 1"):
        Sq8().build(source, tmp_path / "sq8", Silent())
    for plugin in (Fp16(), Hnsw()):
        hits = built(plugin, source, tmp_path / repr(plugin)).search(np.ones((2, 4), np.float32), 3)
        assert hits.rows.tolist() == [[-1, -1, -1]] * 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Pq(0), "subvectors is 0"),
        (lambda: Pq(bits=0), "bits from 1 to 8"),
        (lambda: OpqPq(iterations=0), "iterations is 0"),
        (lambda: OpqPq(sample=200), r"opq-pq: sample is 200, but 256 centroids \(8 bits\) need at least 256"),
        (lambda: IvfPq(lists=1000, nprobe=5, sample=999), "1000 lists need at least 1000"),
        (lambda: Sq8(sample=0), "sample is 0"),
        (lambda: IvfFlat(lists=4, nprobe=5), "ivf-flat: lists is 4 and nprobe is 5"),
        (lambda: IvfFlat(lists=1000, sample=999), "ivf-flat: sample is 999, but 1000 lists need at least 1000"),
        (lambda: Hnsw(m=1, threads=0), "hnsw: m is 1, threads is 0; m must be at least 2, the others at least 1"),
    ],
)
def test_options_that_cannot_be(make: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()


def test_queries_and_rows_that_cannot_be(source: Path, tmp_path: Path) -> None:
    searcher = built(Fp16(), source, tmp_path / "made")
    for wrong, k, message in (
        (["text"], 3, "a compressed index needs vectors"),
        (np.ones((2, 3), np.float32), 3, r"must have shape \[n, 16\], not \[2, 3\]"),
        (np.full((1, DIMENSION), np.nan, np.float32), 3, "query 0"),
        (np.ones((1, DIMENSION), np.float32), 0, "k is 0"),
    ):
        with pytest.raises(UsageError, match=message):
            searcher.search(wrong, k)
    for rows in ([-1], [COUNT]):
        with pytest.raises(UsageError, match="remove any padding"):
            searcher.vectors(np.array(rows))
    assert searcher.vectors(np.empty(0, np.int64)).shape == (0, DIMENSION)


def test_damaged_files(source: Path, tmp_path: Path) -> None:
    plugin, path = Pq(4, 4), tmp_path / "made"
    plugin.build(source, path, Silent())
    whole = (path / "index").read_bytes()
    for content in (b"", b"nonsense", whole[:30], whole[: len(whole) // 2], whole[:-5]):
        (path / "index").unlink()
        (path / "index").write_bytes(content)
        with pytest.raises(ArtifactError, match="cannot be read as a faiss index"):
            plugin.open(path)
    (path / "index").write_bytes(whole)
    (path / "docid").unlink()
    with pytest.raises(ArtifactError, match="docid: missing"):
        plugin.open(path)
    faiss.write_index(faiss.IndexFlatL2(4), str(path / "index"))
    with pytest.raises(ArtifactError, match="not inner products"):
        CompressedSearcher.open(path)
    with pytest.raises(ArtifactError, match="not a product-quantised index"):
        Pq().open(source)


def test_what_is_no_dense_index_is_told(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"lucene: not a dense index \(index: .*\); use a folder with files"):
        DenseIndex.open(tmp_path / "lucene")
    folder = write_encoded(tmp_path / "flat", drawn_vectors(60, 8))
    assert type(DenseIndex.open(folder).searcher) is FlatSearcher
    faiss.write_index(faiss.IndexNSGFlat(8, 4, faiss.METRIC_INNER_PRODUCT), str(folder / "index"))
    with pytest.raises(ArtifactError, match="IndexNSGFlat is not supported; supported backends: flat, fp16, sq8"):
        DenseIndex.open(folder)
    faiss.write_index(faiss.IndexPQ(8, 4, 4, faiss.METRIC_INNER_PRODUCT), str(folder / "index"))
    with pytest.raises(ArtifactError, match="docid: 60 ids for 0 vectors; rebuild the index"):
        DenseIndex.open(folder)


def test_a_vector_that_is_not_finite(tmp_path: Path) -> None:
    source = write_encoded(tmp_path / "flat", drawn_vectors(40))
    with (source / "index").open("r+b") as file:
        file.seek(45 + 4 * DIMENSION * 33)
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
