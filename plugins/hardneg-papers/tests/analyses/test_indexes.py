import numpy as np
import pytest
from hardneg_papers.analyses.costs import IndexSizes, Latency, latency
from pydantic import ValidationError

from hardneg.analysis.inputs import Files, System
from hardneg.records import Hits, UsageError
from tests.analysis.in_memory import Memory


class Slow:
    """Takes 4 ms of its own clock for a search, whatever it searches for; encoding takes 2 ms a text."""

    def __init__(self):
        self.asked, self.now = [], 0.0

    def perf_counter(self):
        return self.now

    def encode(self, texts):
        self.now += 0.002 * len(texts)
        return np.zeros((len(texts), 2), np.float32)

    def search(self, queries, depth):
        self.asked.append((len(queries), depth))
        self.now += 0.004
        return Hits(np.zeros((len(queries), depth), np.int64), np.zeros((len(queries), depth), np.float32))

    def system(self):
        return System(self, [], lambda ids: np.empty(0, np.int64), self.encode, "cpu")


def test_one_query_is_timed_alone_and_among_all(monkeypatch):
    slow = Slow()
    monkeypatch.setattr("hardneg_papers.analyses.costs.time", slow)
    found = latency(slow.system(), [str(number) for number in range(8)], 7)
    assert slow.asked == [(1, 7)] * (2 + 8) + [(8, 7)]
    assert found["one"] == pytest.approx({"encode": 2.0, "search": 4.0, "total": 6.0})
    assert found["batch"] == pytest.approx({"encode": 2.0, "search": 0.5, "total": 2.5})


class Asked(Memory):
    def system(self, index, model):
        return Slow().system()

    def queries(self, split):
        return {f"q{number}": f"text {number}" for number in range(self.count)}


def test_the_table_and_the_figure_have_both_ways(tmp_path):
    asked = Latency.model_validate({"indexes": {"ANCE": "i"}, "sample": 3})
    inputs = Asked(asked, {})
    object.__setattr__(inputs, "count", 5)
    found = asked.measure(inputs)
    assert found["queries"] == 3 and "Measured on: cpu" in asked.explain(found)
    assert [row[:2] for row in asked.table(found).rows] == [["ANCE", "one query"], ["ANCE", "one of 3 at once"]]
    asked.draw(found, [tmp_path / "l.svg"])
    assert ">ANCE, one query<" in (tmp_path / "l.svg").read_text()
    object.__setattr__(inputs, "count", 0)
    with pytest.raises(UsageError, match="queries: there are none in split test"):
        asked.measure(inputs)


def test_models_go_with_the_indexes():
    with pytest.raises(ValidationError, match="no index is labelled b"):
        Latency.model_validate({"indexes": {"a": "i"}, "models": {"b": "m"}})
    given = {"indexes": {"a": "i", "b": "j"}, "models": {"0": "m"}}
    assert Latency.arranged(given, {})["models"] == {"a": "m", "b": "m"}
    with pytest.raises(UsageError, match="analyze latency: 0 models for 2 indexes"):
        Latency.arranged({**given, "models": {}}, {})


def test_bytes_a_vector_and_the_ratio_to_the_first_index(tmp_path):
    """Vectors are counted by their ids, with or without a last line end."""
    texts = {"empty": ("", 5), "flat": ("d1\nd2\n", 320), "pq": ("D1#0\nD1#1\nD2#0\n\nD2#1", 64)}
    for name, (ids, size) in texts.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "docid").write_text(ids)
        (tmp_path / name / "index").write_bytes(b"0" * size)
    asked = IndexSizes(indexes={name: str(tmp_path / name) for name in ("flat", "pq", "empty")})
    found = asked.measure(Files({path: name for path, name, _ in asked.references()}))
    assert [(size["vectors"], size["bytes_per_vector"], size["ratio"]) for size in found] == [
        (2, 160, 1),
        (4, 16, 0.2),
        (0, 5, 5 / 320),
    ]
