"""Tests of the costs of methods, operations and single queries, and of index sizes."""

import numpy as np
import pytest
from hardneg_papers.analyses.costs import Costs, IndexSizes, Latency, costs, latency, operations, totals
from pydantic import ValidationError

from hardneg.analysis.base import Files, System
from hardneg.records import Hits, UsageError


def test_a_method_is_the_sum_of_its_stages_and_is_compared_with_the_first():
    star = {"seconds": 30.0, "steps": 10, "device": "cuda", "peak_memory": 5, "peak_gpu_memory": 9}
    adore = {"seconds": 10.0, "steps": 20, "device": "cuda", "peak_memory": 6}
    ance = {"seconds": 640.0, "steps": 100, "device": "cuda", "peak_memory": 7}
    found = costs({"ANCE": {"ance": ance}, "STAR+ADORE": {"star": star, "adore": adore}})
    assert [tuple(row[name] for name in ("method", "seconds", "steps", "speedup")) for row in found] == [
        ("ANCE", 640, 100, 1),
        ("STAR+ADORE", 40, 30, 16),
    ]
    assert (found[1]["devices"], found[1]["peak_memory"], found[1]["peak_gpu_memory"]) == (["cuda"], 6, 9)
    assert found[0]["peak_gpu_memory"] is None


def test_a_stage_that_tells_no_time_is_named_and_nothing_is_divided():
    found = costs({"a": {"x": {"seconds": 4.0}}, "b": {"y": {}}, "c": {"z": {"seconds": 0.0}}})
    assert [row["speedup"] for row in found] == [1, None, None]
    assert found[1]["unknown"] == ["y"]


def test_times_are_shown_in_hours_where_one_is_that_long():
    def unit(*seconds):
        return Costs(methods={"a": "x"}).table(costs({str(s): {"x": {"seconds": s}} for s in seconds})).columns[1]

    assert unit(30.0, 7200.0) == "hours" and unit(30.0, 3599.0) == unit() == "minutes"


class Slow:
    """A system that advances its own clock by 4 ms per search and 2 ms per encoded text."""

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


def test_models_go_with_the_indexes():
    with pytest.raises(ValidationError, match="no index is labelled b"):
        Latency.model_validate({"indexes": {"a": "i"}, "models": {"b": "m"}})
    given = {"indexes": {"a": "i", "b": "j"}, "models": {"0": "m"}}
    assert Latency.arranged(given, {})["models"] == {"a": "m", "b": "m"}
    with pytest.raises(UsageError, match="analyze latency: 0 models, but 2 indexes"):
        Latency.arranged({**given, "models": {}}, {})


def test_bytes_a_vector_and_the_ratio_to_the_first_index(tmp_path):
    """Vectors are counted by their ids, whether or not the last line ends with a line break."""
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


SEARCHED = {"queries": 50, "seconds": 1.0, "depth": 10}
SEARCHED |= {"seconds of search: encode queries": 0.1, "seconds of search: search": 0.5}
TRAINED = {"steps": 10, "seconds": 40.0, "seconds of inference: encode": 8.0}
REFRESHED = {**TRAINED, "waiting's part of the time": 0.25, "refreshes made": 2}
REFRESHED |= {"documents encoded": 4000, "queries searched": 100}
REFRESHED |= {f"seconds of inference: {name}": seconds for name, seconds in (("queries", 1.0), ("search", 0.5))}
STAGES = {
    "encoding": ("index", {"passages": 2000, "seconds": 9.0}),
    "search": ("run", SEARCHED),
    "training": ("model", {**TRAINED, "refreshes made": 4, "mean lag": 2.0}),
    "refreshed": ("model", {**REFRESHED, "seconds of inference: write": 0.5}),
    "mining": ("negatives", {"queries": 50}),
    "empty": ("run", {"queries": 0, "seconds": 1.0}),
}


def found():
    return operations(STAGES)


def test_the_time_of_a_stage_is_divided_by_what_it_went_through():
    assert [(row["operation"], row["online"], row["milliseconds"], row["unit"]) for row in found()] == [
        ("encoding", False, 4.5, "document"),
        ("search", True, 20.0, "query"),
        ("search: encode queries", True, 2.0, "query"),
        ("search: search", True, 10.0, "query"),
        ("training", False, 4000.0, "step"),
        ("training: encode", False, 2000.0, "refresh"),
        ("training: making negatives", False, 800.0, "step"),
        ("refreshed", False, 4000.0, "step"),
        ("refreshed: steps", False, 3000.0, "step"),
        ("refreshed: encode", False, 2.0, "document"),
        ("refreshed: queries", False, 10.0, "query"),
        ("refreshed: search", False, 5.0, "query"),
        ("refreshed: write", False, 5.0, "query"),
        ("refreshed: making negatives", False, 1000.0, "step"),
        ("mining", False, None, "query"),
        ("empty", True, None, "query"),
    ]


def test_totals_sum_what_one_unit_takes():
    named = {"dense": ["search: encode queries", "search: search"], "all": ["search", "mining"]}
    dense, unknown = totals(operations(STAGES), named)
    assert tuple(dense[name] for name in ("operation", "online", "unit", "count")) == ("dense", True, "query", 50)
    assert dense["milliseconds"] == pytest.approx(2.0 + 10.0)
    assert unknown["milliseconds"] is None and not unknown["online"]
    with pytest.raises(UsageError, match="x: no operation 'serch'; did you mean 'search'"):
        totals(operations(STAGES), {"x": ["serch"]})
    with pytest.raises(UsageError, match="x: cannot add times per query and per document"):
        totals(operations(STAGES), {"x": ["search", "encoding"]})
