"""The words by which texts are compared, and what compares by them."""

from hardneg.datasets.held_out import half
from hardneg.mining.filters import NearCopyFilter
from hardneg.records.text import term_spans, terms
from hardneg.stages.write_queries import Draft, kept


def test_words_are_runs_of_letters_and_pairs_where_scripts_have_no_blanks():
    assert terms("Don't STOP, 2.5 naïve") == ["don", "t", "stop", "2", "5", "naïve"]
    assert terms("北海道x 雨 です") == ["北海", "海道", "x", "雨", "です"]
    assert terms("यह पहला") == ["यह", "पहला"] and terms("") == []
    assert [*term_spans("a 北海道")] == [(0, 1), (2, 4), (3, 5)]


def test_one_letter_more_leaves_a_japanese_text_a_near_copy():
    text = "".join(chr(0x4E00 + number) for number in range(60))  # sixty letters: 59 pairs, 56 runs of four
    runs, near = NearCopyFilter().runs, f"{text[:30]}々{text[30:]}".replace("々", "の")
    both = [runs(each) for each in (text, near)]
    # One letter in the middle takes the four runs that hold the pair there, and brings five: 52 of 61.
    assert len(both[0] & both[1]) / len(both[0] | both[1]) == 52 / 61


def test_queries_with_the_same_words_are_one_in_scripts_without_blanks():
    drafts = [
        Draft("1", "北海道の梅雨", "a", "g"),
        Draft("2", "北海道の梅雨？", "b", "g"),
        Draft("3", "本州の梅雨", "c", "g"),
    ]
    from collections import Counter

    assert [each.query_id for each in kept(drafts, [], Counter())] == ["1", "3"]


def test_a_text_without_blanks_between_words_is_halved_in_its_middle():
    assert half("一二三四五六七八 九", 0) == "一二三四五" and half("ab cd ef", 0) == "ab cd"
