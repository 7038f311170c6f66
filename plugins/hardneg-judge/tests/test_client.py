"""The client: requests in the server's format, and how answers are read."""

from pathlib import Path
from threading import Thread

import pytest
from chat_server import Served
from hardneg_judge.server import Answer, AnswerJournal, ChatServer, ChatSession, request_key

from hardneg.records import ArtifactError, ModelError


@pytest.fixture
def client(served: Served, monkeypatch: pytest.MonkeyPatch) -> ChatSession:
    monkeypatch.setenv("A_KEY", "s3cret")
    return ChatSession(ChatServer("m", served.url, "A_KEY", tokens=4, temperature=None), 1)


def test_what_is_sent_and_what_comes(served, client):
    served.says = lambda message: f"you said {message}"
    assert client.ask("hello") == Answer("you said hello", 100, 2)
    assert served.requests == [
        {"model": "m", "max_tokens": 4, "messages": [{"role": "user", "content": "hello"}]}
    ] and served.keys == ["Bearer s3cret"]


@pytest.mark.parametrize(
    ("usage", "said", "answer"),
    [
        (None, "yes", Answer("yes")),
        ({"prompt_tokens": 3}, "yes", Answer("yes", 3, -1)),
        ({"prompt_tokens": True, "completion_tokens": -4}, "yes", Answer("yes")),
        ({"prompt_tokens": 1, "completion_tokens": 0}, None, Answer("", 1, 0)),
        ({"prompt_tokens": 10**4000, "completion_tokens": 2}, "a \ud83d b", Answer("a  b", -1, 2)),
    ],
)
def test_answers_that_lack_something(served, client, usage, said, answer):
    served.usage, served.says = usage, lambda message: said
    assert client.ask("hello") == answer


def test_a_key_is_not_told_as_an_answer(served, client):
    served.says = lambda message: "yes, s3cret"
    assert client.ask("a").text == "yes, (the key)"


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b'{"choices": []}', b'{"choices": [{}]}', b"null"])
def test_another_form_is_told(served, client, body):
    served.fault = lambda number, handler: handler.reply(200, body) or True
    with pytest.raises(ModelError, match=r"the answer is not JSON with `choices"):
        client.ask("a")


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
    with pytest.raises(
        ArtifactError, match=r"answers cannot be stored \(Is a directory\); free disk space, or allow writing"
    ):
        AnswerJournal(tmp_path)
