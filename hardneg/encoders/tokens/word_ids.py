"""Token ids of texts by those of their words: each word is tokenised once, however often it occurs."""

from collections.abc import Sequence
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_KEPT = 1 << 18  # words, about 50 MB
_NORMALISERS = {"NoneType", "BertNormalizer", "Lowercase"}
_SPLITTERS = {"BertPreTokenizer", "Whitespace", "WhitespaceSplit"}
_MODELS = {"WordPiece", "WordLevel"}

Ids = tuple[NDArray[np.int32], NDArray[np.int64]]
"""Ids of n texts one after the other, int32 [sum of lengths], and where each text begins, int64 [n + 1]."""


def run_positions(begins: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The positions of runs of these lengths that begin there, one run after the other: int64 [sum of lengths]."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(begins - before, lengths) + np.arange(lengths.sum())


def encoded(tokenizer: "Tokenizer", texts: Sequence[str]) -> Ids:
    """The ids of texts by a tokenizer of the tokenizers library, without special tokens."""
    rows = [encoding.ids for encoding in tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return np.fromiter(chain.from_iterable(rows), np.int32, int(offsets[-1])), offsets


def goes_by_words(tokenizer: "Tokenizer") -> bool:
    """Whether a text's ids are those of its words in a row: blanks split words, and no token has one."""
    parts: list[tuple[Any, set[str]]] = [
        (tokenizer.normalizer, _NORMALISERS),
        (tokenizer.pre_tokenizer, _SPLITTERS),
        (tokenizer.model, _MODELS),
    ]
    added = (token.content for token in tokenizer.get_added_tokens_decoder().values())
    known = all(type(part).__name__ in names for part, names in parts)
    return known and not any(character.isspace() for content in added for character in content)


class WordIds:
    """The words that a tokenizer has seen, with their ids; threads may share it."""

    def __init__(self, tokenizer: "Tokenizer") -> None:
        self._tokenizer, self._lock = tokenizer, Lock()
        self._number: dict[str, int] = {}
        self._ids, self._first = np.empty(0, np.int32), np.zeros(1, np.int64)

    def of(self, texts: Sequence[str], most: int) -> Ids | None:
        """At least the first `most` ids of each text; None where most words are new.

        At first `most` words are read. Where ids are missing, as the empty word between two blanks has none, the texts
        are read to their ends.
        """
        parts = [text.replace("\n", " ").split(" ", most) for text in texts]
        longer = [number for number, words in enumerate(parts) if len(words) > most]
        for number in longer:
            parts[number].pop()
        ids = self._of_words(parts)
        if ids is None or not longer or (np.diff(ids[1])[longer] >= most).all():
            return ids
        return self._of_words([text.replace("\n", " ").split(" ") for text in texts])

    def _of_words(self, parts: Sequence[Sequence[str]]) -> Ids | None:
        counts = np.fromiter(map(len, parts), np.int64, len(parts))
        total = int(counts.sum())
        with self._lock:
            new = set().union(*parts) - self._number.keys()
            if 2 * len(new) > total:
                return None
            if new:
                ids, offsets = encoded(self._tokenizer, ordered := sorted(new))
                self._number.update(zip(ordered, range(len(self._number), len(self._number) + len(new)), strict=True))
                self._first = np.concatenate([self._first, self._first[-1] + offsets[1:]])
                self._ids = np.concatenate([self._ids, ids])
            words = np.fromiter(map(self._number.__getitem__, chain.from_iterable(parts)), np.int64, total)
            ids, first = self._ids, self._first
            if len(self._number) > _KEPT:
                self._number = {}
                self._ids, self._first = np.empty(0, np.int32), np.zeros(1, np.int64)
        lengths = np.diff(first)[words]
        ends = np.concatenate([[0], np.cumsum(lengths)])
        return ids[run_positions(first[words], lengths)], ends[np.concatenate([[0], np.cumsum(counts)])]
