import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hardneg.formats.vectors.flat_vectors import FlatVectors, FlatWriter
from hardneg.records.errors import ArtifactError, DataError, UsageError

_VECTORS = np.arange(60, dtype=np.float32).reshape(20, 3)
_IDS = [f"d{i}" for i in range(20)]


def _write(folder: Path, vectors: np.ndarray = _VECTORS, block: int = 7) -> None:
    with FlatWriter(folder, vectors.shape[1], len(vectors)) as writer:
        for _number, start in reversed(list(enumerate(range(0, len(vectors), block)))):
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
        with pytest.raises(ArtifactError, match="row 10"):
            writer.close()
        with pytest.raises(ArtifactError, match="19 document ids for 20"):
            writer.write_doc_ids(_IDS[1:])
        writer.write(_VECTORS[10:])
        with pytest.raises(ArtifactError, match="document ids"):
            writer.close()
        with pytest.raises(ArtifactError, match="did not finish"):
            FlatVectors.open(tmp_path)
        with pytest.raises(DataError, match="d 1"):
            writer.write_doc_ids(["d 1"])


def test_bad_blocks_are_refused(tmp_path: Path) -> None:
    with FlatWriter(tmp_path, 3, 20) as writer:
        with pytest.raises(UsageError, match="shape"):
            writer.write(np.zeros((2, 4), np.float32))
        with pytest.raises(UsageError, match="row 21"):
            writer.write(np.zeros((3, 3), np.float32))
        with pytest.raises(ArtifactError, match="finite"):
            writer.write(np.full((2, 3), np.nan, np.float32))
        assert writer.finished_blocks() == set()


def test_another_shape_or_a_finished_folder_is_not_overwritten(tmp_path: Path) -> None:
    FlatWriter(tmp_path, 3, 20).__exit__()
    with pytest.raises(ArtifactError, match="another shape"):
        FlatWriter(tmp_path, 4, 20)
    _write(tmp_path)
    with pytest.raises(ArtifactError, match="already complete"):
        FlatWriter(tmp_path, 3, 20)


def test_two_writers_share_a_folder(tmp_path: Path) -> None:
    with FlatWriter(tmp_path, 3, 20) as one, FlatWriter(tmp_path, 3, 20, writer=1) as two:
        one.write(_VECTORS[:10])
        two.write(_VECTORS[10:])
        assert (tmp_path / "index.journal.1").read_text().split()[:3] == ["1", "10", "10"]
        one.write_doc_ids(_IDS)
        assert one.finished_blocks() == {0, 1}
        one.close()
    assert np.array_equal(FlatVectors.open(tmp_path).vectors, _VECTORS)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["docid", "index"]


_KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
from hardneg.formats.vectors import flat_vectors as flat
place = sys.argv[2]
write = flat._write_all
def dying(file, data, offset):
    write(file, data[: len(data) // 2], offset)
    os.kill(os.getpid(), signal.SIGKILL)
with flat.FlatWriter(Path(sys.argv[1]), 3, 20) as writer:
    for number in range(4):
        if number == 2:
            if place == "between":
                os.kill(os.getpid(), signal.SIGKILL)
            if place == "journal":
                os.write(writer._journal.file, b"\\n2 10 5")
                os.kill(os.getpid(), signal.SIGKILL)
            flat._write_all = dying
        vectors = np.arange(number * 15, number * 15 + 15, dtype=np.float32).reshape(5, 3)
        writer.write(vectors)
"""


@pytest.mark.parametrize("place", ["between", "inside", "journal"])
def test_a_killed_writer_is_resumed(tmp_path: Path, place: str) -> None:
    done = subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path), place], check=False)
    assert done.returncode == -signal.SIGKILL
    with FlatWriter(tmp_path, 3, 20) as writer:
        assert writer.finished_blocks() == {0, 1}
        for number in {0, 1, 2, 3} - writer.finished_blocks():
            writer.write(_VECTORS[number * 5 : number * 5 + 5])
        writer.write_doc_ids(_IDS)
        writer.close()
    assert np.array_equal(FlatVectors.open(tmp_path).vectors, _VECTORS)


def test_a_writer_touches_no_byte_of_another_machines_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by a network file system's pages: those are read and written whole unless the file is write-only, synced."""
    written: list[tuple[int, int]] = []
    cut: list[int] = []
    pwrite, ftruncate = os.pwrite, os.ftruncate

    def noted(file: int, data: bytes, offset: int) -> int:
        flags = fcntl.fcntl(file, fcntl.F_GETFL)
        assert flags & os.O_ACCMODE == os.O_WRONLY and flags & os.O_DSYNC == os.O_DSYNC
        written.append((offset, len(data)))
        return pwrite(file, data, offset)

    monkeypatch.setattr(os, "pwrite", noted)
    monkeypatch.setattr(os, "ftruncate", lambda file, size: (cut.append(size), ftruncate(file, size)))
    with FlatWriter(tmp_path, 3, 20) as one:
        one.write(_VECTORS[:10])
        with FlatWriter(tmp_path, 3, 20, writer=1) as two:
            two.write(_VECTORS[10:])
        one.write_doc_ids(_IDS)
        one.close()
    assert written == [(0, 45), (45, 120), (165, 120)] and cut == [285]
    assert np.array_equal(FlatVectors.open(tmp_path).vectors, _VECTORS)


@pytest.mark.parametrize("lines", ["a\n", "a\nb\nc\n", ""])
def test_ids_that_are_not_as_many_as_the_vectors_are_told(tmp_path, lines):
    with FlatWriter(tmp_path, 2, 2) as writer:
        writer.write(np.eye(2, dtype=np.float32))
        writer.write_doc_ids(["a", "b"])
        writer.close()
    (tmp_path / "docid").write_text(lines)
    with pytest.raises(ArtifactError, match=r"docid: [013] document ids for 2 vectors: copy the index again"):
        FlatVectors.open(tmp_path).doc_ids[1]
