"""The tables and figures of doses."""

import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TEST = {"system": "top 10", "baseline": "random", "metric": "mrr@10", "difference": 0.05, "error": 0.01, "freedom": 8.0}
ROW = {"t_p": 0.001, "t_holm": 0.002, "verdict": "difference"}


@pytest.fixture
def doses(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import doses

    return doses


@pytest.fixture
def run(tmp_path: Path) -> Path:
    means = {"random": 0.5, "top 10": 0.55, "top 10, 50 % false": 0.4}
    scores = {name: {"mrr@10": value} for name, value in means.items()}
    seeds = {"top 10": {seed: {"mrr@10": {"q": value}} for seed, value in {"1": 0.54, "2": 0.56}.items()}}
    content = {
        "metrics": scores,
        "over_seeds": [TEST | ROW, TEST | ROW | {"baseline": "in-batch"}],
        "per_seed": {**seeds, "random": {}},
    }
    (tmp_path / "metrics.json").write_text(json.dumps(content))
    return tmp_path


def test_intervals_are_those_of_students_t(doses):
    assert doses.ends(TEST, 0.95) == pytest.approx((0.05 - 0.02306, 0.05 + 0.02306), abs=1e-5)  # t of 8: 2.306
    assert doses.ends(TEST, 0.9) == pytest.approx((0.05 - 0.018595, 0.05 + 0.018595), abs=1e-5)  # 1.8595


@pytest.mark.parametrize("dose", ["siblings", "false-negatives", "metrics"])
def test_tables_and_figure(doses, dose, run, monkeypatch, capsys):
    figure = run / "figure.svg"
    monkeypatch.setattr("sys.argv", ["doses.py", dose, f"{'0=' * (dose == 'siblings')}{run}", "--figure", str(figure)])
    doses.main()
    shown = capsys.readouterr().out
    assert "| top 10 | .550 (.014) |" in shown and "| random | .500 |" in shown
    line = "| mrr@10 | top 10 − random | +.050 | +.031 to +.069 | +.027 to +.073 | 0.001 | 0.002 | difference |"
    assert line in shown
    assert figure.read_text("utf-8").startswith("<?xml")


def test_a_gap_at_one_dose_less_that_at_another_has_the_parts_of_four_systems(doses):
    """By hand: two queries, two seeds a system; only seeds differ, so that the part of seeds is all there is."""

    def content(top: tuple[float, float], other: tuple[float, float]) -> dict[str, Any]:
        seeds = {
            name: {seed: {"mrr@10": {"q": value, "r": value}} for seed, value in enumerate(values)}
            for name, values in {"top 10": top, "random": other}.items()
        }
        return {"per_seed": seeds}

    found = doses.gap_between(content((0.6, 0.8), (0.5, 0.5)), content((0.6, 0.6), (0.4, 0.5)), "random", "mrr@10")
    assert found.mean == pytest.approx(0.2 - 0.15)
    assert found.variance == pytest.approx(0.02 / 2 + 0.005 / 2)  # variances over seeds, each divided by the seeds


def test_a_gap_over_queries_in_groups_has_the_draws_of_groups(doses):
    """By hand: no spread of seeds; two groups of two alike queries have the variance of two draws, not of four."""

    def content(gap: float) -> dict[str, Any]:
        values = {"a": gap, "b": gap, "c": 0.0, "d": 0.0}
        seeds = {seed: {"mrr@10": values} for seed in (1, 2)}
        none = {seed: {"mrr@10": dict.fromkeys(values, 0.0)} for seed in (1, 2)}
        return {"per_seed": {"top 10": seeds, "random": none}, "query_groups": {"a": "x", "b": "x", "c": "y", "d": "y"}}

    found = doses.gap_between(content(0.4), content(0.0), "random", "mrr@10")
    assert found.mean == pytest.approx(0.2)
    assert found.variance == pytest.approx(0.08 / 2)  # of .4 and 0: ((.2)² + (.2)²) / 1, divided by two groups
