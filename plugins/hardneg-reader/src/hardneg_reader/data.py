"""What a reader learns from: questions, and their ranked passages with and without an answer."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from hardneg.plugin import Corpus, PassageAnswers, TrainingData, answer_spans
from hardneg_reader.answering import Question
from hardneg_reader.reader import Reader

_QUESTIONS = 256


@dataclass(frozen=True, eq=False)
class ReadingData:
    """The questions with their passages, the answers by question, and how much cannot be learnt from, by reason.

    A passage is a positive where an answer is in the part of it that is read; those that have none are negatives, but
    for known positives.
    """

    examples: TrainingData
    answers: Mapping[str, Sequence[str]]
    left_out: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class PassageLists:
    """Passages by question, as `hardneg.training.examples.NegativeLists`.

    rows: int64 [P], rows of the corpus, question by question. starts: int64 [Q + 1], where each question's begin.
    """

    corpus: Corpus
    query_ids: list[str]
    rows: NDArray[np.int64]
    starts: NDArray[np.int64]

    @property
    def counts(self) -> NDArray[np.int64]:
        """int64 [Q], how many each question has."""
        return np.diff(self.starts)

    def pick(self, row: int, positions: NDArray[np.int64]) -> list[str]:
        """The ids of a question's passages at these positions."""
        return self.corpus.ids(self.rows[self.starts[row] + positions])


@dataclass(frozen=True)
class Answered:
    """The answers to questions, and what is known to be relevant to them, by question."""

    answers: Mapping[str, Sequence[str]]
    known: Mapping[str, Sequence[str]]


def reading_data(reader: Reader, corpus: Corpus, questions: Iterable[Question], answered: Answered) -> ReadingData:
    """Sorts the passages of each question into those that an answer can be read from and those that have none."""
    passages, left_out = PassageAnswers(corpus, answered.answers), Counter[str]()
    query_ids, texts = list[str](), list[str]()
    positives, negatives = dict[str, list[str]](), list[NDArray[np.int64]]()
    waiting = iter(questions)
    while block := list(islice(waiting, _QUESTIONS)):
        answered_rows = _with_answer(block, passages)
        readable = _readable(reader, corpus, block, answered_rows, answered.answers)
        answered_count, readable_count = sum(int(row.sum()) for row in answered_rows), sum(map(len, readable))
        left_out["passages whose answers are behind what is read"] += answered_count - readable_count
        for question, has, kept in zip(block, answered_rows, readable, strict=True):
            query_ids.append(question.query_id)
            texts.append(question.text)
            positives[question.query_id] = corpus.ids(kept)
            relevant = corpus.rows(answered.known.get(question.query_id, ()))
            negatives.append(question.rows[~has & ~np.isin(question.rows, relevant)])
    rows = np.concatenate([np.empty(0, np.int64), *negatives])
    lists = PassageLists(corpus, query_ids, rows, np.cumsum([0, *map(len, negatives)], dtype=np.int64))
    left_out.update(passages.left_out)
    return ReadingData(TrainingData(corpus, query_ids, texts, positives, lists), answered.answers, +left_out)


def _with_answer(block: Sequence[Question], passages: PassageAnswers) -> list[NDArray[np.bool_]]:
    """Which of each question's passages have an answer."""
    longest = max(len(question.rows) for question in block)
    rows = np.stack(
        [np.pad(question.rows, (0, longest - len(question.rows)), constant_values=-1) for question in block]
    )
    contained = passages.contained([question.query_id for question in block], rows)
    return [row[: len(question.rows)] for row, question in zip(contained, block, strict=True)]


def _readable(
    reader: Reader,
    corpus: Corpus,
    block: Sequence[Question],
    answered_rows: Sequence[NDArray[np.bool_]],
    answers: Mapping[str, Sequence[str]],
) -> list[NDArray[np.int64]]:
    """The rows of those that have an answer in what is read of them, by question, in the order of the list."""
    pairs = [
        (i, int(row))
        for i, (question, has) in enumerate(zip(block, answered_rows, strict=True))
        for row in question.rows[has]
    ]
    kept: list[list[int]] = [[] for _ in block]
    if pairs:
        documents = corpus.documents_at(np.array([row for _, row in pairs]))
        tokens = reader.tokenise([block[i].text for i, _ in pairs], documents)
        for number, ((i, row), document) in enumerate(zip(pairs, documents, strict=True)):
            if tokens.spans(number, answer_spans(document.text, answers[block[i].query_id])):
                kept[i].append(row)
    return [np.array(rows, np.int64) for rows in kept]
