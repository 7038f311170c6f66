"""Answers read from ranked passages: window by window of questions, in batches of about equal work."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from hardneg.plugin import (
    Corpus,
    DataError,
    Document,
    ModelError,
    StoredCollection,
    one_ahead,
    run_files,
    takes_bf16,
    token_batches,
    towers,
    usual_tokens_per_batch,
)
from hardneg_reader.reader import Reader
from hardneg_reader.spans import best_spans
from hardneg_reader.tokens import PassageTokens

WINDOW = 32
"""Questions that are read together."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question and its passages, best first: rows of the corpus, int64 [k]."""

    query_id: str
    text: str
    rows: NDArray[np.int64]


def questions(collection: StoredCollection, split: str, run: Path, depth: int) -> Iterator[Question]:
    """Every question of the split in its order, with its first passages of a run's file; maybe without any.

    Raises:
        DataError: a passage is not in the corpus.
    """
    queries = collection.queries(split)
    for (query_id, text), ranked in zip(queries, run_files.lists_in_order(run, queries.query_ids), strict=True):
        rows = collection.corpus.rows(ranked.doc_ids[:depth])
        if (rows < 0).any():
            missing = ranked.doc_ids[int(rows.argmin())]
            raise DataError(f"{run}: document {missing!r} is not in the corpus: search again in this corpus")
        yield Question(query_id, text, rows)


@dataclass(frozen=True, slots=True)
class Answer:
    """What was read: the characters `begin` up to `end` of the text of a document; no document where nothing was found.

    selected: the score of the passage; span: the log-probability of the span in it.
    """

    text: str = ""
    doc_id: str = ""
    begin: int = 0
    end: int = 0
    selected: float = -np.inf
    span: float = -np.inf


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """passages: how many of the first passages to read; each number gives answers of its own.

    precision: `auto` is bfloat16 where a trial finds it faster. tokens_per_batch: the most rows times padded length of
    one forward pass; none is the usual of the device.
    """

    passages: Sequence[int]
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    tokens_per_batch: int | None = None


def read(
    reader: Reader, corpus: Corpus, questions: Iterable[Question], options: ReadOptions
) -> Iterator[tuple[Question, dict[int, Answer]]]:
    """For each question its answer by number of passages, in order; up to 96 questions are held.

    The answer is the best span of the passage with the highest selection score among the first so many.

    Raises:
        ModelError: a score is not finite.

    Source: Karpukhin et al., Dense Passage Retrieval for Open-Domain Question Answering (EMNLP 2020), section 6.1.
    """
    with ThreadPoolExecutor(max_workers=1) as tokeniser:
        deepest = max(options.passages)
        windows = (tokeniser.submit(_window, reader, corpus, part, deepest) for part in _parts(questions))
        for waiting in one_ahead(windows):
            yield from _answers(reader, waiting.result(), options)


@dataclass(frozen=True, slots=True)
class _Window:
    """Some questions, and the passages of all of them one after the other: of question i from `bounds[i]` on."""

    questions: Sequence[Question]
    passages: Sequence[Document]
    bounds: NDArray[np.int64]
    tokens: PassageTokens | None


@dataclass(frozen=True, slots=True)
class _Read:
    """Of each passage: its score, and its best span with the log-probability of that; arrays [n]."""

    selected: NDArray[np.float32]
    span: NDArray[np.float32]
    first: NDArray[np.int64]
    last: NDArray[np.int64]


def _parts(questions: Iterable[Question]) -> Iterator[list[Question]]:
    part: list[Question] = []
    for question in questions:
        part.append(question)
        if len(part) == WINDOW:
            yield part
            part = []
    if part:
        yield part


def _window(reader: Reader, corpus: Corpus, questions: Sequence[Question], deepest: int) -> _Window:
    rows = [question.rows[:deepest] for question in questions]
    bounds = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    passages = corpus.documents_at(np.concatenate(rows))
    texts = [question.text for question, own in zip(questions, rows, strict=True) for _ in range(len(own))]
    return _Window(questions, passages, bounds, reader.tokenise(texts, passages) if passages else None)


def _answers(reader: Reader, window: _Window, options: ReadOptions) -> Iterator[tuple[Question, dict[int, Answer]]]:
    spans = None if window.tokens is None else _forward(reader, window.tokens, options)
    for number, question in enumerate(window.questions):
        start, end = window.bounds[number : number + 2].tolist()
        answers = {}
        for count in options.passages:
            stop = min(end, start + count)
            answers[count] = Answer() if spans is None else _answer(window, spans, start, stop)
        yield question, answers


def _answer(window: _Window, spans: _Read, start: int, stop: int) -> Answer:
    """The best span of the passage that is selected from `start` up to `stop`."""
    assert window.tokens is not None
    scores = np.where(np.isfinite(spans.span[start:stop]), spans.selected[start:stop], -np.inf)
    if not np.isfinite(scores).any():
        return Answer()
    row = start + int(scores.argmax())
    begin, end = window.tokens.characters(row, int(spans.first[row]), int(spans.last[row]))
    passage = window.passages[row]
    text, scores_of_row = passage.text[begin:end], (float(spans.selected[row]), float(spans.span[row]))
    begin += len(text) - len(text.lstrip())
    return Answer(text.strip(), passage.doc_id, begin, begin + len(text.strip()), *scores_of_row)


def _forward(reader: Reader, passages: PassageTokens, options: ReadOptions) -> _Read:
    device, count = reader.device, len(passages.tokens.lengths)
    budget = options.tokens_per_batch or usual_tokens_per_batch(device)
    half = takes_bf16(options.precision, reader.module, "inference")
    autocast = torch.autocast(device.type, torch.bfloat16, enabled=half)
    spans = _Read(np.empty(count, np.float32), np.empty(count, np.float32), *np.empty((2, count), np.int64))
    with towers.evaluating(reader.module), torch.inference_mode(), autocast:
        for rows in token_batches(passages.tokens.lengths, budget):
            features = {name: value.to(device) for name, value in passages.tokens.batch(rows).items()}
            starts, ends, selected = reader.module(features)
            span, first, last = best_spans(starts, ends, reader.spec.answer_length)
            spans.selected[rows], spans.span[rows] = selected.cpu().numpy(), span.cpu().numpy()
            spans.first[rows], spans.last[rows] = first.cpu().numpy(), last.cpu().numpy()
    if not np.isfinite(spans.selected).all():
        raise ModelError("the reader gives a score that is not finite: check its weights, or use precision fp32")
    return spans
