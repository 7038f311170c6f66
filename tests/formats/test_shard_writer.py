"""Vectors become shards, and flat indexes one index or shards: the same rows as in one file."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from hardneg.formats.merging import merge_flat, merge_in_shards, open_flat
from hardneg.formats.vectors.flat_vectors import FlatVectors, FlatWriter
from hardneg.formats.vectors.shard_folder import write_flat_shards
from hardneg.formats.vectors.shards import even_cut, index_bytes
from hardneg.records.errors import DataError, UsageError
from hardneg.runtime.progress import Silent

VECTORS = np.arange(30, dtype=np.float32).reshape(10, 3)
IDS = [f"d{row}" for row in range(10)]


def written(folder: Path, *blocks: int, shards: int) -> FlatVectors:
    """Blocks end at these rows."""
    parts = [VECTORS[begin:end] for begin, end in pairwise([0, *blocks, 10])]
    write_flat_shards(folder, 3, IDS, even_cut(10, 10, shards, None), parts, Silent())
    return FlatVectors.open(folder)


@pytest.mark.parametrize(
    ("cut", "first"),
    [
        ((3, None), [0, 3, 6, 10]),
        ((None, 4), [0, 3, 6, 10]),
        ((None, 5), [0, 5, 10]),
        ((20, None), list(range(11))),
        ((None, None), [0, 10]),
    ],
)
def test_which_rows_a_shard_has(cut, first):
    assert even_cut(10, 10, *cut) == first


@pytest.mark.parametrize("blocks", [(), (1,), (3, 6), (2, 4, 9), (5,)])
@pytest.mark.parametrize("shards", [1, 3, 10])
def test_vectors_and_ids_are_those_of_one_file_however_they_come(tmp_path, blocks, shards):
    found = written(tmp_path, *blocks, shards=shards)
    assert found.read(0, 10).tolist() == VECTORS.tolist() and list(found.doc_ids) == IDS
    assert len(found.shards.listed) == shards
    own = FlatVectors.open(tmp_path / "shard-00000")
    assert list(own.doc_ids) == IDS[: len(own)]
    assert found.gather(np.array([9, 0, 5])).tolist() == VECTORS[[9, 0, 5]].tolist()


def index_of(folder: Path, names: str, first: float = 0, dimension: int = 2) -> Path:
    vectors = np.arange(len(names) * dimension, dtype=np.float32).reshape(-1, dimension) + first
    with FlatWriter(folder, dimension, len(names)) as writer:
        writer.write(vectors)
        writer.write_doc_ids(names)
        writer.close()
    return folder


@pytest.fixture
def parts(tmp_path):
    parts = [index_of(tmp_path / "a", "ab"), index_of(tmp_path / "b", "c", 4), index_of(tmp_path / "c", "def", 6)]
    (tmp_path / "b/docid").write_text("c")  # as other programs leave it: no line break at the end
    return parts


def check(folder: Path) -> None:
    found = FlatVectors.open(folder)
    assert found.read(0, 6).tolist() == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11]]
    assert (folder / "docid").read_text() == "a\nb\nc\nd\ne\nf\n"


def test_rows_follow_each_other(parts, tmp_path):
    assert merge_flat(open_flat(parts), tmp_path / "one", Silent()) == 6
    check(tmp_path / "one")


def test_each_becomes_a_shard_without_a_copy(parts, tmp_path):
    assert merge_in_shards(open_flat(parts), tmp_path / "shards") == 6
    check(tmp_path / "shards")
    assert (tmp_path / "shards/shard-00002/index").samefile(tmp_path / "c/index")
    merge_flat(open_flat([tmp_path / "shards"]), tmp_path / "one", Silent())
    check(tmp_path / "one")
    merge_in_shards(open_flat([tmp_path / "shards"]), tmp_path / "again")
    check(tmp_path / "again")


def test_what_does_not_fit_is_told_at_once(parts, tmp_path):
    other = index_of(tmp_path / "other", "xyz", dimension=3)
    tokens = index_of(tmp_path / "tokens", "uvw")
    np.save(tokens / "offsets.npy", np.arange(4))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError) as error:
        open_flat([*parts, other, tokens, tmp_path / "empty"])
    lines = str(error.value).splitlines()
    told = "tokens: holds a vector for each token: indexes of one vector a document can be merged"
    assert len(lines) == 3 and lines[0].endswith(told)
    assert "empty/index: cannot be read" in lines[1]
    assert f"{other}: vectors of dimension 3, and {parts[0]} has 2: merge what one model encoded" == lines[2]


def test_two_indexes_of_other_dimensions(tmp_path):
    with pytest.raises(UsageError, match=r"second: vectors of dimension 3, and .*first has 2"):
        open_flat([index_of(tmp_path / "first", "ab", dimension=2), index_of(tmp_path / "second", "xy", dimension=3)])


def test_a_document_in_two_is_told_with_its_places(parts, tmp_path):
    again = index_of(tmp_path / "again", "xb")
    with pytest.raises(DataError, match=r"again/docid:2: document 'b' stands in .*/a/docid:2 too: keep one"):
        open_flat([*parts, again])


def test_ids_and_the_manifest_are_no_part_of_an_index(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for name, size in {"index": 7, "docid": 100, "manifest.json": 50, "deep/part": 4}.items():
        (tmp_path / name).write_bytes(b"x" * size)
    assert index_bytes(tmp_path) == 11
