"""Answers in texts by tokens and patterns; sentences by punctuation."""

import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hardneg.formats.corpus import Corpus, write_corpus
from hardneg.formats.texts import PassageAnswers, answer_spans, finder, prepared, sentences
from hardneg.records import Document
from hardneg.runtime import Silent

PASSAGES = ["the river Rhine", "in 1901 at the Rhine", "nothing", "Danube"]


def has_answer(text: str, answers: list[str], match: str = "string") -> bool:
    return finder(answers, match, Counter())(prepared(text, match))


@pytest.mark.parametrize(
    ("text", "answer", "found"),
    [
        ("Wilhelm Röntgen got the first one.", "röntgen", True),
        ("Wilhelm Ro\u0308ntgen got the first one.", "Röntgen", True),  # the accent on its own
        ("Wilhelm Rontgen got the first one.", "Röntgen", False),
        ("the Nobel Prize in PHYSICS", "nobel prize", True),
        ("the Nobel (Prize)", "Nobel Prize", False),  # a bracket is a token
        ("a twenty-one day trip", "twenty-one", True),
        ("a twenty - one day trip", "twenty-one", True),  # white space is none
        ("a twenty one day trip", "twenty-one", False),
        ("it cost $1,000 in 1901.", "1901", True),
        ("it cost $1,000 in 1901.", "1,000", True),
        ("it cost $1,000 in 1901.", "000", True),
        ("it cost $1,000 in 1901.", "1000", False),
        ("in 19015", "1901", False),  # whole tokens
        ("in the 1901st year", "1901", False),
        ("U.S. troops", "U.S.", True),
        ("the US troops", "U.S.", False),
        ("new\n\tyork\u00a0city", "New York City", True),
        ("o'neil", "O'Neil", True),
        ("ΟΔΟΣ'Α", "οδος", True),  # the last sigma of a word
        ("東京タワー", "東京", False),  # no spaces, one token
        ("one two", "one two three", False),
        ("", "one", False),
        ("anything", "", False),
        ("anything", " \t\u200b", False),
    ],
)
def test_tokens_of_an_answer_stand_in_the_text(text: str, answer: str, found: bool) -> None:
    assert has_answer(text, [answer]) is found
    assert has_answer(text, ["not there at all", answer]) is found


def test_what_can_never_be_found_is_counted() -> None:
    left_out: Counter[str] = Counter()
    look = finder(["", "river", " "], "string", left_out)
    assert look(prepared("a river", "string")) and left_out == {"answers without a word": 2}


@pytest.mark.parametrize(
    ("text", "pattern", "found"),
    [
        ("in 1901 or so", r"19\d\d", True),
        ("in 19 01", r"19\d\d", False),
        ("MOUNT EVEREST", "mount\\s?everest", True),
        ("Cafe\u0301", "café", True),
        ("first\nsecond", "^second$", True),
        ("a(b", "a(b", False),
        ("p{L}", r"\p{L}", False),
        ("anything", "", False),
    ],
)
def test_patterns_are_searched(text: str, pattern: str, found: bool) -> None:
    assert has_answer(text, [pattern], "regex") is found


def test_bad_patterns_are_counted_and_slow_ones_given_up() -> None:
    left_out: Counter[str] = Counter()
    look = finder(["(", "[z-a]", "(" * 9000, "(a|aa)+$", "a?" * 40 + "a" * 40 + "b", "river"], "regex", left_out)
    assert left_out == {"patterns that cannot be compiled": 3}
    assert not look("a" * 80 + "!") and not look("a" * 80 + "?") and look("the river")
    assert left_out["patterns dropped after a second on one passage"] == 1


@pytest.mark.parametrize(
    ("text", "answers", "spans"),
    [
        ("the river by the River.", ["river"], [(4, 9), (17, 22)]),
        ("the Nobel\nprize, the prize", ["Nobel Prize", "prize", "Nobel"], [(4, 9), (4, 15), (10, 15), (21, 26)]),
        ("Wilhelm Röntgen got it", ["röntgen"], [(8, 15)]),
        ("Wilhelm Ro\u0308ntgen got it", ["Röntgen"], [(8, 16)]),
        ("a a a", ["a a"], [(0, 3), (2, 5)]),  # they may overlap
        ("it cost $1,000.", ["1,000"], [(9, 14)]),
        ("İstanbul, 東京", ["東京"], [(10, 12)]),
        ("in 19015", ["1901", "", " "], []),
        ("", ["one"], []),
    ],
)
def test_places_are_those_of_the_characters(text: str, answers: list[str], spans: list[tuple[int, int]]) -> None:
    assert answer_spans(text, answers) == spans


LETTERS = "abÅéΣσςİıß1٣_-.,'’\"東\u0301\u200b\u00ad\n\t \u00a0\u2028\x1f\x85"
WORDS = st.sampled_from([*LETTERS, "ab", " the ", "\U0001f600"])
TEXTS = st.lists(WORDS, max_size=12).map("".join)


@settings(max_examples=400)
@given(TEXTS, st.lists(TEXTS, max_size=3))
def test_it_agrees_with_pyserini(text: str, answers: list[str]) -> None:
    judge = pytest.importorskip("pyserini.eval.evaluate_dpr_retrieval", reason="pyserini is not installed")
    tokenizer = judge.SimpleTokenizer()
    used = [answer for answer in answers if len(tokenizer.tokenize(answer))]  # an empty one is everywhere to Pyserini
    assert has_answer(text, used) == judge.has_answers(text, used, tokenizer)


@settings(max_examples=400)
@given(TEXTS, st.lists(TEXTS, max_size=3))
def test_there_are_places_where_there_is_an_answer(text: str, answers: list[str]) -> None:
    spans = answer_spans(text, answers)
    assert bool(spans) == has_answer(text, answers) and spans == sorted(set(spans))
    assert all(has_answer(text[begin:end], answers) for begin, end in spans)


@settings(max_examples=300)
@given(
    st.text("abAé1 \n-", max_size=12),
    st.lists(st.sampled_from(["a", "b", ".", "a*", "[ab]+", "(a|b)", "^", "$", r"\d", r"\w+", r"\b", "é", "?", "("]))
    .map("".join)
    .filter(lambda pattern: any(c.isalnum() for c in pattern) and sum(map(pattern.count, "*+")) < 2),
)
def test_patterns_agree_with_pyserini(text: str, pattern: str) -> None:
    judge = pytest.importorskip("pyserini.eval.evaluate_dpr_retrieval", reason="pyserini is not installed")
    assert has_answer(text, [pattern], "regex") == judge.has_answers(text, [pattern], None, regex=True)


def corpus(folder: Path) -> Corpus:
    write_corpus((Document(f"d{i}", text, "Danube") for i, text in enumerate(PASSAGES)), folder, Silent())
    return Corpus.open(folder)


def test_each_question_looks_into_its_own_passages(tmp_path: Path) -> None:
    answers = PassageAnswers(corpus(tmp_path), {"q1": ("rhine",), "q2": ("danube", ""), "q3": ()})
    rows = np.array([[0, 1, 2], [0, 3, -1], [0, 1, 3], [0, 1, 3]])
    found = answers.contained(["q1", "q2", "q3", "unknown"], rows)
    assert found.tolist() == [[True, True, False], [False, True, False], [False] * 3, [False] * 3]
    assert answers.contained(["q2"], np.array([[0, 1]])).tolist() == [[False, False]]
    lists = answers.in_lists(["q2", "q1", "q3"], [["d3"], ["d2", "elsewhere", "d1"], []])
    assert lists.tolist() == [[True, False, False], [False, False, True], [False] * 3]
    assert answers.in_lists([], []).shape == (0, 0)
    assert answers.left_out == {"answers without a word": 1} and answers.query_ids == ["q1", "q2"]


def test_patterns_and_more_questions_than_a_block(tmp_path: Path) -> None:
    answers = PassageAnswers(corpus(tmp_path), {f"q{i}": (r"19\d\d", "(") for i in range(600)}, "regex")
    query_ids = [f"q{i}" for i in range(600)]
    found = answers.contained(query_ids, np.tile([3, 1], (600, 1)))
    assert found.tolist() == [[False, True]] * 600
    assert answers.left_out == {"patterns that cannot be compiled": 600}
    assert answers.contained([], np.empty((0, 5), np.int64)).shape == (0, 5)


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
