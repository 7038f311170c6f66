"""Requests: what is tried again, what is not, and what is said then."""

import time
from email.utils import formatdate
from threading import Event
from typing import Any

import pytest
from chat_server import Served
from hardneg_judge.client import ChatClient, Endpoint, _seconds
from hardneg_judge.journal import Answer

from hardneg.errors import ModelError


def client(served: Served, key: str | None = None, timeout: float = 5.0, deadline: float = 5.0) -> ChatClient:
    return ChatClient(Endpoint(served.url, key, {"model": "m", "max_tokens": 4}, timeout, deadline, 2))


def test_what_is_sent_and_what_comes(served: Served) -> None:
    served.answer = lambda message: f"you said {message}"
    assert client(served, "s3cret").ask("hello") == Answer("you said hello", 100, 2)
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
    ],
)
def test_answers_that_lack_something(served: Served, usage: Any, said: str | None, answer: Answer) -> None:
    served.usage, served.answer = usage, lambda message: said
    assert client(served).ask("hello") == answer


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 529])
def test_what_passes_is_asked_again(served: Served, status: int) -> None:
    served.fault = lambda number, handler: number < 2 and (handler.reply(status, b"busy") or True)
    assert client(served).ask("a").text == "no"
    assert len(served.requests) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 301])
def test_what_does_not_pass_is_not(served: Served, status: int) -> None:
    body = {"error": {"message": "no, not with s3cret\nand more"}}
    served.fault = lambda number, handler: handler.reply(status, body, Location="/elsewhere") or True
    with pytest.raises(ModelError) as caught:
        client(served, "s3cret").ask("a")
    advice = "; the server takes no request with this key: set the variable that `key` names"
    told = f"model 'm' at {served.url}: status {status}: no, not with (the key)"
    assert str(caught.value) == told + (advice if status in (401, 403) else "")
    assert len(served.requests) == 1


def test_a_key_is_told_neither_in_part_nor_as_an_answer(served: Served) -> None:
    served.answer = lambda message: "yes, s3cret"
    assert client(served, "s3cret").ask("a").text == "yes, (the key)"
    for body in (b"x" * 197 + b"s3cret", b" " * 4090 + b"s3cret", b"s3c\0ret", b'{"error": "s3\\u0063ret"}'):
        served.fault = lambda number, handler, body=body: handler.reply(400, body) or True
        with pytest.raises(ModelError) as caught:
            client(served, "s3cret").ask("b")
        assert "s3" not in str(caught.value) and "(th" in str(caught.value), body


def test_a_lost_connection_and_a_body_that_is_cut_off(served: Served) -> None:
    def fault(number: int, handler: Any) -> bool:
        if number == 1:
            handler.send_response(200)
            handler.send_header("Content-Length", "1000")
            handler.end_headers()
            handler.wfile.write(b'{"choices": [')
        handler.close_connection = True
        return number < 2

    served.fault = fault
    assert client(served).ask("a").text == "no" and len(served.requests) == 3


def test_the_server_says_when_to_ask_again(served: Served) -> None:
    served.fault = lambda number, handler: number == 0 and (handler.reply(429, b"", Retry_After="0.4") or True)
    began = time.monotonic()
    client(served).ask("a")
    assert 0.4 <= time.monotonic() - began < 3.0
    assert _seconds(None) == _seconds("soon") == _seconds(formatdate(time.time() - 60, usegmt=True)) == 0
    assert _seconds("7") == 7 and 55 < _seconds(formatdate(time.time() + 60, usegmt=True)) <= 60


def test_it_is_given_up_at_the_deadline(served: Served) -> None:
    served.fault = lambda number, handler: handler.reply(503, b"overloaded") or True
    with pytest.raises(ModelError, match=r"given up after \d+ attempts in 2 s; the last one: status 503: over"):
        client(served, deadline=2).ask("a")
    assert len(served.requests) > 2


def test_a_server_that_is_slow_or_not_there(served: Served) -> None:
    served.pause = 0.3
    with pytest.raises(ModelError, match=r"given up after .*ReadTimeout"):
        client(served, timeout=0.05, deadline=0.15).ask("a")
    with pytest.raises(ModelError, match=r"127\.0\.0\.1:9/v1: given up after .*ConnectError"):
        ChatClient(Endpoint("http://127.0.0.1:9/v1", None, {"model": "m"}, 1, 0.1, 1)).ask("a")


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b'{"choices": []}', b'{"choices": [{}]}', b"null"])
def test_another_form_is_told(served: Served, body: bytes) -> None:
    served.fault = lambda number, handler: handler.reply(200, body) or True
    with pytest.raises(ModelError, match=r"the answer is not as /v1/chat/completions has it: no JSON with `choices"):
        client(served).ask("a")


def test_nothing_is_asked_once_it_is_ended(served: Served) -> None:
    ended = Event()
    ended.set()
    with pytest.raises(ModelError, match="another request has failed"):
        client(served).ask("a", ended)
    assert served.requests == []
