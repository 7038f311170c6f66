"""Progress as lines: what is done, how fast, what is left; on a stream that is no terminal, and seldom enough."""

import io

from rich.console import Console

from hardneg.cli.console import Bars
from hardneg.runtime import Lines


class Clock:
    """A clock that stands still but for what a test adds."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_lines_tell_count_rate_and_time_left_at_most_every_ten_seconds():
    clock, told = Clock(), list[str]()
    with Lines(told.append, clock=clock).task("encode corpus", 5_183, "passages", done=183) as task:
        for _ in range(25):  # 20 passages a second, for 25 seconds
            clock.now += 1
            task.advance(20)
    assert told == [
        "encode corpus: 383 of 5,183 passages, 20.0 passages/s, 4 min left",
        "encode corpus: 583 of 5,183 passages, 20.0 passages/s, 4 min left",
    ]


def test_without_a_total_nothing_is_said_to_be_left_and_a_note_stands_behind():
    clock, told = Clock(), list[str]()
    with Lines(told.append, clock=clock).task("corpus", None, "passages") as task:
        clock.now += 90  # a model is loaded, which is no part of the rate
        task.describe("loss 0.5")
        task.advance(3)
        clock.now += 20
        task.advance(3)
    assert told == ["corpus: 3 passages, loss 0.5", "corpus: 6 passages, 0.15 passages/s, loss 0.5"]


def test_short_tasks_one_after_the_other_are_told_as_seldom_and_without_a_rate():
    clock, told = Clock(), list[str]()
    lines = Lines(told.append, clock=clock)
    for _ in range(6):
        with lines.task("search", 8, "queries") as task:
            clock.now += 4
            task.advance(8)
    assert told == ["search: 8 of 8 queries"] * 2  # after 12 and 24 seconds


def test_a_file_gets_lines_and_a_terminal_bars(monkeypatch):
    monkeypatch.setattr("hardneg.runtime.progress.EVERY", 0.0)
    for terminal in (False, True):
        out = io.StringIO()
        monkeypatch.setattr(Bars, "_console", Console(file=out, force_terminal=terminal, width=200))
        with Bars().task("encode", 2, "passages") as task:
            task.advance()
        told = out.getvalue()
        assert "encode" in told and ("━" in told) is terminal
        assert ("    encode: 1 of 2 passages" in told) is not terminal
