"""What is kept of the figures of a results page, and that a page shows it."""

import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "plugins" / "hardneg-papers" / "docs" / "results"
DATA = sorted((RESULTS / "data").glob("*.json"))


def test_single_queries_go_and_means_and_tests_stay(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import result_data

    seeds = {"1": {"mrr@10": {"q": 0.5, "r": 1.0}}, "2": {"mrr@10": {"q": 0.25, "r": 1.0}}}
    pair = {"system": "one", "baseline": "two", "metric": "mrr@10", "t_p": 0.123456789}
    content = {
        "metrics": {"one": {"mrr@10": 0.6875}},
        "per_query": {"one": {"mrr@10": {"q": 0.375, "r": 1.0}}},
        "per_seed": {"one": seeds},
        "comparisons": [pair, pair | {"system": "three"}],
        "over_seeds": [pair],
        "query_groups": {"q": "a", "r": "a"},
    }
    (tmp_path / "metrics.json").write_text(json.dumps(content))
    target = tmp_path / "data" / "run.json"
    monkeypatch.setattr("sys.argv", ["result_data.py", str(tmp_path), str(target), "--command", "hardneg recipe run a"])
    result_data.main()
    kept: dict[str, Any] = json.loads(target.read_text("utf-8"))
    assert "per_query" not in kept and "query_groups" not in kept
    assert (kept["command"], kept["queries"], kept["groups"]) == ("hardneg recipe run a", 2, 1)
    assert kept["per_seed"] == {"one": {"1": {"mrr@10": 0.75}, "2": {"mrr@10": 0.625}}}
    assert kept["over_seeds"] == [pair | {"t_p": 0.123457}]
    assert kept["comparisons"] == [pair | {"system": "three", "t_p": 0.123457}]  # a pair's other test decides


@pytest.mark.parametrize("path", DATA, ids=lambda path: path.stem)
def test_a_page_shows_what_is_kept(path: Path) -> None:
    """Each mean over seeds is on the page that links the file, to three or four digits."""
    kept = json.loads(path.read_text("utf-8"))
    texts = [text for page in RESULTS.glob("*.md") if f"(data/{path.name})" in (text := page.read_text("utf-8"))]
    assert texts
    for system, seeds in kept["per_seed"].items():
        for metric, mean in kept["metrics"][system].items():
            assert mean == pytest.approx(sum(each[metric] for each in seeds.values()) / len(seeds), abs=2e-6)
            shown = {f"{mean:.{digits}f}".lstrip("0") for digits in (3, 4)}
            assert any(value in text for text in texts for value in shown), (system, metric)
