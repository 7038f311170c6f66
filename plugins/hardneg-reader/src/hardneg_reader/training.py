"""Training of readers on one passage with an answer and several without, and validation on dev questions.

Source: Karpukhin et al., Dense Passage Retrieval for Open-Domain Question Answering (EMNLP 2020), section 6.1.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import hardneg.plugin as hp
from hardneg.plugin import stores
from hardneg_reader.answering import Question, ReadOptions, read
from hardneg_reader.read import MEASURES
from hardneg_reader.reader import Reader, span_log_likelihood

_QUESTIONS = 256


@dataclass(frozen=True, eq=False)
class ReadingData:
    """Questions with their passages, answers by question id, and counts of unused data by reason.

    A passage is a positive if an answer is in the part that is read. Other passages are negatives if they contain no
    answer and are not known positives.
    """

    examples: hp.training_examples.TrainingData
    answers: Mapping[str, Sequence[str]]
    left_out: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class PassageLists:
    """Passages by question, with the interface of `hardneg.training.examples.NegativeLists`.

    rows: int64 [P], passages' corpus rows, by question. starts: int64 [Q + 1], each question's start in `rows`, then P.
    """

    corpus: hp.Corpus
    query_ids: list[str]
    rows: NDArray[np.int64]
    starts: NDArray[np.int64]

    @property
    def counts(self) -> NDArray[np.int64]:
        """The number of passages of each question: int64 [Q]."""
        return np.diff(self.starts)

    def pick(self, row: int, positions: NDArray[np.int64]) -> list[str]:
        """Return the ids of the passages at the given positions in the list of question number `row`."""
        return self.corpus.ids(self.rows[self.starts[row] + positions])


def reading_data(
    reader: Reader,
    corpus: hp.Corpus,
    questions: Iterable[Question],
    answers: Mapping[str, Sequence[str]],
    known: Mapping[str, Sequence[str]],
) -> ReadingData:
    """Split the passages of each question into positives, with a readable answer, and negatives, without an answer.

    Passages with only truncated answers, and relevant ones without an answer, are neither. answers, known: the answers
    and the relevant documents by query id.
    """
    passages, left_out = hp.texts.PassageAnswers(corpus, answers), Counter[str]()
    query_ids, texts = list[str](), list[str]()
    positives, negatives = dict[str, list[str]](), list[NDArray[np.int64]]()
    waiting = iter(questions)
    while block := list(islice(waiting, _QUESTIONS)):
        longest = max(len(question.rows) for question in block)
        padded = [np.pad(each.rows, (0, longest - len(each.rows)), constant_values=-1) for each in block]
        contained = passages.contained([question.query_id for question in block], np.stack(padded))
        answered = [row[: len(question.rows)] for row, question in zip(contained, block, strict=True)]
        readable = _readable(reader, corpus, block, answered, answers)
        behind = sum(int(row.sum()) for row in answered) - sum(map(len, readable))
        left_out["passages with answers only in the truncated part"] += behind
        for question, has, rows_read in zip(block, answered, readable, strict=True):
            query_ids.append(question.query_id)
            texts.append(question.text)
            positives[question.query_id] = corpus.ids(rows_read)
            relevant = corpus.rows(known.get(question.query_id, ()))
            negatives.append(question.rows[~has & ~np.isin(question.rows, relevant)])
    rows = np.concatenate([np.empty(0, np.int64), *negatives])
    lists = PassageLists(corpus, query_ids, rows, np.cumsum([0, *map(len, negatives)], dtype=np.int64))
    left_out.update(passages.left_out)
    return ReadingData(
        hp.training_examples.TrainingData(corpus, query_ids, texts, positives, lists), answers, +left_out
    )


def _readable(
    reader: Reader,
    corpus: hp.Corpus,
    block: Sequence[Question],
    answered_rows: Sequence[NDArray[np.bool_]],
    answers: Mapping[str, Sequence[str]],
) -> list[NDArray[np.int64]]:
    """Return the rows of the passages with an answer in the part that is read, by question, in list order."""
    pairs = [
        (i, int(row))
        for i, (question, has) in enumerate(zip(block, answered_rows, strict=True))
        for row in question.rows[has]
    ]
    rows_read: list[list[int]] = [[] for _ in block]
    if pairs:
        documents = corpus.documents_at(np.array([row for _, row in pairs]))
        tokens = reader.tokenise([block[i].text for i, _ in pairs], documents)
        for number, ((i, row), document) in enumerate(zip(pairs, documents, strict=True)):
            if tokens.spans(number, hp.texts.answer_spans(document.text, answers[block[i].query_id])):
                rows_read[i].append(row)
    return [np.array(rows, np.int64) for rows in rows_read]


@dataclass(frozen=True, slots=True)
class ReadingBatch:
    """One batch of questions.

    features: tokens of this process's questions, `passages` rows per question; the first row has the answers.
    spans: int64 [b, S, 2], first and last token of each answer in that row. there: bool [b, S], false for padding.
    """

    query_ids: list[str]
    features: dict[str, Tensor]
    passages: int
    spans: Tensor
    there: Tensor


@dataclass(frozen=True, slots=True)
class ReadingScores:
    """The network's scores for the B questions of all processes.

    selected: float32 [B, m], the scores of the passages; the first passage has the answer. spans: float32 [B], the
    log-probability that the span marked in the first passage is an answer.
    """

    selected: Tensor
    spans: Tensor


@dataclass(frozen=True)
class ReadingLoss:
    """The mean over questions of two losses: selecting the passage with the answer, and marking the answer in it."""

    version: ClassVar[int] = 1

    def __call__(self, batch: ReadingScores) -> Tensor:
        """Return the mean negative log-likelihood of selecting the first passage and of marking one of its answers."""
        selected = torch.log_softmax(batch.selected, 1)[:, 0]
        return -(selected + batch.spans).mean()


class ReaderTraining(hp.ExampleTraining):
    """Trains a reader on passages that are redrawn for each question in every epoch."""

    def __init__(self, reader: Reader, data: ReadingData, options: hp.training_options.LearningOptions) -> None:
        self.encoder = reader
        self.trainable: nn.Module = reader.module
        self.forward_module: nn.Module = reader.module
        self._data = data
        self.examples = hp.training_examples.Examples(data.examples, options.negatives_per_query, options.seed, options)

    @property
    def skipped(self) -> Mapping[str, int]:
        """The counts of unused data by reason."""
        return {**self._data.left_out, **self.examples.skipped}

    def digest(self) -> str:
        """Return a digest of the examples and of the maximum number of tokens."""
        return stores.digest([self.examples.digest(), self.encoder.spec.length])

    def scores(self, model: Any, batch: ReadingBatch, half: bool) -> ReadingScores:
        """Return the selection scores and the answers' log-likelihood for the questions of all processes."""
        device = self.encoder.device
        with torch.autocast(device.type, torch.bfloat16, enabled=half):
            starts, ends, selected = model({name: value.to(device) for name, value in batch.features.items()})
        spans, there = batch.spans.to(device), batch.there.to(device)
        marked = span_log_likelihood(starts[:: batch.passages], ends[:: batch.passages], spans, there)
        both = torch.column_stack([selected.view(-1, batch.passages), marked])
        both = hp.runtime.gather(both, len(batch.query_ids))
        return ReadingScores(both[:, :-1], both[:, -1])

    def make(self, drawn: hp.training_examples.SampledBatch) -> ReadingBatch:
        """Tokenise this process's share of the questions, each with all its passages, and find the answers' spans."""
        own = hp.own_share(len(drawn.texts))
        count = drawn.documents.shape[1]
        passages = self._data.examples.corpus.documents_at(drawn.documents[own].reshape(-1))
        tokens = self.encoder.tokenise([text for text in drawn.texts[own] for _ in range(count)], passages)
        spans = [
            tokens.spans(i * count, hp.texts.answer_spans(passages[i * count].text, self._data.answers[query_id]))
            for i, query_id in enumerate(drawn.query_ids[own])
        ]
        features = tokens.tokens.batch(np.arange(len(passages)))
        return ReadingBatch(drawn.query_ids, features, count, *padded_spans(spans))


def padded_spans(spans: list[list[tuple[int, int]]]) -> tuple[Tensor, Tensor]:
    """Return the spans of b questions, int64 [b, S, 2], padded with 0, and a mask, bool [b, S], false for padding."""
    most = max(map(len, spans))
    padded = torch.zeros((len(spans), most, 2), dtype=torch.int64)
    there = torch.zeros((len(spans), most), dtype=torch.bool)
    for row, own in enumerate(spans):
        padded[row, : len(own)] = torch.tensor(own)
        there[row, : len(own)] = True
    return padded, there


def reading_validation(
    reader: Reader, corpus: hp.Corpus, questions: Sequence[Question], answers: Mapping[str, Sequence[str]]
) -> Callable[[], dict[str, float]]:
    """Return a function that reads all passages of the questions with answers and measures `exact_match` and `f1`.

    Raises:
        TrainingError: no question has an answer.
    """
    answerable = [question for question in questions if answers.get(question.query_id)]
    if not answerable:
        raise hp.errors.TrainingError(f"none of the {len(questions)} dev questions has an answer; use more questions")
    deepest = max(len(question.rows) for question in answerable) or 1

    def measure() -> dict[str, float]:
        answers_read = read(reader, corpus, answerable, ReadOptions((deepest,)))
        pairs = [(answer[deepest].text, answers[question.query_id]) for question, answer in answers_read]
        return {name: float(np.mean([score(*pair) for pair in pairs])) for name, score in MEASURES.items()}

    return measure
