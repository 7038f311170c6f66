"""Exact match and F1, by hand."""

import pytest
from hardneg_reader.read import exact_match, f1, normalised


@pytest.mark.parametrize(
    ("answer", "compared"),
    [
        ("The  Beatles!", "beatles"),
        ("an apple, a day", "apple day"),
        ("theatre", "theatre"),
        ("U.S.", "us"),
        ("twenty-one", "twentyone"),
        ("May 18, 2018", "may 18 2018"),
        ("x\u2013the\u2013y", "x\u2013 \u2013y"),  # a dash that is not ASCII stays, an article beside it does not
        ("Röntgen", "röntgen"),
        ("the", ""),
    ],
)
def test_what_is_compared(answer: str, compared: str) -> None:
    assert normalised(answer) == compared


def test_one_of_the_answers_is_enough() -> None:
    assert exact_match("the Cyrus", ["Darius", "cyrus."]) == 1.0
    assert exact_match("Cyrus II", ["Darius", "cyrus."]) == 0.0
    assert exact_match("Cyrus", []) == 0.0


def test_f1_by_hand() -> None:
    assert f1("the old river", ["old river"]) == 1.0
    assert f1("old blue river", ["old river"]) == pytest.approx(0.8)  # 2 of 3 and 2 of 2
    assert f1("old old river", ["old old old"]) == pytest.approx(2 / 3)  # words count as often as they stand there
    assert f1("old blue river", ["sea", "river", "blue river"]) == pytest.approx(0.8)
    assert f1("sea", ["river"]) == f1("sea", []) == f1("", ["sea"]) == 0.0
    assert f1("the", ["a"]) == 1.0
