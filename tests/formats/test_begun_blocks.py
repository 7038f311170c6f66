"""What is made of unfinished blocks is kept about twice a minute, by a clock that the tests set."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from encoded_forms import Numbers, Several
from waiting import Clock

from hardneg.formats.vectors import begun_blocks
from hardneg.formats.vectors.begun_blocks import SECONDS, BegunBlock, drop

BATCHES = [np.array([4, 1]), np.array([0, 2]), np.array([3])]
VECTORS = np.arange(10, dtype=np.float32).reshape(5, 2)
OFFSETS, TERMS = np.array([0, 2, 2, 3, 5, 6]), np.array([1, 2, 0, 0, 3, 1], np.int32)
FORMS: dict[str, Any] = {
    "scores": VECTORS[:, 0],
    "vectors": VECTORS,
    "weights": Numbers(OFFSETS, TERMS, np.arange(6, dtype=np.float32), 4),
    "tokens": Several(np.array([0, 1, 1, 3, 4, 5]), VECTORS),
}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(begun_blocks, "clock", clock)
    return clock


def same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return one.tobytes() == other.tobytes() and one.dtype == other.dtype
    names = [name for name in ("offsets", "first", "second", "several") if hasattr(one, name)]
    return all(same(getattr(one, name), getattr(other, name)) for name in names)


@pytest.mark.parametrize("form", FORMS)
def test_what_was_made_half_a_minute_ago_is_there_after_a_stop(tmp_path, clock, form):
    whole = FORMS[form]
    block = BegunBlock(tmp_path / "begun", "0", 5)
    assert len(block.left(BATCHES)) == 3 and not block.due
    block.add(BATCHES[0], whole[BATCHES[0]])
    clock.now += SECONDS - 1
    block.add(BATCHES[1], whole[BATCHES[1]])
    assert not (tmp_path / "begun").exists() and not block.due
    clock.now += 1
    assert block.due
    block.add(BATCHES[2][:0], whole[BATCHES[2][:0]])
    assert not block.due

    again = BegunBlock(tmp_path / "begun", "0", 5)
    (left,) = again.left(BATCHES)
    assert left.tolist() == [3]
    again.add(left, whole[left])
    assert same(again.whole(), whole)
    drop(tmp_path / "begun", "0")
    assert list((tmp_path / "begun").iterdir()) == []


def kept(folder: Path, clock: Clock, *batches: np.ndarray) -> None:
    block = BegunBlock(folder, "0", 5)
    for places in batches:
        clock.now += SECONDS
        block.add(places, VECTORS[places])


def test_batches_that_are_cut_in_another_way_are_computed_as_a_whole(tmp_path, clock):
    kept(tmp_path, clock, *BATCHES[:2])
    block = BegunBlock(tmp_path, "0", 5)
    others = [np.array([0, 1]), np.array([2, 3]), np.array([4])]
    assert [left.tolist() for left in block.left(others)] == [[2, 3]]
    block.add(others[1], VECTORS[others[1]])
    assert same(block.whole(), VECTORS)


def test_what_two_processes_made_counts_once(tmp_path, clock):
    kept(tmp_path, clock, BATCHES[0])
    kept(tmp_path, clock, BATCHES[0], BATCHES[1])
    block = BegunBlock(tmp_path, "0", 5)
    assert [left.tolist() for left in block.left(BATCHES)] == [[3]]
    block.add(BATCHES[2], VECTORS[BATCHES[2]])
    assert same(block.whole(), VECTORS)


def test_blocks_of_another_name_or_size_and_damaged_files_are_left_alone(tmp_path, clock, caplog):
    kept(tmp_path, clock, BATCHES[0])
    assert len(BegunBlock(tmp_path, "0", 6).left([np.arange(6)])) == 1
    assert len(BegunBlock(tmp_path, "00", 5).left(BATCHES)) == 3
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-40])
    assert len(BegunBlock(tmp_path, "0", 5).left(BATCHES)) == 3
    assert "cannot be read" in caplog.text
