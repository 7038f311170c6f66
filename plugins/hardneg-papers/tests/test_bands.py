"""Bands of a recipe's values by hand-computed numbers."""

import pytest
from hardneg_papers.command import LEVEL, ROUNDING, Band, bands_of, check_bands

from hardneg.evaluation.metrics_json import Measured


def test_the_half_width_is_that_of_a_prediction_interval() -> None:
    """t(.975; 4) = 2.776445: for one new training .01 * 2.776445 * sqrt(1 / 5 + 1), for five sqrt(1 / 5 + 1 / 5)."""
    band = Band(0.5, 0.01, 5)
    assert band.half_width(1, 0.05) == pytest.approx(0.0304144, abs=1e-7)
    assert band.half_width(5, 0.05) == pytest.approx(0.0175598, abs=1e-7)


def test_what_no_seed_changes_has_room_for_rounding_alone() -> None:
    assert Band(0.5, 0.0, 1).half_width(1, LEVEL) == ROUNDING
    assert Band(0.5, 1e-9, 5).half_width(1, LEVEL) == ROUNDING


def measured(star: list[float], bm25: float = 0.4) -> Measured:
    scores = {seed: {"mrr@10": {"a": value - 0.1, "b": value + 0.1}} for seed, value in enumerate(star)}
    means = {"mrr@10": {"a": sum(star) / len(star) - 0.1, "b": sum(star) / len(star) + 0.1}}
    results = {"STAR": means, "BM25": {"mrr@10": {"a": bm25, "b": bm25}}}
    return Measured(results, by_seed={"STAR": scores} if len(star) > 1 else {})


def test_bands_hold_the_mean_and_the_deviation_between_seeds() -> None:
    bands = bands_of(measured([0.5, 0.52, 0.54]))
    assert bands["STAR"]["mrr@10"].mean == pytest.approx(0.52)
    assert bands["STAR"]["mrr@10"].deviation == pytest.approx(0.02)
    assert bands["STAR"]["mrr@10"].seeds == 3
    assert bands["BM25"]["mrr@10"] == Band(0.4, 0.0, 1)


def test_each_value_is_compared_with_the_band_for_its_number_of_seeds() -> None:
    bands = bands_of(measured([0.5, 0.51, 0.52, 0.53, 0.54]))
    one, many = check_bands(measured([0.53]), bands)[0], check_bands(measured([0.53, 0.53, 0.53, 0.53]), bands)[0]
    assert (one.seeds, many.seeds) == (1, 4)
    assert one.high - one.low > many.high - many.low
    assert one.inside
    far = check_bands(measured([0.9], bm25=0.402), bands)
    assert [row.inside for row in far] == [False, False]


def test_a_system_or_a_metric_that_the_run_lacks_has_no_row() -> None:
    bands = {"ANCE": {"mrr@10": Band(0.5, 0.01, 5)}, "BM25": {"recall@100": Band(0.5, 0.0, 1)}}
    assert check_bands(measured([0.5]), bands) == []
