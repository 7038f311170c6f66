"""Vectors in order become shards: of which rows, the same as in one file, at a URL too; and those there are checked."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hardneg.formats.vectors.flat_vectors import FlatVectors
from hardneg.formats.vectors.shard_folder import far_shards, shard_problem
from hardneg.formats.vectors.shard_writer import RowCut, ShardsToWrite
from hardneg.formats.vectors.shards import Shards
from hardneg.records.errors import ArtifactError
from hardneg.runtime.progress import Silent

VECTORS = np.arange(30, dtype=np.float32).reshape(10, 3)
IDS = [f"d{row}" for row in range(10)]


def written(folder: Path, *blocks: int, vectors: Any = VECTORS, **cut: Any) -> FlatVectors:
    """Blocks end at these rows."""
    parts = [vectors[begin:end] for begin, end in pairwise([0, *blocks, 10])]
    ShardsToWrite(folder, 3, IDS, RowCut(**cut)).write(parts, Silent())
    return FlatVectors.open(folder)


@pytest.mark.parametrize(
    ("cut", "first"),
    [
        ({"shards": 3}, [0, 3, 6, 10]),
        ({"rows": 4}, [0, 3, 6, 10]),
        ({"rows": 5}, [0, 5, 10]),
        ({"shards": 20}, list(range(11))),
        ({"url": "file:///x"}, [0, 10]),
    ],
)
def test_which_rows_a_shard_has(cut: dict[str, Any], first: list[int]) -> None:
    assert RowCut(**cut).first(10).tolist() == first


@pytest.mark.parametrize("blocks", [(), (1,), (3, 6), (2, 4, 9), (5,)])
@pytest.mark.parametrize("shards", [1, 3, 10])
def test_vectors_and_ids_are_those_of_one_file_however_they_come(
    tmp_path: Path, blocks: tuple[int, ...], shards: int
) -> None:
    found = written(tmp_path, *blocks, shards=shards)
    assert found.read(0, 10).tolist() == VECTORS.tolist() and list(found.doc_ids) == IDS
    assert len(found.shards.listed) == shards and far_shards(tmp_path) == []
    own = FlatVectors.open(tmp_path / "shard-00000")
    assert list(own.doc_ids) == IDS[: len(own)]
    assert found.gather(np.array([9, 0, 5])).tolist() == VECTORS[[9, 0, 5]].tolist()


def test_shards_at_a_url_leave_the_list_alone_here(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/far"
    found = written(tmp_path / "a", 4, shards=3, url=url)
    assert found.read(0, 10).tolist() == VECTORS.tolist()
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["docid", "shards.json"]
    before = (tmp_path / "far/shard-00001/index").stat().st_mtime_ns
    again = written(tmp_path / "b", 7, shards=3, url=url)
    assert (tmp_path / "far/shard-00001/index").stat().st_mtime_ns == before, "an equal one stands there"
    assert again.shards.listed == found.shards.listed
    with pytest.raises(ArtifactError, match="far/shard-00000: is a shard of something else: name another URL, or"):
        written(tmp_path / "c", vectors=VECTORS + 1, shards=3, url=url)


def test_what_is_wrong_with_a_shard_at_a_url(tmp_path: Path) -> None:
    written(tmp_path / "a", shards=3, url=f"file://{tmp_path}/far")
    shards = far_shards(tmp_path / "a")
    assert [shard_problem(shard) for shard in shards] == ["", "", ""]
    with (tmp_path / "far/shard-00001/index").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x7f")
    (tmp_path / "far/shard-00002/shard.json").unlink()
    told = [shard_problem(shard) for shard in shards]
    assert told[0] == ""
    assert "shard-00001/index: the bytes have changed" in told[1]
    assert "shard-00002: the shard is not there, or not complete" in told[2]
    written(tmp_path / "b", vectors=VECTORS + 1, shards=3, url=f"file://{tmp_path}/other")
    (tmp_path / "far/shard-00000/shard.json").write_bytes((tmp_path / "other/shard-00000/shard.json").read_bytes())
    assert "shard-00000: the shard is another one than was listed" in shard_problem(shards[0])


def test_a_folder_without_a_list_or_with_a_damaged_one_has_no_shards_elsewhere(tmp_path: Path) -> None:
    assert far_shards(tmp_path) == ()
    (tmp_path / "shards.json").write_text("{")
    assert far_shards(tmp_path) == ()
    with pytest.raises(ArtifactError):
        Shards.of(tmp_path)
