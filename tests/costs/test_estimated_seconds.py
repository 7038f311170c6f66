"""Seconds that remember what they were estimated from."""

import math

import pytest

from hardneg.costs.estimated_seconds import UNKNOWN, EstimatedSeconds, Rate

MEASURED, SHEET = Rate(100.0, "measured"), Rate(50.0, "data sheet")


def test_a_rate_gives_seconds_of_its_basis() -> None:
    taken = MEASURED.seconds(1000, devices=2)
    assert taken == 5.0 and taken.bases == ("measured",)


def test_sums_and_multiples_keep_the_seconds_of_each_basis() -> None:
    taken = 2 * (MEASURED.seconds(1000) + SHEET.seconds(300)) / 4 + 1
    assert taken == pytest.approx(9) and taken.parts == pytest.approx({"measured": 5, "data sheet": 3, "guess": 1})
    assert (0 + taken).parts == (taken + 0.0).parts == sum([taken]).parts
    assert taken.bases == ("measured", "data sheet", "guess")


def test_what_is_less_than_a_tenth_is_not_named() -> None:
    assert (MEASURED.seconds(1000) + 1).bases == ("measured",)
    assert (MEASURED.seconds(1000) + 2).bases == ("measured", "guess")


def test_the_longer_of_two_is_told_alone() -> None:
    assert max(MEASURED.seconds(1000), SHEET.seconds(100)).bases == ("measured",)


def test_with_a_rate_that_is_not_known_all_is_unknown() -> None:
    taken = MEASURED.seconds(1000) + UNKNOWN.seconds(1)
    assert math.isnan(taken) and taken.bases == ("unknown",)


def test_plain_numbers_are_guesses_and_nothing_has_no_basis() -> None:
    assert EstimatedSeconds.of(3.0).bases == ("guess",) and EstimatedSeconds.of(0).bases == ()
    assert EstimatedSeconds.of(taken := MEASURED.seconds(1)) is taken
