"""Tests of the family and its encoder: the server's vectors, each requested once, with few concurrent requests."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from embedding_server import Served, serving, vector
from hardneg_http import server as model_server
from hardneg_http.encoder import HttpEncoder
from hardneg_http.family import Http

from hardneg.encoders.open.resolved import load_encoder, load_learner, resolve
from hardneg.encoders.spec import ModelSpec
from hardneg.formats.segments import Segments
from hardneg.records import ModelError, PluginError, PluginSetting
from hardneg.registry import configure, load_plugin
from hardneg.runtime import Silent, World
from hardneg.testing import EncoderTests

PROBE = "The quick brown fox jumps over the lazy dog."


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(model_server, "_FIRST_WAIT", 0.01)
    with serving() as server:
        yield server


def spec(served: Served, options: dict[str, Any] | None = None, **fields: Any) -> ModelSpec:
    return ModelSpec("m", encoder=PluginSetting("http", {"url": served.url, **(options or {})}), **fields)


def opened(served: Served, options: dict[str, Any] | None = None, **fields: Any) -> HttpEncoder:
    found = load_encoder(spec(served, options, **fields), precision="fp32")
    assert isinstance(found, HttpEncoder)
    return found


class TestHttp(EncoderTests):
    @pytest.fixture(autouse=True)
    def _served(self, served: Served) -> None:
        self.served = served

    def make(self, folder: Path) -> Http:
        return Http(self.served.url)

    def model(self, folder: Path) -> ModelSpec:
        return ModelSpec("m")

    def others(self, folder: Path) -> list[Http]:
        return [Http(self.served.url, dimensions=4), Http(self.served.url, characters=3)]


def normal(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def test_vectors_are_the_servers_behind_prompts(served: Served) -> None:
    prompts = {"query_prompt": "Task: {task}\nQuery: ", "document_prompt": "passage: ", "task": "find"}
    encoder = opened(served, **prompts)
    texts = ["b", "a long text", "", "b"]
    for kind, prompt in (("query", "Task: find\nQuery: "), ("document", "passage: ")):
        found = encoder.encode(texts, kind)
        assert found.dtype == np.float32 and encoder.dimension == 8
        np.testing.assert_allclose(found, normal(np.stack([vector(prompt + text) for text in texts])), atol=1e-6)
    plain = opened(served, similarity="dot")
    assert plain.encode(texts, "query").tolist() == [vector(text or " ").tolist() for text in texts]
    assert plain.encode([], "query").shape == (0, 8)


def test_each_text_is_asked_for_once_in_bounded_requests(served: Served) -> None:
    served.pause = 0.02
    texts = [f"text {number % 40}" + "x" * (number % 40) for number in range(80)]
    options = {"batch": 5, "batch_characters": 150, "in_flight": 3, "cache": 0}
    encoder = opened(served, options)
    served.together = 3
    np.testing.assert_allclose(
        encoder.encode(texts, "document"), normal(np.stack([vector(text) for text in texts])), atol=1e-6
    )
    sent = served.requests[1:]
    assert sorted(served.texts[1:]) == sorted(set(texts))
    assert max(len(request["input"]) for request in sent) == 5
    assert max(sum(map(len, request["input"])) for request in sent) <= 150
    assert served.most_under_way == 3


def test_kept_vectors_are_not_asked_for_again(served: Served, tmp_path: Path) -> None:
    encoder = opened(served)
    before = encoder.encode(["a", "b"], "query")
    assert len(served.requests) == 2
    again = opened(served, document_prompt="p: ", similarity="cosine")
    assert again.encode(["b", "a", "c"], "query")[[1, 0]].tolist() == before.tolist()
    assert served.texts == [PROBE, "a", "b", PROBE, "c"]
    opened(served, {"dimensions": 4}).encode(["a"], "query")
    opened(served, revision="new").encode(["a"], "query")
    assert served.texts[5:] == [PROBE, "a", PROBE, "a"]
    assert len(list((tmp_path / "cache" / "hardneg" / "vectors").glob("*.sqlite"))) == 3


def test_what_was_encoded_before_a_fault_is_kept(served: Served) -> None:
    encoder = opened(served, {"batch": 1, "in_flight": 1})
    served.fault = lambda number, handler: number == 4 and (handler.reply(400, b"no") or True)
    with pytest.raises(ModelError, match="status 400: no"):
        encoder.encode(["dddd", "ccc", "bb", "a", "more"], "query")
    done = served.texts[1:4]
    opened(served, {"batch": 1}).encode(["dddd", "ccc", "bb", "a", "more"], "query")
    assert not set(done) & set(served.texts[6:])


def test_a_failure_ends_the_other_requests_soon(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_server, "_FIRST_WAIT", 1.0)  # so that few are tried until the failure is seen
    served.fault = lambda number, handler: number > 0 and (handler.reply(400 if number == 2 else 503, b"no") or True)
    encoder = opened(served, {"batch": 1, "in_flight": 2, "deadline": 60.0})
    with pytest.raises(ModelError, match="status 400"):
        encoder.encode([f"text {number}" for number in range(20)], "query")
    assert len(served.requests) < 15


def test_weights_that_have_changed_are_told(served: Served) -> None:
    opened(served)
    served.salt = "other weights"
    with pytest.raises(ModelError, match=r"so its weights have changed; set another model\.revision"):
        opened(served)
    opened(served, revision="2")


def test_options_that_shorten(served: Served) -> None:
    whole = {"similarity": "dot", "truncate_dim": 3}
    assert opened(served, **whole).encode(["a"], "query").tolist() == [vector("a")[:3].tolist()]
    cut = opened(served, truncate_dim=3).encode(["a"], "query")
    np.testing.assert_allclose(cut[0], normal(vector("a")[:3]), atol=1e-6)
    asked = opened(served, {"dimensions": 5, "characters": 2}, similarity="dot")
    assert asked.dimension == 5
    assert asked.encode(["abc"], "query").tolist() == [vector("ab")[:5].tolist()]
    assert served.requests[-1]["dimensions"] == 5


def test_the_digest_is_of_what_changes_vectors(served: Served) -> None:
    plain = resolve(spec(served)).digest
    free = {"url": "http://elsewhere/v1", "batch": 2, "in_flight": 9, "cache": 0, "key": "KEY"}
    assert resolve(spec(served, free)).digest == plain == resolve(spec(served, similarity="cosine")).digest
    others = [spec(served, {"dimensions": 4}), spec(served, {"characters": 4}), spec(served, revision="2")]
    others += [spec(served, query_prompt="q"), spec(served, similarity="dot"), spec(served, truncate_dim=2)]
    assert len({plain, *(resolve(other).digest for other in others)}) == 7
    assert served.requests == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"url": "localhost:80/v1"}, "is not an http or https address, such as http://localhost:8080/v1"),
        ({"url": "ftp://x/v1"}, "is not an http or https address"),
        ({"url": "http://[::1"}, "url: 'http://[::1' is not an http"),
        ({"url": "http://user:word@x/v1"}, "must not contain a user, key or query string"),
        ({"url": "http://x/v1?key=1"}, "must not contain a user, key or query string"),
        ({"url": "http://x/v1", "batch": 0}, "batch: must be above 0, not 0"),
        ({"url": "http://x/v1", "cache": -1}, "cache: must be at least 0, not -1"),
        ({}, "url: missing"),
    ],
)
def test_options_that_are_wrong(options: dict[str, Any], told: str) -> None:
    with pytest.raises(PluginError) as caught:
        configure("encoders", PluginSetting("http", options))
    assert told in str(caught.value) and not str(caught.value).startswith(":")


def test_what_a_server_cannot_be_told(served: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="the server decides on pooling, query_length; leave unset"):
        opened(served, pooling="cls", query_length=32)
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    with pytest.raises(ModelError, match="no API key; set the environment variable NO_SUCH_KEY"):
        opened(served, {"key": "NO_SUCH_KEY"})
    monkeypatch.setenv("NO_SUCH_KEY", "s3cret")
    opened(served, {"key": "NO_SUCH_KEY"})
    assert served.keys == ["Bearer s3cret"]
    with pytest.raises(ModelError, match="has no local weights to train"):
        load_learner(spec(served))
    with pytest.raises(ModelError, match="cannot segment documents; omit segments"):
        opened(served).rows(None, Segments(2, 16), tmp_path, Silent(), World())  # type: ignore[arg-type]


def test_it_is_looked_up_without_an_embedding(served: Served) -> None:
    assert load_plugin("encoders", "http") is Http and Http.trainable is False
    assert resolve(spec(served)).look_up().note == f"served at {served.url}" and served.requests == []
    with pytest.raises(ModelError, match="no response"):
        resolve(spec(served, {"url": "http://127.0.0.1:9/v1"})).look_up()


def test_vectors_that_are_all_zero_are_refused(served: Served) -> None:
    def zeros(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**row, "embedding": [0.0] * 8} for row in rows]

    encoder = opened(served, {"cache": 0})
    served.change = zeros
    with pytest.raises(ModelError, match="the vectors of 2 texts are all zeros; check the server"):
        encoder.encode(["a", "b"], "passage")
    with pytest.raises(ModelError, match="the vector of a test sentence is all zeros; check the server"):
        opened(served, {"cache": 0})
