"""The client: texts in the server's form, vectors in the texts' order, and what is said of wrong answers."""

from collections.abc import Iterator

import numpy as np
import pytest
from embedding_server import Served, serving, vector
from hardneg_http.client import EmbeddingClient

from hardneg.records import ModelError


@pytest.fixture
def served() -> Iterator[Served]:
    with serving() as server:
        yield server


def client(served: Served, key: str | None = None) -> EmbeddingClient:
    said = {"model": "m", "encoding_format": "float"}
    return EmbeddingClient(served.url, key, said, 60.0, 120.0, 2)


def test_vectors_come_in_the_order_of_the_texts(served):
    served.change = lambda rows: rows[::-1]
    found = client(served).embed(["a", "b", "c"])
    assert found.dtype == np.float32 and found.tolist() == [vector(text).tolist() for text in "abc"]
    assert served.requests == [{"model": "m", "encoding_format": "float", "input": ["a", "b", "c"]}]


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
        (lambda rows: [{**row, "embedding": ["1"]} for row in rows], "is no list of numbers"),
        (lambda rows: [{**row, "embedding": "AAAA"} for row in rows], "is no list of numbers"),
        (lambda rows: [{**row, "embedding": [10**400]} for row in rows], "cannot be read as float32"),
        (lambda rows: None, "no JSON with `data`, a list of objects"),
    ],
)
def test_answers_that_are_wrong(served, change, told):
    served.change = change
    with pytest.raises(ModelError, match="the answer is not as /v1/embeddings has it: ") as caught:
        client(served).embed(["a", "b"])
    assert told in str(caught.value) and len(served.requests) == 1


def test_an_answer_that_is_no_json(served):
    served.fault = lambda number, handler: handler.reply(200, b"<html>") or True
    with pytest.raises(ModelError, match="no JSON with `data`"):
        client(served).embed(["a"])
