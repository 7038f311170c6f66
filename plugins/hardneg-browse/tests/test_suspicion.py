"""How suspicious a negative is, by numbers worked out by hand."""

import pytest
from hardneg_browse.query_page import Evidence, Standing, above, resemblance, shingles
from material import falling


def test_shingles_are_three_words_in_a_row():
    assert shingles("A b c D") == {("a", "b", "c"), ("b", "c", "d")}
    assert shingles("two words") == {("two", "words")}
    assert shingles("  ") == frozenset()


def test_resemblance_is_what_is_common_by_all():
    first, second = shingles("a b c d e"), shingles("b c d e f g")
    assert resemblance(first, second) == pytest.approx(2 / 5)  # bcd, cde of abc, bcd, cde, def, efg
    assert resemblance(frozenset(), frozenset()) == 0


@pytest.mark.parametrize(
    ("negative", "positive", "expected"),
    [
        (Standing(1, 9.0), Standing(4, 5.0), 0.75),
        (Standing(4, 5.0), Standing(1, 9.0), 0.0),
        (Standing(2, 9.0), None, 1 - 2 / 11),
        (None, Standing(1, 9.0), 0.0),
    ],
)
def test_how_far_a_negative_stands_above(negative, positive, expected):
    assert above(negative, positive, 10) == pytest.approx(expected)


def test_the_score_adds_copies_and_the_mean_over_systems():
    runs = {"dense": ["copy", "x", "y", "p"], "bm25": ["p", "copy"], "judge": ["copy", "p"]}
    negatives = {"copy": shingles("b c d e f g"), "plain": shingles("x y z")}
    lists = {label: falling(ids) for label, ids in runs.items()}
    evidence = Evidence("q", {"p": shingles("a b c d e"), **negatives}, lists)
    copy, plain = evidence.suspected(["p"], ["copy", "plain"])
    # 2/5 alike; dense has it at 1 before 4: 3/4, bm25 below, the judge at 1 before 2: 1/2; the mean of the three
    assert copy.score == pytest.approx(0.4 + (0.75 + 0.5) / 3)
    assert copy.reasons == (
        "shares 40 % of its word triples with positive p",
        "dense ranks it at 1, above the best positive, at 4",
        "judge ranks it at 1, above the best positive, at 2",
    )
    assert (plain.doc_id, plain.score, plain.reasons) == ("plain", 0.0, ())


def test_one_letter_more_leaves_a_japanese_text_a_near_copy():
    text = "".join(chr(0x4E00 + number) for number in range(60))  # sixty letters: 59 pairs
    near = f"{text[:30]}の{text[30:]}"
    assert len(shingles(text) & shingles(near)) == 57 - 3 and resemblance(shingles(text), shingles(near)) == 54 / 61
