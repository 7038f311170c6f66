"""`hardneg index build` on vectors, as a user calls it."""

from pathlib import Path

import numpy as np
import pytest
from command_line import call

from hardneg.formats.vectors import FlatWriter
from hardneg.records import HardnegError, PluginError, UsageError
from hardneg.testing.indexes import write_encoded

faiss = pytest.importorskip("faiss")


@pytest.fixture
def flat(tmp_path: Path) -> Path:
    return write_encoded(tmp_path / "flat", np.random.default_rng(1).standard_normal((50, 8)).astype(np.float32))


def _build(*arguments: object) -> tuple[str, BaseException | None]:
    result = call("index", "build", *arguments)
    return result.output, result.exception


def test_compresses_a_dense_index(flat: Path, tmp_path: Path) -> None:
    output, options = tmp_path / "small", ["--option", "subvectors=4", "--option", "bits=4"]
    said, error = _build("--vectors", flat, "--backend", "pq", *options, "--output", output)
    assert error is None, said
    size = (output / "index").stat().st_size
    assert f"{output}: 50 passages, {size} bytes" in said
    assert faiss.read_index(str(output / "index")).ntotal == 50
    assert sorted(path.name for path in tmp_path.iterdir()) == ["flat", "small"]
    assert _build("--vectors", flat, "--backend", "fp16", "--output", output)[1] is None
    (output / "index").unlink()
    (output / "index").write_text("mine")
    said, error = _build("--vectors", flat, "--backend", "fp16", "--output", output)
    assert isinstance(error, UsageError) and "already there" in str(error)


@pytest.mark.parametrize(
    ("words", "kind", "message"),
    [
        ("--backend pq", UsageError, "pq is built from vectors: give --vectors, a folder of vectors"),
        ("--backend pq --dataset pydocs", UsageError, "pq is built from vectors"),
        ("--vectors FLAT", UsageError, "bm25 is built from texts: give --dataset only"),
        ("--vectors FLAT --dataset pydocs --backend pq", UsageError, "only"),
        ("--vectors FLAT --backend pqq", PluginError, "did you mean 'pq'"),
        ("--vectors FLAT --backend pq --option bit=4", PluginError, "did you mean 'bits'"),
        ("--vectors FLAT --backend pq --option bits=9", HardnegError, "from 1 to 8"),
        ("--vectors FLAT --backend pq", UsageError, "these fit: 1, 2, 4, 8"),
    ],
)
def test_mistakes(words: str, kind: type[Exception], message: str, flat: Path, tmp_path: Path) -> None:
    _, error = _build(*words.replace("FLAT", str(flat)).split(), "--output", tmp_path / "out")
    assert isinstance(error, kind) and message in str(error)
    assert not (tmp_path / "out").exists()


def test_a_folder_of_another_form_is_told(tmp_path: Path) -> None:
    tokens, empty = tmp_path / "tokens", tmp_path / "none"
    with FlatWriter(tokens, 2, 1) as writer:
        writer.write(np.ones((1, 2), np.float32))
        writer.write_doc_ids(["d"])
        writer.close()
    np.save(tokens / "offsets.npy", np.array([0, 1]))
    for folder, backend, told in (
        (tokens, "flat", f"{tokens} holds token-vectors, but flat is built from vectors"),
        (empty, "pq", f"{empty} was not written by `hardneg encode` or `hardneg index import`, but pq is built"),
    ):
        _, error = _build("--vectors", folder, "--backend", backend, "--output", tmp_path / "out")
        assert isinstance(error, UsageError) and told in str(error)
        assert not (tmp_path / "out").exists()
