"""Nothing in a text steers the page."""

import pytest
from hardneg_browse.query_page import OPENED, SHOWN, clean, content_words, cut, marked


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


def test_a_long_text_is_cut_after_a_word_and_its_length_is_told():
    found = cut("word " * 200_000, frozenset())
    assert found.length == 1_000_000 and found.cut
    assert len(found.start) <= SHOWN and found.start.endswith("word ")
    assert len(found.start) + len(found.rest) == OPENED


def test_terms_of_a_query_are_marked_without_blanks_too():
    assert marked("冬の北海道へ Snow", content_words("北海道の snow")) == (
        "冬の<mark>北海</mark><mark>道</mark>へ <mark>Snow</mark>"
    )
