"""What is no .npy array of vectors is told by what it is."""

import gzip
import pickle
from pathlib import Path

import numpy as np
import pytest

from hardneg.data.npy import open_npy
from hardneg.errors import DataError

VECTORS = np.arange(12, dtype=np.float32).reshape(4, 3)


def saved(path: Path, array: object) -> bytes:
    np.save(path, np.asarray(array), allow_pickle=True)
    return path.read_bytes()


def test_an_array_is_mapped(tmp_path: Path) -> None:
    for order in "CF":
        np.save(tmp_path / "v.npy", np.asarray(VECTORS, order=order))  # type: ignore[call-overload]
        assert open_npy(tmp_path / "v.npy").tolist() == VECTORS.tolist()


def test_what_is_no_array(tmp_path: Path) -> None:
    path = tmp_path / "v.npy"
    whole = saved(path, VECTORS)
    np.savez(tmp_path / "v.npz", a=VECTORS)
    cases = [
        (b"", "not a .npy file, but an empty file"),
        (b"0.1 0.2 0.3\n0.4 0.5 0.6\n", "not a .npy file, but text that begins '0.1 0.2 0.3'; write the array with"),
        (pickle.dumps(VECTORS), "not a .npy file, but a pickle, which is never opened here; write the array with"),
        (gzip.compress(whole), "not a .npy file, but packed with gzip; unpack it first"),
        ((tmp_path / "v.npz").read_bytes(), "not a .npy file, but a .npz archive of arrays"),
        (b"\xff\x00\x01", "not a .npy file, but other bytes"),
        (whole[:-5], f"cut off: {len(whole) - 5} bytes, and its header says {len(whole)}; write it again"),
        (whole[:20], "a damaged .npy file; write it again"),
        (saved(path, np.array([[{}, "x"]], object)), "[vectors, dimension], but is Python objects"),
        (saved(path, VECTORS[0]), "but is float32 of shape (3,)"),
        (saved(path, VECTORS.astype(np.int64)), "but is int64 of shape (4, 3)"),
    ]
    for content, message in cases:
        path.write_bytes(content)
        with pytest.raises(DataError) as caught:
            open_npy(path)
        assert str(caught.value).startswith(f"{path}: ") and message in str(caught.value)
        assert "allow_pickle" not in str(caught.value) and "\n" not in str(caught.value)


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.npy: no such file"):
        open_npy(tmp_path / "none.npy")
    with pytest.raises(DataError, match="not a file"):
        open_npy(tmp_path)
