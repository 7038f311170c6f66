"""Rank correlations of training-free figures with trained means, on numbers worked out by hand."""

from pathlib import Path
from typing import Any

import pytest

from hardneg.records.errors import DataError

ROOT = Path(__file__).parents[2]
PAGE = """# Bench

## One

MRR@10:

| negatives | rate | mean | over in-batch |
|---|---|---|---|
| in-batch | .03 | .500 (.001) | |
| `topk` 10 | .03 | .600 (.001) | +.100 |
| random | .03 | .400 (.001) | −.100 |

R@100:

| negatives | rate | mean |
|---|---|---|
| in-batch | .03 | .9 |
| `topk` 10 | .03 | .7 |
| random | .03 | .8 |

## Two
"""


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import information_ranks

    return information_ranks


def test_correlations_with_the_means_of_a_page(ranks: Any) -> None:
    """Ranks 2, 3, 1 of MRR@10 and 3, 1, 2 of R@100; those of the figures are 2, 3, 1."""
    numbers = {"in-batch": 0.2, "topk 10": 0.3, "random": 0.1, "untrained": 9.0}
    figures = {label: dict.fromkeys(ranks.FIGURES, value) for label, value in numbers.items()}
    first, row, *_, last = ranks.correlations(PAGE, "One", figures)
    assert "not trained: untrained" in first and last == "| One | 3 | information with mean weight +1.00 |"
    section, arms, title, up, p_up, down, _ = (cell.strip() for cell in row.strip("| ").split("|"))
    assert (section, arms, title, up, down) == ("One", "3", "information", "+1.00", "-0.50")
    assert float(p_up) == pytest.approx(1 / 3, abs=0.01)  # the same order and its reverse, of 6
    assert list(ranks.arms(PAGE, {"One": figures}))[1] == "| topk 10 | 0 | +0.100 | -0.200 |"


def test_a_page_without_the_table_is_an_error(ranks: Any) -> None:
    with pytest.raises(DataError, match="no table 'MRR@10' in a section 'Two'"):
        ranks.trained_means(PAGE, "Two", "MRR@10")
