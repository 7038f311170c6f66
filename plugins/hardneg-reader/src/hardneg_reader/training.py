"""The training of readers: a passage that has an answer and several that have none; judged on dev questions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from hardneg.plugin import (
    Corpus,
    Examples,
    ExampleTraining,
    LearningOptions,
    SampledBatch,
    TrainingError,
    answer_spans,
    digest,
    gather,
    own_share,
)
from hardneg_reader.answering import Question, ReadOptions, read
from hardneg_reader.data import ReadingData
from hardneg_reader.exact_match import exact_match, f1
from hardneg_reader.reader import Reader
from hardneg_reader.spans import span_log_likelihood


@dataclass(frozen=True, slots=True)
class ReadingBatch:
    """One batch of questions.

    features: of this process's share, `passages` rows a question, the first one with an answer. spans: int64 [b, S, 2],
    first and last tokens of the answers in that one. there: bool [b, S], false for padding.
    """

    query_ids: list[str]
    features: dict[str, Tensor]
    passages: int
    spans: Tensor
    there: Tensor


@dataclass(frozen=True, slots=True)
class ReadingScores:
    """What the network says of B questions, those of all processes.

    selected: float32 [B, m], the scores of the passages; the first has the answer. spans: float32 [B], the
    log-probability of the answer's spans in it.
    """

    selected: Tensor
    spans: Tensor


@dataclass(frozen=True)
class ReadingLoss:
    """The passage with the answer is to be selected, and the answer marked in it: the mean over questions of both.

    Source: Karpukhin et al., Dense Passage Retrieval for Open-Domain Question Answering (EMNLP 2020), section 6.1.
    """

    version: ClassVar[int] = 1

    def __call__(self, batch: ReadingScores) -> Tensor:
        """Minus the log-probability of the passage among those of its question, and of all spans that are answers."""
        selected = torch.log_softmax(batch.selected, 1)[:, 0]
        return -(selected + batch.spans).mean()


class ReaderTraining(ExampleTraining):
    """Trains a reader; the passages of a question are drawn anew in each epoch."""

    def __init__(self, reader: Reader, data: ReadingData, options: LearningOptions) -> None:
        self.encoder = reader
        self.trainable: nn.Module = reader.module
        self.forward_module: nn.Module = reader.module
        self._data = data
        self.examples = Examples(data.examples, options.negatives_per_query, options.seed, options.drawing)

    @property
    def skipped(self) -> Mapping[str, int]:
        """How much was left out, by reason."""
        return {**self._data.left_out, **self.examples.skipped}

    def digest(self) -> str:
        """That of the examples, and how much is read of them."""
        return digest([self.examples.digest(), self.encoder.spec.length])

    def scores(self, model: Any, batch: ReadingBatch, half: bool) -> ReadingScores:
        """The selection among a question's passages, and the likelihood of the answer's spans."""
        device = self.encoder.device
        with torch.autocast(device.type, torch.bfloat16, enabled=half):
            starts, ends, selected = model({name: value.to(device) for name, value in batch.features.items()})
        spans, there = batch.spans.to(device), batch.there.to(device)
        marked = span_log_likelihood(starts[:: batch.passages], ends[:: batch.passages], spans, there)
        both = torch.column_stack([selected.view(-1, batch.passages), marked])
        both = gather(both, len(batch.query_ids))
        return ReadingScores(both[:, :-1], both[:, -1])

    def make(self, drawn: SampledBatch) -> ReadingBatch:
        """The questions of this process's share, each with its passages."""
        own = own_share(len(drawn.texts))
        count = drawn.documents.shape[1]
        passages = self._data.examples.corpus.documents_at(drawn.documents[own].reshape(-1))
        tokens = self.encoder.tokenise([text for text in drawn.texts[own] for _ in range(count)], passages)
        spans = [
            tokens.spans(i * count, answer_spans(passages[i * count].text, self._data.answers[query_id]))
            for i, query_id in enumerate(drawn.query_ids[own])
        ]
        features = tokens.tokens.batch(np.arange(len(passages)))
        return ReadingBatch(drawn.query_ids, features, count, *padded_spans(spans))


def padded_spans(spans: list[list[tuple[int, int]]]) -> tuple[Tensor, Tensor]:
    """Spans by question as int64 [b, S, 2], and which of them are there, bool [b, S]."""
    most = max(map(len, spans))
    padded = torch.zeros((len(spans), most, 2), dtype=torch.int64)
    there = torch.zeros((len(spans), most), dtype=torch.bool)
    for row, own in enumerate(spans):
        padded[row, : len(own)] = torch.tensor(own)
        there[row, : len(own)] = True
    return padded, there


def reading_validation(
    reader: Reader, corpus: Corpus, questions: Sequence[Question], answers: Mapping[str, Sequence[str]]
) -> Callable[[], dict[str, float]]:
    """Measures exact match and F1 over the questions that have answers; each reads all of its passages.

    Raises:
        TrainingError: no question has an answer.
    """
    answerable = [question for question in questions if answers.get(question.query_id)]
    if not answerable:
        raise TrainingError(f"none of the {len(questions)} dev questions has an answer: take more of them")
    deepest = max(len(question.rows) for question in answerable) or 1

    def measure() -> dict[str, float]:
        answers_read = read(reader, corpus, answerable, ReadOptions((deepest,)))
        pairs = [(answer[deepest].text, answers[question.query_id]) for question, answer in answers_read]
        measures = {"exact_match": exact_match, "f1": f1}
        return {name: float(np.mean([score(*pair) for pair in pairs])) for name, score in measures.items()}

    return measure
