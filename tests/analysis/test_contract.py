"""Every analysis of hardneg keeps the contract."""

from typing import Any

from hardneg.registry import list_plugins, load_plugin
from tests.analysis.small_files import OfSmallFiles

RUNS = {"runs": {"a": "a.trec", "b": "b.trec"}}
MAPPINGS: dict[str, dict[str, Any]] = {
    "overlap": {**RUNS, "negatives": {"n": "negatives.arrow"}, "met": {"n": "a.trec"}},
    "query-wins": {"run": "a.trec", "against": "b.trec"},
    "recall-at-depth": {**RUNS, "depths": [1, 3]},
}


for _name, _mapping in MAPPINGS.items():
    _parts = {"analysis": load_plugin("analyses", _name), "mapping": _mapping}
    globals()[f"Test{_parts['analysis'].__name__}"] = type(
        f"Test{_parts['analysis'].__name__}", (OfSmallFiles,), _parts
    )


def test_all_are_tested_and_called_by_the_name_of_their_entry_point() -> None:
    assert sorted(MAPPINGS) == [each.name for each in list_plugins("analyses") if each.package == "hardneg"]
    assert all(load_plugin("analyses", name).name == name for name in MAPPINGS)
