"""Blocks of a run or of negatives, each in files of its own."""

import pytest

from hardneg.formats.vectors.journal import BlockFiles, BlockFolder, contiguous, first_missing
from hardneg.records.errors import ArtifactError
from hardneg.runtime.progress import Silent
from hardneg.testing.engines import Squares
from hardneg.verbs.shared.context import StageContext
from hardneg.verbs.shared.run_blocks import QueryBlocks


def test_blocks_of_several_writers_are_put_in_order(tmp_path):
    first, second = BlockFolder(tmp_path), BlockFolder(tmp_path, 4)
    first.write(1, BlockFiles({"trec": b"b"}, {"queries": 2, "pairs": 3}))
    with pytest.raises(ArtifactError, match="block 0 of 2 is missing"):
        second.paths("trec", 2)
    second.write(0, BlockFiles({"trec": b"a", "more": b""}, {"queries": 1}))
    assert first.finished() == second.finished() == {0, 1}
    assert [path.read_bytes() for path in first.paths("trec", 2)] == [b"a", b"b"]
    assert [path.name for path in first.paths("more", 2)] == ["000000000.more"]
    assert first.facts(2) == {"queries": 3, "pairs": 3}


def test_a_block_that_was_not_marked_is_not_finished(tmp_path):
    (tmp_path / "000000000.trec").write_bytes(b"half")
    assert BlockFolder(tmp_path).finished() == set()


def test_blocks_that_were_cut_in_another_way_are_refused(tmp_path):
    context = StageContext("tried", Squares(), tmp_path, {}, {}, Silent())
    QueryBlocks(context, [5, 5, 2], 0).write(0, BlockFiles({"trec": b"a"}, {}))
    assert QueryBlocks(context, [5, 5, 2], 1).finished() == {0}
    with pytest.raises(ArtifactError, match="begun with 3 blocks of 5 at most, and this hardneg cuts 2 of 6"):
        QueryBlocks(context, [6, 6], 0).finished()


def test_contiguous():
    assert list(contiguous([])) == []
    assert list(contiguous([4])) == [range(4, 5)]
    assert list(contiguous([0, 1, 2, 5, 7, 8])) == [range(3), range(5, 6), range(7, 9)]


def test_the_first_row_that_nothing_covers():
    assert first_missing([]) == first_missing([(1, 4)]) == 0
    assert first_missing([(3, 2), (0, 3), (6, 1)]) == 5
    assert first_missing([(0, 5), (1, 2), (5, 1)]) == 6
