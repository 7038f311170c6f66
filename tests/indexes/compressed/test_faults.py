"""Vectors, options and files that make no compressed index, and what is said of them."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from indexes.compressed.kinds import COUNT, DIMENSION, KINDS, drawn_vectors, flat_index

from hardneg.indexes.backends.compressed import CompressedSearcher, Fp16, Hnsw, IvfFlat, IvfPq, Sq8
from hardneg.indexes.backends.product import Binary, OpqPq, Pq
from hardneg.records import ArtifactError, MissingDependency, UsageError
from hardneg.runtime import Silent

faiss = pytest.importorskip("faiss")


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
        plugin.build(flat_index(tmp_path / "flat", drawn_vectors(100)), tmp_path / "made", Silent())


def test_no_vectors(tmp_path: Path) -> None:
    source = flat_index(tmp_path / "flat", np.empty((0, 4), np.float32))
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
        (np.full((1, DIMENSION), np.nan, np.float32), "query 0"),
    ):
        with pytest.raises(UsageError, match=message):
            searcher.search(wrong, 3)
    with pytest.raises(UsageError, match="k is 0"):
        searcher.search(np.ones((1, DIMENSION), np.float32), 0)
    for rows in ([-1], [COUNT]):
        with pytest.raises(UsageError, match="take out the pads"):
            searcher.vectors(np.array(rows))
    assert searcher.vectors(np.empty(0, np.int64)).shape == (0, DIMENSION)


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
    source = flat_index(tmp_path / "flat", drawn_vectors(40))
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


def test_vectors_that_fill_no_bytes_have_no_signs(tmp_path: Path) -> None:
    source = flat_index(tmp_path / "flat", drawn_vectors(4, 12))
    with pytest.raises(UsageError, match="dimension 12: a multiple of 8 is needed"):
        Binary().build(source, tmp_path / "bits", Silent())
