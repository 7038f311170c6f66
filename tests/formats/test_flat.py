import os
from pathlib import Path

import numpy as np
import pytest

from hardneg.formats.vectors import FlatVectors, FlatWriter
from hardneg.records import ArtifactError, DataError, UsageError

_VECTORS = np.arange(60, dtype=np.float32).reshape(20, 3)
_IDS = [f"d{i}" for i in range(20)]


def _write(folder: Path, vectors: np.ndarray = _VECTORS, block: int = 7) -> None:
    with FlatWriter(folder, vectors.shape[1], len(vectors)) as writer:
        for start in range(0, len(vectors), block):
            writer.write(vectors[start : start + block])
        writer.write_doc_ids(f"d{i}" for i in range(len(vectors)))
        writer.close()


def test_what_is_written_is_read(tmp_path: Path) -> None:
    _write(tmp_path)
    flat = FlatVectors.open(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["docid", "index"]
    assert np.array_equal(flat.vectors, _VECTORS)
    assert np.array_equal(flat.read(5, 9), _VECTORS[5:9])
    assert flat.read(18, 40).shape == (2, 3)
    assert (len(flat), flat.dimension, len(flat.doc_ids)) == (20, 3, 20)
    assert (flat.doc_ids[0], flat.doc_ids[-1], flat.doc_ids[3:5]) == ("d0", "d19", ["d3", "d4"])
    assert list(flat.doc_ids) == _IDS
    with pytest.raises(IndexError):
        flat.doc_ids[20]


def test_no_vectors_at_all(tmp_path: Path) -> None:
    _write(tmp_path, np.empty((0, 3), np.float32))
    flat = FlatVectors.open(tmp_path)
    assert flat.vectors.shape == (0, 3)
    assert list(flat.doc_ids) == []


def test_faiss_reads_it(tmp_path: Path) -> None:
    faiss = pytest.importorskip("faiss")
    _write(tmp_path)
    index = faiss.read_index(str(tmp_path / "index"))
    assert (index.ntotal, index.d, index.metric_type) == (20, 3, faiss.METRIC_INNER_PRODUCT)
    assert np.array_equal(index.reconstruct_n(0, 20), _VECTORS)
    expected = faiss.IndexFlatIP(3)
    expected.add(_VECTORS)
    faiss.write_index(expected, str(tmp_path / "expected"))
    assert (tmp_path / "index").read_bytes() == (tmp_path / "expected").read_bytes()


def test_it_reads_what_faiss_writes_and_no_other_kind(tmp_path: Path) -> None:
    faiss = pytest.importorskip("faiss")
    (tmp_path / "docid").write_text("\n".join(_IDS))
    index = faiss.IndexFlatIP(3)
    index.add(_VECTORS)
    faiss.write_index(index, str(tmp_path / "index"))
    flat = FlatVectors.open(tmp_path)
    assert np.array_equal(flat.vectors, _VECTORS)
    assert list(flat.doc_ids) == _IDS
    faiss.write_index(faiss.IndexFlatL2(3), str(tmp_path / "index"))
    with pytest.raises(ArtifactError, match="inner-product"):
        FlatVectors.open(tmp_path)


@pytest.mark.parametrize("size", [0, 10, 45, 100, 284, 286])
def test_another_size_is_an_error(tmp_path: Path, size: int) -> None:
    _write(tmp_path)
    os.truncate(tmp_path / "index", size)
    with pytest.raises(ArtifactError):
        FlatVectors.open(tmp_path)


def test_missing_parts_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="cannot be read"):
        FlatVectors.open(tmp_path)
    with FlatWriter(tmp_path, 3, 20) as writer:
        writer.write(_VECTORS[:10])
        with pytest.raises(ArtifactError, match="rows from 10"):
            writer.close()
        with pytest.raises(ArtifactError, match="19 document ids for 20"):
            writer.write_doc_ids(_IDS[1:])
        writer.write(_VECTORS[10:])
        with pytest.raises(ArtifactError, match="document ids"):
            writer.close()
        with pytest.raises(ArtifactError, match="cannot be read"):
            FlatVectors.open(tmp_path)
        with pytest.raises(DataError, match="d 1"):
            writer.write_doc_ids(["d 1"])


def test_bad_blocks_are_refused(tmp_path: Path) -> None:
    with FlatWriter(tmp_path, 3, 20) as writer:
        with pytest.raises(UsageError, match="shape"):
            writer.write(np.zeros((2, 4), np.float32))
        with pytest.raises(UsageError, match="expected 20 rows, got 21"):
            writer.write(np.zeros((21, 3), np.float32))
        with pytest.raises(ArtifactError, match="finite"):
            writer.write(np.full((2, 3), np.nan, np.float32))


def test_a_finished_folder_is_not_overwritten_and_one_that_is_not_leaves_nothing(tmp_path: Path) -> None:
    with FlatWriter(tmp_path, 4, 20) as writer:
        writer.write(np.zeros((1, 4), np.float32))
    assert not list(tmp_path.iterdir())
    _write(tmp_path)
    with pytest.raises(ArtifactError, match="already complete"):
        FlatWriter(tmp_path, 3, 20)


@pytest.mark.parametrize("lines", ["a\n", "a\nb\nc\n", ""])
def test_ids_that_are_not_as_many_as_the_vectors_are_told(tmp_path, lines):
    with FlatWriter(tmp_path, 2, 2) as writer:
        writer.write(np.eye(2, dtype=np.float32))
        writer.write_doc_ids(["a", "b"])
        writer.close()
    (tmp_path / "docid").write_text(lines)
    with pytest.raises(ArtifactError, match=r"docid: [013] document ids for 2 vectors; copy the index again"):
        FlatVectors.open(tmp_path).doc_ids[1]
