"""The words by which texts are compared, and what compares by them."""

import pytest

from hardneg.datasets.held_out import half
from hardneg.mining.filters import NearCopyFilter
from hardneg.records.text import language_of, term_spans, terms
from hardneg.stages.write_queries import Draft, select_queries


def test_words_are_runs_of_letters_and_pairs_where_scripts_have_no_blanks():
    assert terms("Don't STOP, 2.5 naïve") == ["don", "t", "stop", "2", "5", "naïve"]
    assert terms("北海道x 雨 です") == ["北海", "海道", "x", "雨", "です"]
    assert terms("यह पहला") == ["यह", "पहला"] and terms("") == []
    assert [*term_spans("a 北海道")] == [(0, 1), (2, 4), (3, 5)]


def test_one_letter_more_leaves_a_japanese_text_a_near_copy():
    text = "".join(chr(0x4E00 + number) for number in range(60))  # sixty letters: 59 pairs, 56 runs of four
    runs, near = NearCopyFilter().shingles, f"{text[:30]}々{text[30:]}".replace("々", "の")
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

    assert [each.query_id for each in select_queries(drafts, [], Counter())] == ["1", "3"]


def test_a_text_without_blanks_between_words_is_halved_in_its_middle():
    assert half("一二三四五六七八 九", 0) == "一二三四五" and half("ab cd ef", 0) == "ab cd"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("The cat sat on the mat, and that is for the best of us.", "en"),
        ("def add(self, other): return Vector(self.x + other.x)", "en"),
        ("Der Hund ist nicht von hier, und das Haus gehört der Katze.", "de"),
        ("Le chat est dans la maison des chiens et une souris.", "fr"),
        ("El gato que vive en la casa de los perros, con una niña.", "es"),
        ("O gato que mora em uma casa não gosta do cachorro.", "pt"),
        ("Het is een huis van de man en dat is niet voor mij.", "nl"),
        ("Kissa on talossa, ja se oli myös koira.", "fi"),
        ("ธรรมศาสตร์เป็นมหาวิทยาลัยในประเทศไทย", "th"),
        ("梅雨は、北海道と小笠原諸島を除く日本に見られる。", "ja"),
        ("中国是一个国家，位于亚洲。", "zh"),
        ("한국어 텍스트입니다", "ko"),
        ("Это обычный русский текст", "ru"),
        ("Це звичайний український текст, її мова", "uk"),
        ("هذا نص عربي", "ar"),
        ("این یک متن فارسی است که گفته شد", "fa"),
        ("यह हिन्दी है", "hi"),
        ("Γειά σου κόσμε", "en"),  # Lucene has no analyzer for it here
        ("", "en"),
    ],
)
def test_the_language_that_most_is_in(text, code):
    assert language_of([text]) == code
    assert language_of([text, text, "OpenAPI v2"]) == code
