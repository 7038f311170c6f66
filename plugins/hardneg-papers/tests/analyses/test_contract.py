"""Contract tests of all analyses in this package."""

from typing import Any

from hardneg.registry import list_plugins, load_plugin
from tests.analysis.small_files import OfSmallFiles

RUNS = {"runs": {"a": "a.trec", "b": "b.trec"}}
HISTORY = {"trainings": {"x": "history.jsonl"}}
INDEXES = {"indexes": {"one": "index", "two": "index"}, "models": {"one": "m", "two": "m"}}
MAPPINGS: dict[str, dict[str, Any]] = {
    "ablation": {"evaluation": "metrics.json"},
    "across-collections": {"evaluations": {"one": "metrics.json", "two": "metrics.json"}},
    "candidates": {"first": {"a": "a.trec"}, "reranked": {"a": "b.trec"}, "counts": [1, 3]},
    "costs": {"methods": {"m": ["trained", "indexed"]}},
    "denoising": {"negatives": {"n": "dropped.arrow"}},
    "drift": HISTORY,
    "errors": {"indexes": {"one": "index"}, "models": {"one": "m"}, "runs": {"a": "a.trec"}},
    "false-negative-recall": {"run": "a.trec"},
    "gradients": HISTORY,
    "latency": {**INDEXES, "sample": 1},
    "matrix": {"evaluation": "metrics.json", "rows": {"r": {"c": "A"}}},
    "operations": {"stages": {"t": "trained", "i": "indexed"}, "totals": {"both": ["i"]}},
    "overlap-curve": {"negatives": {"n": {0: "negatives.arrow"}}, "met": {"n": {0: "a.trec", 5: "b.trec"}}},
    "projection": {**INDEXES, "negatives": 3},
    "refreshes": HISTORY,
    "scores": {**RUNS, "depths": [3], "single": 1},
    "sizes": {"indexes": {"i": "index"}},
    "unjudged": {**RUNS, "against": "a"},
}


for _name, _mapping in MAPPINGS.items():
    _parts = {"analysis": load_plugin("analyses", _name), "mapping": _mapping}
    globals()[f"Test{_parts['analysis'].__name__}"] = type(
        f"Test{_parts['analysis'].__name__}", (OfSmallFiles,), _parts
    )


def test_all_are_tested_and_called_by_the_name_of_their_entry_point() -> None:
    assert sorted(MAPPINGS) == [each.name for each in list_plugins("analyses") if each.package == "hardneg-papers"]
    assert all(load_plugin("analyses", name).name == name for name in MAPPINGS)
