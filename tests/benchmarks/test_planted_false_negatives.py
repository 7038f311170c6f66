"""What the comparison of filters counts, on four candidates."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "planted_false_negatives.py"


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
    spec = importlib.util.spec_from_file_location("planted_false_negatives", PROGRAM)
    assert spec and spec.loader
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    hidden = np.array([False, True, False, True])
    found = program.recall_at(np.array(values, float), hidden, kept, np.array(weights, float))
    assert found == pytest.approx(recall)
