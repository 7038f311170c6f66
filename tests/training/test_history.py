"""The learning curve's file: each record whole, whatever a full disk or a kill left."""

import json
import subprocess
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

from hardneg.training.checkpoint import History

FIRST, SECOND, THIRD = ({"step": step, "text": "x" * 20} for step in (1, 2, 3))


def test_records_come_back(tmp_path: Path) -> None:
    history = History(tmp_path / "history.jsonl")
    assert history.read() == []
    for record in (FIRST, SECOND):
        history.add(record)
    assert history.read() == [FIRST, SECOND]
    history.truncate(1)
    assert history.read() == [FIRST]


class HalfFull(FileIO):
    """Takes the first ten bytes, then there is no room."""

    def write(self, data: Any) -> int:
        if len(data) > 30:
            return super().write(bytes(data)[:10])
        raise OSError(28, "No space left on device")


def test_what_a_full_disk_cuts_off_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "made.jsonl"
    history = History(path)
    history.add(FIRST)
    whole = path.read_bytes()
    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(Path, "open", lambda self, mode="r", **_: HalfFull(self, mode.replace("b", "")))
        history.add(SECOND)
    assert path.read_bytes() == whole
    history.add(SECOND)
    assert history.read() == [FIRST, SECOND]


def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    """One page of room: the record that crosses its end is cut off there."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(disk)], check=False).returncode:
        pytest.skip("no file system can be mounted here: that takes root")
    try:
        history, added = History(disk / "made.jsonl"), 0
        with pytest.raises(OSError, match="No space left"):
            while True:
                history.add(FIRST)
                added += 1
        assert history.read() == [FIRST] * added and (disk / "made.jsonl").read_bytes().endswith(b"}\n")
        subprocess.run(["mount", "-o", "remount,size=16k", str(disk)], check=True)
        history.add(SECOND)
        assert history.read() == [FIRST] * added + [SECOND]
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("left", ['{"step": 2, "te', '{"step": 2}'])
def test_what_a_kill_cuts_off_is_removed_by_the_next_record(tmp_path: Path, left: str) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(json.dumps(FIRST) + "\n" + left)
    assert History(path).read() == [FIRST]
    History(path).add(THIRD)
    assert [json.loads(line) for line in path.read_text().splitlines()] == [FIRST, THIRD]


def test_a_line_of_two_torn_records_is_told_and_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "made.jsonl"
    path.write_text(f'{json.dumps(FIRST)}\n{{"step": 2, "te{json.dumps(SECOND)}\n{json.dumps(THIRD)}\n')
    assert History(path).read() == [FIRST, THIRD]
    assert "made.jsonl:2: not a whole record; left out" in caplog.text
