"""Answers read from ranked passages: window by window of questions, in batches of about equal work."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

import hardneg.plugin as hp
from hardneg_reader.reader import PassageTokens, Reader, best_spans

WINDOW = 32
"""Questions that are read together."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question and its passages, best first: rows of the corpus, int64 [k]."""

    query_id: str
    text: str
    rows: NDArray[np.int64]


def questions(collection: hp.StoredCollection, split: str, run: Path, depth: int) -> Iterator[Question]:
    """Every question of the split in its order, with its first passages of a run's file; maybe without any.

    Raises:
        DataError: a passage is not in the corpus.
    """
    queries = collection.queries(split)
    for (query_id, text), ranked in zip(queries, hp.run_files.lists_in_order(run, queries.query_ids), strict=True):
        rows = collection.corpus.rows(ranked.doc_ids[:depth])
        if (rows < 0).any():
            missing = ranked.doc_ids[int(rows.argmin())]
            raise hp.errors.DataError(f"{run}: document {missing!r} is not in the corpus: search again in this corpus")
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
    reader: Reader, corpus: hp.Corpus, questions: Iterable[Question], options: ReadOptions
) -> Iterator[tuple[Question, dict[int, Answer]]]:
    """For each question its answer by number of passages, in order; up to 96 questions are held.

    The answer is the best span of the passage with the highest selection score among the first so many.

    Raises:
        ModelError: a score is not finite.

    Source: Karpukhin et al., Dense Passage Retrieval for Open-Domain Question Answering (EMNLP 2020), section 6.1.
    """
    waiting = iter(questions)
    with ThreadPoolExecutor(max_workers=1) as tokeniser:
        parts = iter(lambda: list(islice(waiting, WINDOW)), [])
        windows = (tokeniser.submit(_window, reader, corpus, part, max(options.passages)) for part in parts)
        for window in hp.towers.ahead(windows, 1):
            part, passages, tokens = window.result()
            columns = _forward(reader, tokens, options) if tokens else ()
            start = 0
            for question in part:
                counts = {count: min(len(question.rows), count) for count in options.passages}
                yield (
                    question,
                    {
                        count: _answer(passages, tokens, columns, start, start + many) if tokens else Answer()
                        for count, many in counts.items()
                    },
                )
                start += max(counts.values())


def _window(
    reader: Reader, corpus: hp.Corpus, questions: Sequence[Question], deepest: int
) -> tuple[Sequence[Question], Sequence[hp.Document], PassageTokens | None]:
    """Some questions, and the passages of all of them one after the other, as documents and as tokens."""
    passages = corpus.documents_at(np.concatenate([question.rows[:deepest] for question in questions]))
    texts = [question.text for question in questions for _ in question.rows[:deepest]]
    return questions, passages, reader.tokenise(texts, passages) if passages else None


def _answer(
    passages: Sequence[hp.Document], tokens: PassageTokens, columns: Sequence[NDArray[Any]], start: int, stop: int
) -> Answer:
    """The best span of the passage that is selected from `start` up to `stop`; columns: as `_forward` gives them."""
    selected, span, first, last = columns
    scores = np.where(np.isfinite(span[start:stop]), selected[start:stop], -np.inf)
    if not np.isfinite(scores).any():
        return Answer()
    row = start + int(scores.argmax())
    begin, end = tokens.characters(row, int(first[row]), int(last[row]))
    text = passages[row].text[begin:end]
    begin += len(text) - len(text.lstrip())
    text = text.strip()
    return Answer(text, passages[row].doc_id, begin, begin + len(text), float(selected[row]), float(span[row]))


def _forward(reader: Reader, passages: PassageTokens, options: ReadOptions) -> Sequence[NDArray[Any]]:
    """Of each passage its score, and of its best span the log-probability, the first and the last token: arrays [n]."""
    device, count = reader.device, len(passages.tokens.lengths)
    budget = options.tokens_per_batch or hp.towers.usual_budget(device)
    half = hp.towers.takes_bf16(options.precision, reader.module, "inference")
    autocast = torch.autocast(device.type, torch.bfloat16, enabled=half)
    columns = [*np.empty((2, count), np.float32), *np.empty((2, count), np.int64)]
    with hp.towers.evaluating(reader.module), torch.inference_mode(), autocast:
        for rows in hp.token_files.token_batches(passages.tokens.lengths, budget):
            features = {name: value.to(device) for name, value in passages.tokens.batch(rows).items()}
            starts, ends, selected = reader.module(features)
            found = (selected, *best_spans(starts, ends, reader.spec.answer_length))
            for column, values in zip(columns, found, strict=True):
                column[rows] = values.cpu().numpy()
    if not np.isfinite(columns[0]).all():
        raise hp.errors.ModelError(
            "the reader gives a score that is not finite: check its weights, or use precision fp32"
        )
    return columns
