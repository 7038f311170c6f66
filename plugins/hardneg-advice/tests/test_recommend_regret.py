"""Regrets of ways to choose negatives, on numbers worked out by hand."""

import json
from pathlib import Path
from typing import Any

import pytest

from hardneg.records.errors import DataError

ROOT = Path(__file__).parents[1]
TOP = {"miner": {"name": "topk", "depth": 10}, "let_in": 0.5, "planted": 0.1, "hardness": 0.2, "enough": 1.0}
ROWS = [
    {**TOP, "negatives": 9.0},
    {**TOP, "miner": {"name": "window", "skip": 5, "depth": 15}, "planted": 0.01, "negatives": 9.0},
]


def advised(row: int, alone: bool) -> dict[str, Any]:
    return {"row": row, "alone": alone, "reason": ""}


ANSWER = {"miners": ROWS, "trials": None, "without_training": {"top": advised(0, False), "recall": advised(0, True)}}
TRIED = {**ANSWER, "trials": {}, "chosen": 1, "in_batch_alone": False}


@pytest.fixture
def regret(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import recommend_regret

    return recommend_regret


def written(folder: Path, rows: dict[str, tuple[float, float]], queries: str = "ab") -> Path:
    """A run whose rows have one mean by each of two seeds, the same of each query."""
    of = {row: [{"mrr@10": dict.fromkeys(queries, mean)} for mean in means] for row, means in rows.items()}
    content = {
        "per_query": {row: {"mrr@10": dict.fromkeys(queries, sum(means) / 2)} for row, means in rows.items()},
        "per_seed": {row: {"1": one, "2": two} for row, (one, two) in of.items()},
    }
    content["per_query"]["as shipped"] = {"mrr@10": dict.fromkeys(queries, 0.9)}
    folder.mkdir()
    (folder / "metrics.json").write_text(json.dumps(content))
    return folder


def test_what_each_policy_asks_for(regret: Any) -> None:
    assert regret.asked_rows([ANSWER, TRIED], "top") == {
        "recommend": "top 10",
        "recommend before": "ranks 6-15",  # a hundredth of it is planted, as the sweep allows
        "--train": "ranks 6-15",
    }
    assert regret.asked_rows([ANSWER], "recall")["recommend"] == "in-batch"
    assert regret.row_of({"name": "pos-percent", "share": 0.95}) == "pos-percent 0.95"


def test_regrets_and_their_errors_over_seeds(regret: Any, tmp_path: Path) -> None:
    one = written(tmp_path / "one", {"top 10": (0.50, 0.52), "in-batch": (0.48, 0.50)})
    two = written(tmp_path / "two", {"top 20": (0.506, 0.506)})
    best, cells = regret.Trained.read([one, two]).regrets("mrr@10")
    assert best == "top 10 .510"  # what no seed was trained of is no row
    # Of two seeds .02 apart the mean has the error .01; of two such rows the difference has .01 × √2.
    assert cells == {"top 10": ".000", "in-batch": ".020 ± .014", "top 20": ".004 ± .010"}
    (row,) = list(regret.table({"c": ([ANSWER], regret.Trained.read([one, two]))}, "mrr@10"))[2:]
    assert row == (
        "| c | top 10 .510 | top 10: .000 | ranks 6-15: not run | no answer "
        "| .000 | .004 ± .010 | not run | not run | not run | .020 ± .014 |"
    )


def test_a_regret_beyond_the_bound_is_bold(regret: Any, tmp_path: Path) -> None:
    run = written(tmp_path / "run", {"top 10": (0.50, 0.50), "in-batch": (0.40, 0.40)})
    assert regret.Trained.read([run]).regrets("mrr@10")[1]["in-batch"] == "**.100 ± .000**"


def test_folders_of_other_queries_are_refused(regret: Any, tmp_path: Path) -> None:
    one = written(tmp_path / "one", {"top 10": (0.5, 0.5)})
    other = written(tmp_path / "other", {"top 20": (0.5, 0.5)}, "bc")
    with pytest.raises(DataError, match=r"other: other test queries than .*one"):
        regret.Trained.read([one, other])
    with pytest.raises(DataError, match="no row has several seeds"):
        regret.Trained.read([written(tmp_path / "none", {})])
