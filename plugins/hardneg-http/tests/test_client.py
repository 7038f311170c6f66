"""Requests: what is tried again, what is not, and what is said then."""

import time
from collections.abc import Iterator
from email.utils import formatdate
from typing import Any

import numpy as np
import pytest
from embedding_server import Served, serving, vector
from hardneg_http import client as requests
from hardneg_http.client import EmbeddingClient, Endpoint, _seconds

from hardneg.errors import ModelError


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(requests, "_FIRST_WAIT", 0.01)
    with serving() as server:
        yield server


def client(served: Served, key: str | None = None, timeout: float = 5.0, deadline: float = 5.0) -> EmbeddingClient:
    wanted = {"model": "m", "encoding_format": "float"}
    return EmbeddingClient(Endpoint(served.url, key, wanted, timeout, deadline), 2)


def test_vectors_come_in_the_order_of_the_texts(served: Served) -> None:
    served.change = lambda rows: rows[::-1]
    found = client(served).embed(["a", "b", "c"])
    assert found.dtype == np.float32 and found.tolist() == [vector(text).tolist() for text in "abc"]
    assert served.requests == [{"model": "m", "encoding_format": "float", "input": ["a", "b", "c"]}]


def test_the_key_is_sent_and_never_told(served: Served) -> None:
    client(served, "s3cret").embed(["a"])
    assert served.keys == ["Bearer s3cret"]
    served.fault = lambda number, handler: handler.answer(400, {"error": {"message": "bad s3cret"}}) or True
    with pytest.raises(ModelError) as caught:
        client(served, "s3cret").embed(["a"])
    assert str(caught.value) == f"model 'm' at {served.url}: status 400: bad (the key)"


def test_no_part_of_the_key_is_told(served: Served) -> None:
    for body in (b"x" * 197 + b"s3cret", b" " * 4090 + b"s3cret", b"s3c\0ret", b'{"error": "s3\\u0063ret"}'):
        served.fault = lambda number, handler, body=body: handler.answer(400, body) or True
        with pytest.raises(ModelError) as caught:
            client(served, "s3cret").embed(["a"])
        assert "s3" not in str(caught.value) and "(th" in str(caught.value), body


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_what_passes_is_asked_again(served: Served, status: int) -> None:
    served.fault = lambda number, handler: number < 2 and (handler.answer(status, b"busy") or True)
    assert client(served).embed(["a"])[0].tolist() == vector("a").tolist()
    assert len(served.requests) == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422, 301])
def test_what_does_not_pass_is_not(served: Served, status: int) -> None:
    served.fault = lambda number, handler: handler.answer(status, b"no\nand more", Location="/elsewhere") or True
    advice = "; its key goes into the variable that `key` names" if status in (401, 403) else ""
    with pytest.raises(ModelError, match=f"status {status}: no{advice}$"):
        client(served).embed(["a"])
    assert len(served.requests) == 1


def test_a_lost_connection_and_a_body_that_is_cut_off(served: Served) -> None:
    def fault(number: int, handler: Any) -> bool:
        if number == 1:
            handler.send_response(200)
            handler.send_header("Content-Length", "1000")
            handler.end_headers()
            handler.wfile.write(b'{"data": [')
        handler.close_connection = True
        return number < 2

    served.fault = fault
    assert client(served).embed(["a"])[0].tolist() == vector("a").tolist()
    assert len(served.requests) == 3


def test_the_server_says_when_to_ask_again(served: Served) -> None:
    served.fault = lambda number, handler: number == 0 and (handler.answer(503, b"", Retry_After="1") or True)
    began = time.monotonic()
    client(served).embed(["a"])
    assert 1.0 <= time.monotonic() - began < 3.0
    assert _seconds(None) == _seconds("soon") == _seconds(formatdate(time.time() - 60, usegmt=True)) == 0
    assert _seconds("7") == 7 and 55 < _seconds(formatdate(time.time() + 60, usegmt=True)) <= 60


def test_it_is_given_up_at_the_deadline(served: Served) -> None:
    served.fault = lambda number, handler: handler.answer(503, b"overloaded") or True
    began = time.monotonic()
    with pytest.raises(ModelError, match=r"given up after \d+ attempts in 0\.3 s; the last one: status 503: over"):
        client(served, deadline=0.3).embed(["a"])
    assert time.monotonic() - began < 2 and len(served.requests) > 2


def test_a_server_that_is_slow_or_not_there(served: Served) -> None:
    served.pause = 0.5
    with pytest.raises(ModelError, match=r"given up after .*ReadTimeout"):
        client(served, timeout=0.1, deadline=0.3).embed(["a"])
    gone = EmbeddingClient(Endpoint("http://127.0.0.1:9/v1", None, {"model": "m"}, 1, 0.1), 1)
    with pytest.raises(ModelError, match=r"127\.0\.0\.1:9/v1: given up after .*ConnectError"):
        gone.embed(["a"])
    with pytest.raises(ModelError, match=r"no answer \(ConnectError.*start the server, or give another url"):
        gone.reach()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda rows: rows[:1], "1 vectors for 2 texts"),
        (lambda rows: [rows[0], rows[0]], "`index` are not 0 to 1, each once"),
        (lambda rows: [{**row, "index": None} for row in rows], "`index` are not 0 to 1"),
        (lambda rows: [{**row, "index": row["index"] == 1} for row in rows], "`index` are not 0 to 1"),
        (lambda rows: [rows[0], {**rows[1], "embedding": [1.0]}], "vectors of 1 and 8 numbers in one answer"),
        (lambda rows: [rows[0], {**rows[1], "embedding": [float("nan")] * 8}], "empty, or not finite"),
        (lambda rows: [rows[0], {**rows[1], "embedding": [1e300] * 8}], "empty, or not finite"),
        (lambda rows: [{**row, "embedding": []} for row in rows], "empty, or not finite"),
        (lambda rows: [{**row, "embedding": ["1"]} for row in rows], "neither a list of numbers nor base64"),
        (lambda rows: [{**row, "embedding": "AAA"} for row in rows], "cannot be read as float32"),
        (lambda rows: [{**row, "embedding": "AAAA"} for row in rows], "cannot be read as float32"),
        (lambda rows: None, "`data` is no list of objects"),
    ],
)
def test_answers_that_are_wrong(served: Served, change: Any, told: str) -> None:
    served.change = change
    with pytest.raises(ModelError, match="the answer is not as /v1/embeddings has it: ") as caught:
        client(served).embed(["a", "b"])
    assert told in str(caught.value) and len(served.requests) == 1


def test_answers_that_are_no_json_or_too_long(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    served.fault = lambda number, handler: handler.answer(200, b"<html>") or True
    with pytest.raises(ModelError, match="no JSON with `data`"):
        client(served).embed(["a"])
    monkeypatch.setattr(requests, "_BASE_BYTES", 10)
    monkeypatch.setattr(requests, "_BYTES_A_TEXT", 10)
    served.fault = lambda number, handler: handler.answer(200, b"x" * 21) or True
    with pytest.raises(ModelError, match="an answer of more than 20 bytes"):
        client(served).embed(["a"])
