"""The check of vectors: cosines and dimensions by hand, and two indexes."""

from pathlib import Path

import numpy as np
import pytest
from handmade import handmade, made
from hardneg_advice.diagnose import collapse, effective_dimensions, mean_cosine, trained_indexes

from hardneg.testing.indexes import write_encoded

AXES = np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 2.0], [0.0, -2.0]])


def test_the_mean_cosine_is_over_pairs_of_different_rows() -> None:
    assert mean_cosine(np.array([[1.0, 0.0], [0.0, 5.0], [3.0, 0.0]])) == pytest.approx(1 / 3)
    assert mean_cosine(AXES) == pytest.approx(-1 / 3)  # two of six pairs have -1, the others 0
    assert mean_cosine(np.zeros((3, 2))) == 0.0


def test_effective_dimensions_are_those_that_share_the_variance() -> None:
    assert effective_dimensions(AXES + 7) == pytest.approx(2.0)
    assert effective_dimensions(np.array([[1.0, 1.0], [2.0, 2.0], [5.0, 5.0]])) == pytest.approx(1.0)
    assert effective_dimensions(AXES * [3.0, 1.0]) == pytest.approx((9 + 1) ** 2 / (81 + 1))
    assert effective_dimensions(np.ones((3, 2))) == 0.0


@pytest.mark.parametrize(
    ("trained", "state"),
    [
        (AXES, "fine"),
        (AXES + 3, "suspect"),  # the cosine of pairs rises
        (AXES @ np.array([[1.0, 0.0], [1.0, 0.0]]), "fine"),  # one dimension of two is kept: more than a third
    ],
)
def test_vectors_that_lie_closer_together_than_those_of_the_start_model_are_suspect(
    tmp_path: Path, tiny_model: Path, trained: np.ndarray, state: str
) -> None:
    run = handmade(tmp_path, tiny_model)
    for stage, vectors in (("start-index", AXES), ("star-index", trained)):
        write_encoded(made(run, stage), vectors.astype(np.float32))
    assert trained_indexes(run) == ["star-index"]
    result = collapse(run, "star-index")
    assert result.state == state
    assert result.figures["start_dimensions"] == pytest.approx(2.0)
    assert result.figures["dimensions"] == pytest.approx(effective_dimensions(trained))


def test_an_index_is_compared_with_the_start_models_of_the_same_collection(tmp_path: Path, tiny_model: Path) -> None:
    other = {"stage": "dataset", "loader": "hf:mteb/scifact"}
    stages = {name: {"stage": "encode", "model": model, "dataset": "other"} for name, model in OTHER.items()}
    run = handmade(tmp_path, tiny_model, other=other, **stages)
    for stage, vectors in {"start-index": AXES, "other-index": AXES + 3, "other-star-index": AXES + 3}.items():
        write_encoded(made(run, stage), vectors.astype(np.float32))
    result = collapse(run, "other-star-index")
    assert result.state == "fine" and result.figures["cosine"] == result.figures["start_cosine"]


OTHER = {"other-index": "start", "other-star-index": "star"}
