"""Answers in the passages of a stored corpus."""

from pathlib import Path

import numpy as np

from hardneg.data.corpus import Corpus, write_corpus
from hardneg.data.passage_answers import PassageAnswers
from hardneg.progress import Silent
from hardneg.types import Document

PASSAGES = ["the river Rhine", "in 1901 at the Rhine", "nothing", "Danube"]


def corpus(folder: Path) -> Corpus:
    write_corpus((Document(f"d{i}", text, "Danube") for i, text in enumerate(PASSAGES)), folder, Silent())
    return Corpus.open(folder)


def test_each_question_looks_into_its_own_passages(tmp_path: Path) -> None:
    answers = PassageAnswers(corpus(tmp_path), {"q1": ("rhine",), "q2": ("danube", ""), "q3": ()})
    rows = np.array([[0, 1, 2], [0, 3, -1], [0, 1, 3], [0, 1, 3]])
    found = answers.contained(["q1", "q2", "q3", "unknown"], rows)
    assert found.tolist() == [[True, True, False], [False, True, False], [False] * 3, [False] * 3]
    assert answers.contained(["q2"], np.array([[0, 1]])).tolist() == [[False, False]]
    assert answers.in_lists(["q2", "q1", "q3"], [["d3"], ["d2", "elsewhere", "d1"], []]).tolist() == [
        [True, False, False],
        [False, False, True],
        [False] * 3,
    ]
    assert answers.in_lists([], []).shape == (0, 0)
    assert answers.left_out == {"answers without a word": 1} and answers.query_ids == ["q1", "q2"]


def test_patterns_and_more_questions_than_a_block(tmp_path: Path) -> None:
    answers = PassageAnswers(corpus(tmp_path), {f"q{i}": (r"19\d\d", "(") for i in range(600)}, "regex")
    query_ids = [f"q{i}" for i in range(600)]
    found = answers.contained(query_ids, np.tile([3, 1], (600, 1)))
    assert found.tolist() == [[False, True]] * 600
    assert answers.left_out == {"patterns that cannot be compiled": 600}
    assert answers.contained([], np.empty((0, 5), np.int64)).shape == (0, 5)
