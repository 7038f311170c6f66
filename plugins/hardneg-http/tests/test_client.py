"""Tests of the client: the form of requests, the order of vectors, and errors for invalid responses."""

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from embedding_server import Served, serving, vector
from hardneg_http.client import EmbeddingClient, VectorCache, text_key

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
        (lambda rows: [rows[0], {**rows[1], "embedding": [1.0]}], "vectors of dimensions 1 and 8 in one response"),
        (lambda rows: [rows[0], {**rows[1], "embedding": [float("nan")] * 8}], "empty or not finite"),
        (lambda rows: [rows[0], {**rows[1], "embedding": [1e300] * 8}], "empty or not finite"),
        (lambda rows: [{**row, "embedding": []} for row in rows], "empty or not finite"),
        (lambda rows: [{**row, "embedding": ["1"]} for row in rows], "is not a list of numbers"),
        (lambda rows: [{**row, "embedding": "AAAA"} for row in rows], "is not a list of numbers"),
        (lambda rows: [{**row, "embedding": [10**400]} for row in rows], "cannot be read as float32"),
        (lambda rows: None, "not JSON with `data`, a list of objects"),
    ],
)
def test_answers_that_are_wrong(served, change, told):
    served.change = change
    with pytest.raises(ModelError, match="invalid response from /v1/embeddings ") as caught:
        client(served).embed(["a", "b"])
    assert told in str(caught.value) and len(served.requests) == 1


def test_an_answer_that_is_no_json(served):
    served.fault = lambda number, handler: handler.reply(200, b"<html>") or True
    with pytest.raises(ModelError, match="not JSON with `data`"):
        client(served).embed(["a"])


ONE = np.arange(4, dtype=np.float32)


def test_what_is_kept_is_found_by_the_next(tmp_path):
    keys = [text_key(text) for text in ("a", "b", "\ud800")]
    assert len(set(keys)) == 3 and all(len(key) == 32 for key in keys)
    cache = VectorCache(tmp_path / "deep" / "v.sqlite", 1 << 20)
    cache.keep({keys[0]: ONE, keys[2]: ONE + 1})
    cache.keep({keys[0]: ONE + 7})
    cache.close()
    again = VectorCache(tmp_path / "deep" / "v.sqlite", 1 << 20)
    found = again.find(keys)
    assert {key: vector.tolist() for key, vector in found.items()} == {keys[0]: [0, 1, 2, 3], keys[2]: [1, 2, 3, 4]}


def test_the_oldest_go_where_it_would_be_too_large(tmp_path):
    path, most = tmp_path / "v.sqlite", 400_000
    cache = VectorCache(path, most)
    keys = [text_key(str(number)) for number in range(1000)]
    for start in range(0, 1000, 50):
        cache.keep({key: np.zeros(256, np.float32) for key in keys[start : start + 50]})
    found = cache.find(keys)
    assert set(keys[-50:]) <= set(found) and keys[0] not in found and 150 < len(found) < 400
    assert path.stat().st_size < 1.3 * most


def test_a_damaged_file_costs_no_results(tmp_path, caplog):
    (tmp_path / "v.sqlite").write_bytes(b"not a database, whatever its name says" * 100)
    cache = VectorCache(tmp_path / "v.sqlite", 1 << 20)
    cache.keep({text_key("a"): ONE})
    assert cache.find([text_key("a")]) == {} and "vectors are not cached" in caplog.text


WRITER = """
import sys, numpy as np
from pathlib import Path
from hardneg_http.client import VectorCache, text_key
cache = VectorCache(Path(sys.argv[1]), 1 << 30)
for number in range(30):
    cache.keep({text_key(f"{sys.argv[2]}-{number}"): np.full(4, number, np.float32)})
sys.stdout.write("written"); sys.stdout.flush()
if sys.argv[2] == "0":
    import os, signal
    cache._file.execute("INSERT INTO vectors (text, vector) VALUES (x'00', x'00')")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_several_processes_write_and_one_is_killed(tmp_path):
    path = tmp_path / "v.sqlite"
    command = [sys.executable, "-c", WRITER, str(path)]
    writers = [subprocess.Popen([*command, name], stdout=subprocess.PIPE) for name in "012"]
    assert [writer.communicate()[0] for writer in writers] == [b"written"] * 3
    assert [writer.returncode for writer in writers] == [-9, 0, 0]
    keys = [text_key(f"{name}-{number}") for name in "012" for number in range(30)]
    found = VectorCache(path, 1 << 30).find([*keys, b"\0"])
    assert len(found) == 90 and found[keys[-1]].tolist() == [29, 29, 29, 29]
