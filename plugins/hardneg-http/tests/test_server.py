"""Tests of requests to a server: which are retried, and error messages, which never contain the key."""

import logging
import time
from collections.abc import Iterator
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from hardneg_http import server
from hardneg_http.server import ModelServer, _seconds, key_of
from hardneg_http.testing import ServedModel, serving

from hardneg.records import ModelError

NOBODY = "http://127.0.0.1:9/v1"


class Echo(ServedModel):
    path = "/v1/echo"

    def answer(self, request: dict[str, Any]) -> Any:
        return request["said"]


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Echo]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(server, "_FIRST_WAIT", 0.001)
    with serving(Echo()) as echo:
        yield echo


def asked(url: str, key: str | None = None, timeout: float = 60.0, deadline: float = 120.0) -> ModelServer:
    return ModelServer(url, key, {"model": "m"}, timeout, deadline, 2)


def post(served: Echo, key: str | None = None, **times: float) -> bytes:
    return asked(served.url, key, **times).post("/echo", {"said": "hello"}, 1)


def test_what_is_sent_and_what_comes(served: Echo) -> None:
    assert post(served, "s3cret") == b'"hello"'
    assert served.requests == [{"model": "m", "said": "hello"}] and served.keys == ["Bearer s3cret"]
    asked(served.url).reach()
    assert len(served.requests) == 1


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 529])
def test_what_passes_is_asked_again(served: Echo, status: int) -> None:
    served.fault = lambda number, handler: number < 2 and (handler.reply(status, b"busy") or True)
    assert post(served) == b'"hello"' and len(served.requests) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422, 301])
def test_what_does_not_pass_is_not(served: Echo, status: int) -> None:
    body = {"error": {"message": "no, not with s3cret\nand more"}}
    served.fault = lambda number, handler: handler.reply(status, body, Location="/elsewhere") or True
    with pytest.raises(ModelError) as caught:
        post(served, "s3cret")
    advice = "; the server rejects this API key; check the environment variable named by `key`"
    told = f"model 'm' at {served.url}: status {status}: no, not with (the key)"
    assert str(caught.value) == told + (advice if status in (401, 403) else "")
    assert len(served.requests) == 1


@pytest.mark.parametrize(
    "body", [b"x" * 197 + b"s3cret", b" " * 4090 + b"s3cret", b"s3c\0ret", b'{"error": "s3\\u0063ret"}']
)
def test_no_part_of_the_key_is_told(served: Echo, body: bytes, caplog: pytest.LogCaptureFixture) -> None:
    served.fault = lambda number, handler: handler.reply(400 if number else 503, body) or True
    with pytest.raises(ModelError) as caught, caplog.at_level(logging.INFO):
        post(served, "s3cret")
    logged = [record.getMessage() for record in caplog.records if record.name == "hardneg_http.server"]
    for told in (str(caught.value), *logged):
        assert "s3" not in told and "(th" in told
    assert len(logged) == 1


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (b'{"error": "one\\ntwo"}', "one"),
        (b'{"message": "one"}', "one"),
        (b'{"detail": "one"}', "one"),
        (b'{"error": {"code": 7}}', "{'code': 7}"),
        (b"[1]", "[1]"),
        (b"<html>\x1b[2J", "<html>[2J"),
    ],
)
def test_the_first_line_of_a_refusal(served: Echo, body: bytes, line: str) -> None:
    served.fault = lambda number, handler: handler.reply(400, body) or True
    with pytest.raises(ModelError) as caught:
        post(served)
    assert str(caught.value).endswith(f": status 400: {line}")


def test_a_lost_connection_and_a_body_that_is_cut_off(served: Echo) -> None:
    def fault(number: int, handler: Any) -> bool:
        if number == 1:
            handler.send_response(200)
            handler.send_header("Content-Length", "1000")
            handler.end_headers()
            handler.wfile.write(b'"hel')
        handler.close_connection = True
        return number < 2

    served.fault = fault
    assert post(served) == b'"hello"' and len(served.requests) == 3


def test_the_server_says_when_to_ask_again(served: Echo) -> None:
    served.fault = lambda number, handler: number == 0 and (handler.reply(429, b"", Retry_After="0.4") or True)
    began = time.monotonic()
    post(served)
    assert time.monotonic() - began >= 0.4
    assert _seconds(None) == _seconds("soon") == _seconds("-1") == 0
    assert _seconds("7") == 7 and _seconds("0.5") == 0.5


def test_it_is_given_up_at_the_deadline(served: Echo, monkeypatch: pytest.MonkeyPatch) -> None:
    served.fault = lambda number, handler: handler.reply(503, b"overloaded") or True
    moments = iter(range(1000))  # a second passes between two looks at the clock
    monkeypatch.setattr(server, "time", SimpleNamespace(monotonic=lambda: float(next(moments))))
    with pytest.raises(ModelError, match=r"gave up after 3 attempts in 9 s; last error: status 503: overloaded$"):
        post(served, deadline=9)
    assert len(served.requests) == 3


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(ModelError, match=r"127\.0\.0\.1:9/v1: gave up after .*ConnectError"):
        asked(NOBODY, deadline=0.1).post("/echo", {}, 1)
    with pytest.raises(ModelError, match=r"no response \(ConnectError.*start the server, or set another url"):
        asked(NOBODY).reach()


def test_an_answer_that_is_too_long(served: Echo) -> None:
    served.fault = lambda number, handler: handler.reply(200, b"x" * ((1 << 20) + 1)) or True
    with pytest.raises(ModelError, match="the response has more than 1 MiB"):
        post(served)


def test_nothing_is_asked_once_it_is_ended(served: Echo) -> None:
    ended = Event()
    ended.set()
    with pytest.raises(ModelError, match="another request failed"):
        asked(served.url).post("/echo", {}, 1, ended)
    assert served.requests == []


def test_the_key_of_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    assert key_of("m", None) is None
    monkeypatch.setenv("A_KEY", " s3cret\n")
    assert key_of("m", "A_KEY") == "s3cret"
    for key, told in (("s3cret\nX: y", "has characters that are not allowed"), ("s3crét", "has characters")):
        monkeypatch.setenv("A_KEY", key)
        with pytest.raises(ModelError, match=f"model 'm': the environment variable A_KEY {told}"):
            key_of("m", "A_KEY")
    monkeypatch.setenv("A_KEY", "")
    with pytest.raises(ModelError, match="model 'm': no API key; set the environment variable A_KEY"):
        key_of("m", "A_KEY")


@pytest.mark.parametrize(
    ("begun", "again", "told"),
    [
        (b"", b"", "ReadTimeout"),
        (b'HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n"he', b"", "ReadTimeout"),
        (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n", "the response did not start"),
        (b"", b"HTTP/1.1 102 Processing\r\n\r\n", "the response did not start"),
    ],
)
def test_the_deadline_bounds_a_server_that_falls_silent_or_drips(served: Echo, begun: bytes, again: bytes, told: str):
    given_up = Event()

    def slow(number: int, handler: Any) -> bool:
        handler.wfile.write(begun)
        while not given_up.wait(0.05):
            handler.wfile.write(again)
            handler.wfile.flush()
        handler.close_connection = True
        return True

    served.fault, began = slow, time.monotonic()
    with pytest.raises(ModelError, match=rf"gave up after 1 attempt in 0.5 s; last error: {told}"):
        post(served, deadline=0.5)
    given_up.set()
    assert time.monotonic() - began < 5
