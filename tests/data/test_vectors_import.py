"""Vectors of other programs become a dense index; every mistake has its place."""

import gzip
import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from hardneg.data.flat import FlatVectors
from hardneg.data.vectors_import import import_json_lines, import_npy, open_npy
from hardneg.errors import DataError
from hardneg.progress import Silent

VECTORS = np.arange(12, dtype=np.float32).reshape(4, 3)
IDS = ["d0", "d1", "ü", "d3"]
ARRAY = np.arange(12, dtype=np.float32).reshape(4, 3)


def save(folder, vectors=VECTORS, ids=IDS):
    np.save(folder / "v.npy", vectors)
    (folder / "ids.txt").write_text("".join(f"{doc_id}\n" for doc_id in ids))
    rows = [{"id": i, "contents": "x", "vector": v} for i, v in zip(ids, np.asarray(vectors).tolist(), strict=False)]
    (folder / "e.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def bring(folder, kind):
    if kind == "npy":
        return import_npy(folder / "v.npy", folder / "ids.txt", folder / "out", Silent())
    return import_json_lines(folder / "e.jsonl", folder / "out", Silent())


@pytest.mark.parametrize("kind", ["npy", "jsonl"])
def test_vectors_and_ids_are_in_the_index(tmp_path, kind):
    save(tmp_path)
    assert bring(tmp_path, kind) == (4, 3)
    found = FlatVectors.open(tmp_path / "out")
    assert found.read(0, 9).tolist() == VECTORS.tolist() and list(found.doc_ids) == IDS
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["docid", "index"]


@pytest.mark.parametrize("kind", ["npy", "jsonl"])
def test_several_blocks(tmp_path, kind, monkeypatch):
    monkeypatch.setattr("hardneg.data.vectors_import._ROWS", 3)
    save(tmp_path, VECTORS.astype(np.float16))
    bring(tmp_path, kind)
    assert FlatVectors.open(tmp_path / "out").read(0, 4).tolist() == VECTORS.tolist()


def not_finite():
    vectors = VECTORS.copy()
    vectors[2, 1] = np.nan
    return vectors


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("npy", {"ids": IDS[:3]}, "ids.txt: 3 ids for 4 vectors"),
        ("npy", {"ids": ["a", "b", "c", "b"]}, "ids.txt:4: id 'b' stands in line 2 already"),
        ("jsonl", {"ids": ["a", "b", "b", "c"]}, "e.jsonl:3: id 'b' stands in line 2 already"),
        ("npy", {"ids": ["a", "b c", "d", "e"]}, "ids.txt:2: id 'b c'"),
        ("npy", {"vectors": not_finite()}, "v.npy: row 2: the vector is not finite"),
        ("jsonl", {"vectors": not_finite()}, "e.jsonl:3: the vector is not finite"),
        ("npy", {"vectors": VECTORS.astype(np.int64)}, "floating numbers"),
        ("npy", {"vectors": VECTORS[0]}, "shape [vectors, dimension]"),
        ("jsonl", {"ids": []}, "nothing in it"),
    ],
)
def test_mistakes_have_their_place(tmp_path, kind, change, message):
    save(tmp_path, **change)
    with pytest.raises(DataError) as caught:
        bring(tmp_path, kind)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": "x", "vector": [1, 2]}', "e.jsonl:5: a vector of dimension 2; the first has 3"),
        ('{"id": "x"}', "e.jsonl:5: 'vector' must be a list"),
        ('{"id": 7, "vector": [1, 2, 3]}', "e.jsonl:5: 'id' must be a string"),
        ('{"id": "x", "vector": [1, "a", 3]}', "e.jsonl:5: 'vector' must be a list"),
        ('{"id": "x", "vector": [true, 2, 3]}', "e.jsonl:5: 'vector' must be a list of numbers"),
        ('{"id": "x", "vector": ["1", 2, 3]}', "e.jsonl:5: 'vector' must be a list of numbers"),
        ('{"id": "x", "vector": []}', "e.jsonl:5: 'vector' must be a list of numbers"),
        ('{"id": "x", "vector": [1, 2, 1%s]}' % ("0" * 400), "e.jsonl:5: 'vector' holds a number that is too large"),
        ('{"id": "x\\u0000", "vector": [1, 2, 3]}', "e.jsonl:5: id 'x\\x00' is empty or holds white space or control"),
        ("[1]", "e.jsonl:5: a JSON value that is not an object"),
        ("{", "e.jsonl:5: not JSON"),
    ],
)
def test_bad_lines(tmp_path, line, message):
    save(tmp_path)
    with (tmp_path / "e.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(DataError) as caught:
        bring(tmp_path, "jsonl")
    assert message in str(caught.value)


def test_files_that_are_no_arrays(tmp_path: Path):
    save(tmp_path)
    for content in (b"", b"no", b"\x93NUMPY\x01\x00"):
        (tmp_path / "v.npy").write_bytes(content)
        with pytest.raises(DataError, match=r"v\.npy"):
            bring(tmp_path, "npy")
    (tmp_path / "v.npy").unlink()
    with pytest.raises(DataError, match=r"v\.npy"):
        bring(tmp_path, "npy")


def saved(path: Path, array: object) -> bytes:
    np.save(path, np.asarray(array), allow_pickle=True)
    return path.read_bytes()


def test_an_array_is_mapped(tmp_path: Path) -> None:
    for order in "CF":
        np.save(tmp_path / "v.npy", np.asarray(ARRAY, order=order))  # type: ignore[call-overload]
        assert open_npy(tmp_path / "v.npy").tolist() == ARRAY.tolist()


def test_what_is_no_array(tmp_path: Path) -> None:
    path = tmp_path / "v.npy"
    whole = saved(path, ARRAY)
    np.savez(tmp_path / "v.npz", a=ARRAY)
    cases = [
        (b"", "not a .npy file, but an empty file"),
        (b"0.1 0.2 0.3\n0.4 0.5 0.6\n", "not a .npy file, but text that begins '0.1 0.2 0.3'; write the array with"),
        (pickle.dumps(ARRAY), "not a .npy file, but a pickle, which is never opened here; write the array with"),
        (gzip.compress(whole), "not a .npy file, but packed with gzip; unpack it first"),
        ((tmp_path / "v.npz").read_bytes(), "not a .npy file, but a .npz archive of arrays"),
        (b"\xff\x00\x01", "not a .npy file, but other bytes"),
        (whole[:-5], f"cut off: {len(whole) - 5} bytes, and its header says {len(whole)}; write it again"),
        (whole[:20], "a damaged .npy file; write it again"),
        (saved(path, np.array([[{}, "x"]], object)), "[vectors, dimension], but is Python objects"),
        (saved(path, ARRAY[0]), "but is float32 of shape (3,)"),
        (saved(path, ARRAY.astype(np.int64)), "but is int64 of shape (4, 3)"),
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
