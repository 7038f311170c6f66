"""Answers of models, as they come: short, wordy, thought over, and of no use."""

import pytest
from hardneg_judge.verdicts import verdicts


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ("yes", 1.0),
        ("No.", 0.0),
        ("**Yes**, and there is no doubt", 1.0),
        ("The answer is: YES", 1.0),
        ("<think>no... yes? no</think>\nyes", 1.0),
        ("<think>yes, yes", 1.0),
        ("It could be yes or no", None),
        ("yes no", None),
        ("Yes, or no?", None),
        ("no/yes", None),
        ("yes, yes", 1.0),
        ("Yes, no doubt", 1.0),
        ("yesterday's news", None),
        ("", None),
        ("2", None),
    ],
)
def test_yes_or_no(answer: str, score: float | None) -> None:
    assert verdicts(answer, 1, "yes-no", numbered=False) == [score]


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ("0", 0.0),
        ("Grade: 3", 3.0),
        ("##final score: 2", 2.0),
        ("2/3", 2.0),
        ("2 out of 3", 2.0),
        ("1 or 2", 1.0),
        ("score 2 or 3", None),
        ("4", None),
        ("-1", None),
        ("Grade: -1", None),
        ("grade-2", 2.0),
        ("12", None),
        ("0.5", None),
        ("yes", None),
    ],
)
def test_grades(answer: str, score: float | None) -> None:
    assert verdicts(answer, 1, "grades", numbered=False) == [score]


def test_several_passages_by_their_numbers() -> None:
    assert verdicts("[2] yes\nPassage 1: no\n3. maybe", 4, "yes-no", numbered=True) == [0.0, 1.0, None, None]
    assert verdicts("1: yes\n1: no\n2: yes\n2: yes\n9: no", 2, "yes-no", numbered=True) == [None, 1.0]
    assert verdicts("1: 3\n2: 0", 2, "grades", numbered=True) == [3.0, 0.0]
    assert verdicts("yes", 2, "yes-no", numbered=True) == [None, None]


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ("1: 3", 3.0),
        ("[1] 0", 0.0),
        ("2", 2.0),
        ("1", 1.0),
        ("Grade: 3", 3.0),
        ("1: 7", None),
        ("1: 3\n1: 0", None),
        ("1: -1", None),
        ("1 - 3", 3.0),
    ],
)
def test_one_passage_with_a_number(answer: str, score: float | None) -> None:
    assert verdicts(answer, 1, "grades", numbered=True) == [score]
