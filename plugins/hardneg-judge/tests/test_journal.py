"""Answers on disk: found again, whole or not at all, by several writers."""

from pathlib import Path
from threading import Thread

import pytest
from hardneg_judge.journal import Answer, AnswerJournal, request_key

from hardneg.records import ArtifactError


def filled(path: Path, count: int) -> AnswerJournal:
    kept = AnswerJournal(path)
    for number in range(count):
        kept.keep(request_key(f"message {number}"), Answer(f"answer\n{number} é", number, -1))
    return kept


def test_what_is_kept_is_found_now_and_later(tmp_path: Path) -> None:
    kept = filled(tmp_path / "a" / "j", 5)
    for opened in (kept, AnswerJournal(tmp_path / "a" / "j")):
        assert len(opened) == 5
        assert opened.find(request_key("message 3")) == Answer("answer\n3 é", 3, -1)
        assert opened.find(request_key("message 7")) is None


def test_a_line_that_was_cut_off_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "j"
    filled(path, 4).close()
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    again = AnswerJournal(path)
    assert [again.find(request_key(f"message {n}")) is not None for n in range(4)] == [True, True, True, False]
    again.keep(request_key("message 3"), Answer("anew"))
    assert AnswerJournal(path).find(request_key("message 3")) == Answer("anew")
    path.write_bytes(whole.replace(b"answer", b"swerve", 1))  # a line that has changed is no answer
    assert AnswerJournal(path).find(request_key("message 0")) is None


def test_a_long_answer(tmp_path: Path) -> None:
    kept = filled(tmp_path / "j", 7)
    kept.keep(request_key("long"), Answer("x" * 100_000, 1, 2))
    assert kept.find(request_key("long")) == Answer("x" * 100_000, 1, 2)
    assert all(kept.find(request_key(f"message {n}")) for n in range(7)) and len(kept) == 8


def test_two_writers_share_a_file(tmp_path: Path) -> None:
    one, two = AnswerJournal(tmp_path / "j"), AnswerJournal(tmp_path / "j")

    def write(kept: AnswerJournal, name: str) -> None:
        for number in range(200):
            kept.keep(request_key(f"{name} {number}"), Answer(f"{name} {number}"))

    threads = [Thread(target=write, args=(kept, name)) for kept, name in ((one, "a"), (two, "b"), (two, "c"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = AnswerJournal(tmp_path / "j")
    assert len(found) == 600 and two.find(request_key("b 17")) == Answer("b 17")
    assert all(found.find(request_key(f"{name} {n}")) == Answer(f"{name} {n}") for name in "abc" for n in range(200))


def test_a_place_that_cannot_be_had(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"answers cannot be kept \(Is a directory\): make room, or free the path"):
        AnswerJournal(tmp_path)
