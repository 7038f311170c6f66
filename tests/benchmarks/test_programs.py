"""The programs of the benchmarks: mutants, planted false negatives, tests over seeds, doses, figures of results."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")


SOURCE = '''
from typing import Literal, ClassVar

class Some:
    version: ClassVar[int] = 1
    form: Literal["a", 3] = "a"

def most(values: list[int], least: float = 0.5) -> float:
    """The 2 largest."""
    if not values:
        return -1
    return max(value * 2 if value < 7 and least else value for value in values)
'''


def test_each_mutant_has_one_fault(tmp_path: Path) -> None:
    import mutants

    path = tmp_path / "some.py"
    path.write_text(SOURCE)
    made = list(mutants.mutants_of(path))
    assert [(each.line, each.before, each.after) for each in made] == [
        (8, "0.5", "0.85"),
        (10, "if not values", "if not not values"),
        (11, "-1", "+1"),
        (11, "1", "2"),
        (12, "value * 2 if value < 7 and least else value", "value if value < 7 and least else value * 2"),
        (12, "value < 7 and least", "value < 7 or least"),
        (12, "value < 7", "value <= 7"),
        (12, "7", "8"),
        (12, "value * 2", "value / 2"),
        (12, "2", "3"),
    ]
    results = []
    for each in made:
        names: dict[str, Any] = {}
        exec(each.code, names)
        results.append(names["most"]([6, 9]))
    assert results == [12, -1, 12, 12, 18, 18, 12, 12, 9, 18]


@pytest.mark.parametrize(
    ("values", "weights", "kept", "recall"),
    [
        ([4, 3, 2, 1], [1, 1, 1, 1], 0.5, 0.5),  # the best other goes, then no more: one of two hidden ones is above
        ([4, 3, 2, 1], [1, 1, 1, 1], 0.0, 1.0),
        ([4, 3, 2, 1], [1, 1, 1, 1], 1.0, 0.0),
        ([2, 3, 1, 4], [1, 1, 1, 1], 1.0, 1.0),
        ([4, 3, 2, 1], [1, 3, 1, 1], 0.5, 0.75),  # a hidden one that was drawn three times
    ],
)
def test_recall_where_a_share_is_kept(values: list[float], weights: list[float], kept: float, recall: float) -> None:
    import planted_false_negatives as program

    hidden = np.array([False, True, False, True])
    found = program.recall_at(np.array(values, float), hidden, kept, np.array(weights, float))
    assert found == pytest.approx(recall)


@pytest.mark.slow
def test_the_test_over_seeds_is_at_its_level_where_tests_by_query_are_not() -> None:
    """300 draws: 0.05 + 2.33 sqrt(0.05 * 0.95 / 300) = 0.079 is the most that a right test has, one-sided 99 %."""
    import seed_tests as program

    found = program.rates(program.Model(200, 5, 0.02).draw, 300, 1_000, 1)
    assert found["t over queries and seeds"] <= 0.079 and found["bootstrap, corrected"] <= 0.079
    assert found["t by query, one seed"] > 0.25 and found["t by query, means over seeds"] > 0.25


def test_draws_are_made_of_real_scores(tmp_path: Path) -> None:
    import seed_tests as program

    table = np.arange(6.0).reshape(2, 3)
    seeds = {seed: {"m": {f"q{i}": x for i, x in enumerate(row)}} for seed, row in enumerate(table.tolist())}
    (tmp_path / "metrics.json").write_text(json.dumps({"per_seed": {"A": seeds}}))
    name, draw = program.of_trainings(tmp_path / "metrics.json", "A", "m", 4, 0.0)
    first, second = draw(np.random.default_rng(0))
    assert name == "A, m | 3 | 4 | 0.0000" and first.shape == second.shape == (4, 3)
    assert {*first.flat, *second.flat} <= {*table.flat}
    assert all(len({x % 3 for x in column}) == 1 for column in np.concatenate([first, second]).T)


TEST = {"system": "top 10", "baseline": "random", "metric": "mrr@10", "difference": 0.05, "error": 0.01, "freedom": 8.0}
ROW = {"t_p": 0.001, "t_holm": 0.002, "verdict": "difference"}


@pytest.fixture
def doses() -> Any:
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


RESULTS = ROOT / "plugins" / "hardneg-papers" / "docs" / "results"
DATA = sorted((RESULTS / "data").glob("*.json"))


def test_single_queries_go_and_means_and_tests_stay(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
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
