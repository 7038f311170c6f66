"""How suspicious a negative is, by numbers worked out by hand; how texts are cleaned, cut and marked."""

import pytest
from hardneg_browse.query_page import (
    OPENED,
    SHOWN,
    Evidence,
    Standing,
    above,
    clean,
    content_words,
    cut,
    marked,
    resemblance,
    shingles,
)
from material import falling


def test_resemblance_is_the_share_of_common_shingles_of_three_words():
    assert shingles("A b c D") == {("a", "b", "c"), ("b", "c", "d")}
    assert shingles("two words") == {("two", "words")}
    assert shingles("  ") == frozenset()
    first, second = shingles("a b c d e"), shingles("b c d e f g")
    assert resemblance(first, second) == pytest.approx(2 / 5)  # bcd, cde of abc, bcd, cde, def, efg
    assert resemblance(frozenset(), frozenset()) == 0
    text = "".join(chr(0x4E00 + number) for number in range(60))  # sixty letters: 59 pairs
    near = f"{text[:30]}の{text[30:]}"
    assert len(shingles(text) & shingles(near)) == 57 - 3 and resemblance(shingles(text), shingles(near)) == 54 / 61


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
        "shares 40% of word triples with positive p",
        "dense ranks it at 1, the best positive at 4",
        "judge ranks it at 1, the best positive at 2",
    )
    assert (plain.doc_id, plain.score, plain.reasons) == ("plain", 0.0, ())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("bell\x07 and \x1b[31m", "bell\ufffd and \ufffd[31m"),
        ("a\tb\nc", "a\tb\nc"),
        ("to \u202eleft\u202c \u2066x\u2069", "to left x"),
        ("half \ud800 pair", "half \ufffd pair"),
        ("c1 \x85 \x9f", "c1 \ufffd \ufffd"),
        ("עברית", "עברית"),
    ],
)
def test_a_text_is_cleaned(text, shown):
    assert clean(text) == shown


def test_the_words_of_a_query_are_marked_whatever_their_case_and_all_else_is_escaped():
    wanted = content_words("The Kidneys & <b>")
    assert wanted == {"kidneys"} | {"b"}
    found = marked("<b>kidneys</b> & Kidneys, kidney", wanted)
    assert found == (
        "&lt;<mark>b</mark>&gt;<mark>kidneys</mark>&lt;/<mark>b</mark>&gt; &amp; <mark>Kidneys</mark>, kidney"
    )
    found = marked("冬の北海道へ Snow", content_words("北海道の snow"))
    assert found == "冬の<mark>北海</mark><mark>道</mark>へ <mark>Snow</mark>"


def test_a_long_text_is_cut_after_a_word_and_its_length_is_told():
    found = cut("word " * 200_000, frozenset())
    assert found.length == 1_000_000 and found.cut
    assert len(found.start) <= SHOWN and found.start.endswith("word ")
    assert len(found.start) + len(found.rest) == OPENED
