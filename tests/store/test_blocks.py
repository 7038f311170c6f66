"""Finished blocks: a file each, whole or not there."""

import numpy as np
import pytest

from hardneg.records import ArtifactError
from hardneg.store.blocks import BlockResult, BlockStore, contiguous


def test_blocks_are_there_for_every_process(tmp_path):
    one, two = BlockStore(tmp_path / "blocks"), BlockStore(tmp_path / "blocks")
    one.begin([2, 2, 1])
    one.write(2, BlockResult({"lines": b"c\n", "scores": np.arange(3)}, {"queries": 2, "seconds": 0.5}))
    two.write(0, BlockResult({"lines": b"a\n"}, {"queries": 1}))
    two.write(0, BlockResult({"lines": b"a\n"}, {"queries": 1}))
    assert one.finished() == two.finished() == {0, 2}
    two.write(1, BlockResult({}))
    assert list(one.texts("lines", 3)) == [b"a\n", b"c\n"]
    assert one.facts(3) == {"queries": 3, "seconds": 0.5}
    assert two.read(2)["scores"].tolist() == [0, 1, 2]


def test_what_is_missing_damaged_or_cut_otherwise_is_told(tmp_path):
    store = BlockStore(tmp_path / "blocks")
    with pytest.raises(ArtifactError, match="is gone"):
        store.write(0, BlockResult({}))
    store.begin([2, 1])
    store.begin([2, 1])
    with pytest.raises(ArtifactError, match="2 blocks of 2 at most, and this hardneg cuts 3 of 1"):
        store.begin([1, 1, 1])
    with pytest.raises(ArtifactError, match="block 0 is missing"):
        list(store.texts("lines", 2))
    store.write(0, BlockResult({"lines": b"a"}))
    (path,) = store.folder.glob("*.npz")
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ArtifactError, match="damaged"):
        store.read(0)
    assert store.finished() == set()


def test_numbers_that_follow_each_other():
    assert list(contiguous([0, 1, 2, 5, 7, 8])) == [range(3), range(5, 6), range(7, 9)]
    assert not list(contiguous([]))
