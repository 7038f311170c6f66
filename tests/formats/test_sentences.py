"""Sentences by their punctuation."""

import time

import pytest

from hardneg.formats.texts import sentences


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("One thing. Two things! Three?", ["One thing.", "Two things!", "Three?"]),
        ('He said "no." Then he left.', ['He said "no."', "Then he left."]),
        (
            "See e.g. Smith and Dr. A. Jones, Fig. 3. It works.",
            ["See e.g. Smith and Dr. A. Jones, Fig. 3.", "It works."],
        ),
        ("Version 2.5 is out. use it", ["Version 2.5 is out. use it"]),
        ("A title\n\nsmall text", ["A title", "small text"]),
        ("これは文です。次の文です！", ["これは文です。", "次の文です！"]),
        ("यह पहला है। यह दूसरा है॥ तीसरा?", ["यह पहला है।", "यह दूसरा है॥", "तीसरा?"]),
        ("هل هذا؟ نعم، هذا. یہ ہے۔ ہاں", ["هل هذا؟", "نعم، هذا.", "یہ ہے۔", "ہاں"]),
        ("ប្រយោគ។ ពីរ", ["ប្រយោគ។", "ពីរ"]),
        ("Մեկ։ Երկու", ["Մեկ։", "Երկու"]),
        ("ประโยคแรก ประโยคที่สอง abc 12 ไทย", ["ประโยคแรก", "ประโยคที่สอง abc 12 ไทย"]),  # a blank between Thai letters
        ("  \n ", []),
    ],
)
def test_where_sentences_end(text, parts):
    assert sentences(text) == parts


def test_nothing_is_lost():
    text = "A first one. And (a second)! “A third.” 4 more… Done"
    assert " ".join(sentences(text)) == text


@pytest.mark.parametrize("blank", [" ", "\t", "\u00a0", "\n", " \n"])
def test_stretches_of_white_space_take_no_time(blank):
    begun = time.process_time()
    gap = blank * 100_000
    parts = sentences(f"It ends.{gap}then{gap}more")
    assert parts == (["It ends.", "then", "more"] if "\n" in blank else [f"It ends.{gap}then{gap}more"])
    assert time.process_time() - begun < 5


@pytest.mark.parametrize("text", ["X. Y. Z. " * 4000, '"' * 40_000, "。" + "」" * 40_000])
def test_long_texts_without_an_end_take_no_time(text):
    begun = time.process_time()
    assert "".join(sentences(text)) == text.strip()
    assert time.process_time() - begun < 5
