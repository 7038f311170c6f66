"""Vectors of other programs become a dense index; every mistake has its place."""

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hardneg.formats.vectors import FlatVectors
from hardneg.formats.vectors_import import VectorOwners, arrange_vectors, import_vectors, open_vectors
from hardneg.records import DataError
from hardneg.runtime import Silent

VECTORS = np.arange(12, dtype=np.float32).reshape(4, 3)
IDS = ["d0", "d1", "ü", "d3"]
LISTS = pa.list_(pa.float32())
NAMES = {"npy": "v", "jsonl": "e", "parquet": "p"}


def save(folder, vectors=VECTORS, ids=IDS):
    np.save(folder / "v.npy", vectors)
    (folder / "ids.txt").write_text("".join(f"{doc_id}\n" for doc_id in ids))
    rows = [{"id": i, "contents": "x", "vector": v} for i, v in zip(ids, np.asarray(vectors).tolist(), strict=False)]
    (folder / "e.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if np.ndim(vectors) == 2 and rows:
        save_parquet(folder, [row["id"] for row in rows], [row["vector"] for row in rows], LISTS)


def save_parquet(folder, ids, vectors, kind, **more):
    columns = {"id": pa.array(ids), **more, "vector": pa.array(vectors, kind)}
    pq.write_table(pa.table(columns), folder / "p.parquet", row_group_size=3)


def opened(folder, kind):
    return open_vectors(folder / f"{NAMES[kind]}.{kind}", folder / "ids.txt" if kind == "npy" else None)


def bring(folder, kind):
    file = opened(folder, kind)
    return import_vectors(file, folder / "out", Silent()), file.dimension


@pytest.mark.parametrize("kind", NAMES)
def test_vectors_and_ids_are_in_the_index(tmp_path, kind):
    save(tmp_path)
    assert bring(tmp_path, kind) == (4, 3)
    found = FlatVectors.open(tmp_path / "out")
    assert found.read(0, 9).tolist() == VECTORS.tolist() and list(found.doc_ids) == IDS
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["docid", "index"]


@pytest.mark.parametrize("kind", NAMES)
def test_several_blocks(tmp_path, kind, monkeypatch):
    monkeypatch.setattr("hardneg.formats.vectors_import.ROWS", 3)
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
        ("npy", {"ids": ["a", "b", "c", "b"]}, "ids.txt:4: id 'b' already occurs at "),
        ("jsonl", {"ids": ["a", "b", "b", "c"]}, "e.jsonl:3: id 'b' already occurs at "),
        ("npy", {"ids": ["a", "b c", "d", "e"]}, "ids.txt:2: id 'b c'"),
        ("npy", {"vectors": not_finite()}, "v.npy: row 2: the vector is not finite"),
        ("jsonl", {"vectors": not_finite()}, "e.jsonl:3: the vector is not finite"),
        ("npy", {"vectors": VECTORS.astype(np.int64)}, "floating-point numbers"),
        ("npy", {"vectors": VECTORS[0]}, "shape [vectors, dimension]"),
        ("jsonl", {"ids": []}, "contains no vectors"),
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
        ('{"id": "x", "vector": [1, 2]}', "e.jsonl:5: dimension 2, but the first vector has 3"),
        *(
            (line, "e.jsonl:5: 'vector' must be a list of finite numbers")
            for line in (
                '{"id": "x"}',
                '{"id": "x", "vector": [1, "a", 3]}',
                '{"id": "x", "vector": [true, 2, 3]}',
                '{"id": "x", "vector": []}',
                '{"id": "x", "vector": [1, 2, 1%s]}' % ("0" * 400),
            )
        ),
        (
            '{"id": "x\\u0000", "vector": [1, 2, 3]}',
            "e.jsonl:5: id 'x\\x00' is empty or contains white space or control",
        ),
        ('{"id": 7, "vector": [1, 2, 3]}', "e.jsonl:5: 'id' must be a string"),
        ("{", "e.jsonl:5: expected one JSON object per line"),
    ],
)
def test_bad_lines(tmp_path, line, message):
    save(tmp_path)
    with (tmp_path / "e.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(DataError) as caught:
        bring(tmp_path, "jsonl")
    assert message in str(caught.value)


def saved(path: Path, array: object) -> bytes:
    np.save(path, np.asarray(array), allow_pickle=True)
    return path.read_bytes()


def test_what_is_no_array_of_vectors(tmp_path: Path) -> None:
    save(tmp_path)
    path = tmp_path / "v.npy"
    whole = path.read_bytes()
    cases = [
        (b"", "not a .npy file, or damaged ("),
        (pickle.dumps(VECTORS), "not a .npy file, or damaged ("),
        (whole[:-5], "not a .npy file, or damaged ("),
        (whole[:20], "not a .npy file, or damaged ("),
        (saved(path, np.array([[{}, "x"]], object)), "not a .npy file, or damaged ("),
        (saved(path, VECTORS[0]), "has float32 values of shape (3,); write floating-point numbers of shape"),
        (saved(path, VECTORS.astype(np.int64)), "has int64 values of shape (4, 3); write floating-point numbers"),
    ]
    for content, message in cases:
        path.write_bytes(content)
        with pytest.raises(DataError) as caught:
            bring(tmp_path, "npy")
        assert str(caught.value).startswith(f"{path}: {message}") and "\n" not in str(caught.value)


def test_columns_of_parquet_are_told_by_type_and_name(tmp_path: Path) -> None:
    names = pa.array(["a", "b", "c", "d"])
    kinds = [pa.list_(pa.float64()), pa.list_(pa.float16(), 3), pa.large_list(pa.float32())]
    for kind in kinds:
        save_parquet(tmp_path, [4, 3, 2, 1], VECTORS.astype(np.float16).tolist(), kind, title=names)
        assert bring(tmp_path, "parquet") == (4, 3)
        found = FlatVectors.open(tmp_path / "out")
        assert found.read(0, 4).tolist() == VECTORS.tolist() and list(found.doc_ids) == ["4", "3", "2", "1"]
        shutil.rmtree(tmp_path / "out")


FEW = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"vector": FEW}, "expected columns 'id' and 'vector', found vector"),
        (
            {"id": list("abcd"), "vector": [1.0, 2.0, 3.0, 4.0]},
            "not a Parquet file of ids and lists of numbers, or damaged",
        ),
        ({"id": list("abcd"), "x": FEW}, "expected columns 'id' and 'vector', found id, x"),
        ({"id": ["a", None, "c", "d"], "vector": FEW}, "row 1: id '' is empty or contains white space"),
        ({"id": ["a", "b", "c d", "d"], "vector": FEW}, "row 2: id 'c d' is empty or contains white space"),
        ({"id": ["a", "b", "c", "a"], "vector": FEW}, "row 3: id 'a' already occurs at "),
        ({"id": list("abcd"), "vector": [*FEW[:3], [1.0]]}, "row 3: dimension 1, but the first vector has 2"),
        ({"id": list("abcd"), "vector": [*FEW[:2], None, FEW[3]]}, "row 2: dimension 0, but the first vector has 2"),
        ({"id": list("abcd"), "vector": [*FEW[:3], [1.0, None]]}, "row 3: the vector is not finite"),
        ({"id": list("abcd"), "vector": [[], *FEW[:3]]}, "row 0: dimension 0"),
        ({"id": pa.array([], pa.string()), "vector": pa.array([], pa.list_(pa.float32()))}, "contains no vectors"),
    ],
)
def test_mistakes_in_parquet(tmp_path: Path, columns: dict[str, object], message: str) -> None:
    pq.write_table(pa.table(columns), tmp_path / "p.parquet", row_group_size=3)
    with pytest.raises(DataError) as caught:
        bring(tmp_path, "parquet")
    assert str(caught.value).startswith(f"{tmp_path / 'p.parquet'}: ") and message in str(caught.value)


def test_which_file_needs_ids(tmp_path: Path) -> None:
    save(tmp_path)
    with pytest.raises(DataError, match=r"v\.npy: a \.npy array has no ids; also give a file of ids"):
        open_vectors(tmp_path / "v.npy")
    for name in ("p.parquet", "e.jsonl"):
        with pytest.raises(DataError, match=rf"{name}: already has ids; omit .*ids\.txt"):
            open_vectors(tmp_path / name, tmp_path / "ids.txt")
    with pytest.raises(DataError, match=r"none\.parquet: no such file; give a \.npy, Parquet or"):
        open_vectors(tmp_path / "none.parquet")


def owners(*ids):
    places = {name: place for place, name in enumerate(ids)}
    return VectorOwners(ids, lambda names: np.array([places.get(name, -1) for name in names], np.int64), "document")


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("ids", [("d0", "d1", "ü", "d3"), ("d0", "ü"), ("d3", "d0", "ü", "d1"), ("ü", "d0")])
def test_wanted_vectors_are_in_the_order_of_their_ids(tmp_path: Path, kind: str, ids, monkeypatch) -> None:
    monkeypatch.setattr("hardneg.formats.vectors_import.ROWS", 3)
    save(tmp_path)
    assert arrange_vectors(opened(tmp_path, kind), owners(*ids), tmp_path / "out", Silent()) == 4 - len(ids)
    found = FlatVectors.open(tmp_path / "out")
    assert list(found.doc_ids) == list(ids)
    assert found.read(0, 4).tolist() == VECTORS[[IDS.index(name) for name in ids]].tolist()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["docid", "index"]


def test_wanted_vectors_that_are_not_there(tmp_path: Path) -> None:
    save(tmp_path)
    with pytest.raises(DataError) as caught:
        arrange_vectors(opened(tmp_path, "npy"), owners("d1", "x", "d0", "y"), tmp_path / "out", Silent())
    told = "no vector for 2 of 4 documents, such as 'x'; encode them too"
    assert str(caught.value) == f"{tmp_path / 'v.npy'}: {told}"


@pytest.mark.parametrize("kind", NAMES)
def test_vectors_that_are_all_zero_are_refused(tmp_path, kind):
    save(tmp_path, np.zeros_like(VECTORS))
    with pytest.raises(DataError, match="all zero, so all texts would tie"):
        bring(tmp_path, kind)
    some = np.zeros_like(VECTORS)
    some[-1, 0] = 1
    save(tmp_path, some)
    bring(tmp_path, kind)
