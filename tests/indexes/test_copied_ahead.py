"""Blocks that are read and copied ahead: here to a CPU, or with a GPU's streams and events played."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hardneg.formats.vectors import FlatVectors
from hardneg.indexes import exact
from hardneg.indexes.exact import Blocks, copied_ahead, device_blocks
from hardneg.records import ArtifactError
from hardneg.testing.indexes import write_encoded

CPU = torch.device("cpu")
ROWS = np.arange(28, dtype=np.float32).reshape(7, 4)


def flat(folder: Path, rows: np.ndarray) -> FlatVectors:
    write_encoded(folder, rows)
    return FlatVectors.open(folder)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 9])
def test_all_rows_come_in_blocks(tmp_path: Path, size: int) -> None:
    stored = flat(tmp_path / "flat", ROWS)
    with torch.inference_mode():
        for vectors in (ROWS, ROWS[::-1][::-1], stored, stored.part(range(2, 7))):
            expected = ROWS[2:] if vectors is not ROWS and len(vectors) == 5 else ROWS
            found = [(start, block.clone()) for start, block in copied_ahead(vectors, size, CPU)]
            assert [start for start, _ in found] == list(range(0, len(expected), size))
            assert torch.equal(torch.cat([block for _, block in found]), torch.from_numpy(expected))
    assert list(copied_ahead(ROWS[:0], size, CPU)) == []


def test_the_next_block_is_read_while_one_is_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    stored, reading = flat(tmp_path / "flat", ROWS), FlatVectors.read
    monkeypatch.setattr(
        FlatVectors, "read", lambda of, start, *others: read.append(start) or reading(of, start, *others)
    )
    blocks = copied_ahead(stored, 3, CPU)
    assert next(blocks)[0] == 0
    assert next(blocks)[1].tolist() == ROWS[3:6].tolist()
    assert next(blocks)[1].tolist() == ROWS[6:].tolist() and read == [0, 3, 6]
    early = copied_ahead(stored, 3, CPU)
    next(early)
    early.close()  # waits for the thread: nothing is copied into memory that others have by then
    assert read[3:] in ([0], [0, 3])


def test_numbers_that_are_not_finite_are_told_by_their_row(tmp_path: Path) -> None:
    stored = flat(tmp_path / "flat", ROWS)
    with (tmp_path / "flat" / "index").open("r+b") as file:
        file.seek(-8, 2)
        file.write(np.array([np.nan], "<f4").tobytes())
    for vectors in (stored, stored.part(range(4, 7))):
        with pytest.raises(ArtifactError, match="the vector in row 6 is not finite"):
            list(copied_ahead(vectors, 3, CPU))
    huge = np.full((2, 4), 3e38, np.float32)  # finite, though their sum is not
    assert [block.tolist() for _, block in copied_ahead(huge, 2, CPU)] == [huge.tolist()]


def test_a_room_is_written_anew_behind_what_was_multiplied_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events are numbered as they are recorded on the main stream; a copy waits for one before it is made."""
    done: list[str] = []

    class Event:
        def record(self, stream: str) -> None:
            self.number = sum(line.startswith("event") for line in done)
            done.append(f"event {self.number} on {stream}")

    class Stream:
        def __init__(self, device: torch.device) -> None:
            pass

        def wait_event(self, event: Event) -> None:
            done.append(f"wait {event.number}")

    @contextmanager
    def on(stream: Stream) -> Iterator[None]:
        assert isinstance(stream, Stream)
        done.append("side")
        yield

    empty, pinned, there = torch.empty, list[bool](), list[torch.device]()

    def room(shape: tuple[int, int], pin_memory: bool = False, device: Any = None) -> torch.Tensor:
        (there if device else pinned).append(device or pin_memory)
        return empty(shape)

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", on)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: "main")
    monkeypatch.setattr(torch, "empty", room)
    for start, _ in copied_ahead(ROWS, 3, torch.device("cuda")):
        done.append(f"multiply {start}")
    assert pinned == [True, True] and there == [torch.device("cuda")] * 2
    assert done.index("multiply 0") < done.index("event 2 on main") < done.index("wait 2")  # the first room again
    assert [line for line in done if line.startswith("wait")] == ["wait 0", "wait 1", "wait 2"]


def test_gpus_alone_have_blocks_copied_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(exact, "copied_ahead", lambda *given: asked.append(given[1:]) or [])
    for name in ("cpu", "cuda"):
        list(device_blocks(ROWS, Blocks(3, 1, torch.device(name))))
    assert asked == [(3, torch.device("cuda"))]
