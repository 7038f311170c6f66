"""Reading answers from ranked passages, in windows of questions and batches of similar length."""

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
"""The number of questions read together."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the corpus rows of its passages, int64 [k], best first."""

    query_id: str
    text: str
    rows: NDArray[np.int64]


def questions(collection: hp.StoredCollection, split: str, run: Path, depth: int) -> Iterator[Question]:
    """Yield every question of the split in order, with up to `depth` top passages from its ranking in the run file.

    Raises:
        DataError: a passage is not in the corpus.
    """
    queries = collection.queries(split)
    for (query_id, text), ranked in zip(queries, hp.run_files.lists_in_order(run, queries.query_ids), strict=True):
        rows = collection.corpus.rows(ranked.doc_ids[:depth])
        if (rows < 0).any():
            missing = ranked.doc_ids[int(rows.argmin())]
            raise hp.errors.DataError(f"{run}: document {missing!r} is not in the corpus; search this corpus again")
        yield Question(query_id, text, rows)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: the characters `begin` to `end` of a document's text; empty if no answer was found.

    selected: the selection score of the passage; span: the log-probability of the span in the passage.
    """

    text: str = ""
    doc_id: str = ""
    begin: int = 0
    end: int = 0
    selected: float = -np.inf
    span: float = -np.inf


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of reading. passages: numbers of top passages to read; each number gets a separate answer.

    precision: `auto` is bfloat16 where it is faster. tokens_per_batch: maximum number of rows times padded length per
    forward pass; None is the device's default.
    """

    passages: Sequence[int]
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    tokens_per_batch: int | None = None


def read(
    reader: Reader, corpus: hp.Corpus, questions: Iterable[Question], options: ReadOptions
) -> Iterator[tuple[Question, dict[int, Answer]]]:
    """Yield each question with its answers by number of passages, in order; up to 96 questions are in memory.

    The answer from the top k is the best span of the passage with the highest selection score, empty if there is none.

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
    """Return the questions, and the top `deepest` passages of each, concatenated, as documents and as tokens."""
    passages = corpus.documents_at(np.concatenate([question.rows[:deepest] for question in questions]))
    texts = [question.text for question in questions for _ in question.rows[:deepest]]
    return questions, passages, reader.tokenise(texts, passages) if passages else None


def _answer(
    passages: Sequence[hp.Document], tokens: PassageTokens, columns: Sequence[NDArray[Any]], start: int, stop: int
) -> Answer:
    """Return the best span of the passage selected from `start` to `stop`; columns: the result of `_forward`."""
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
    """Return the score of each passage, and the log-probability, first and last token of its best span: arrays [n]."""
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
            "the reader returned a score that is not finite; check its weights, or use precision fp32"
        )
    return columns
