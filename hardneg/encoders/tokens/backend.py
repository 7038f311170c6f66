"""The backend of a fast tokenizer of Hugging Face: ids as arrays, truncated, in the special tokens that it adds."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import chain
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

_OWN = ("__call__", "_encode_plus", "_convert_encoding", "set_truncation_and_padding")
_LETTERS = ("a", "1", ".")

Ids = tuple[NDArray[np.int32], NDArray[np.int64]]
"""Ids of n texts one after the other, int32 [sum of lengths], and where each text begins, int64 [n + 1]."""


def run_positions(begins: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The positions of runs of these lengths that begin there, one run after the other: int64 [sum of lengths]."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(begins - before, lengths) + np.arange(lengths.sum())


Typed = tuple[tuple[int, int], ...]
"""Ids, each with its type."""


@dataclass(frozen=True)
class Frame:
    """A text has one part, a pair has two.

    around: the tokens before the first part, between two, and after the last. types: of each part.
    """

    around: tuple[Typed, ...]
    types: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of special tokens."""
        return sum(map(len, self.around))

    @property
    def one_type(self) -> int | None:
        """The type of all tokens; None where there are several."""
        types = {*self.types, *(token_type for beside in self.around for _, token_type in beside)}
        return types.pop() if len(types) == 1 else None

    @classmethod
    def of(cls, tokenizer: Any, pair: bool) -> "Frame | None":
        """The frame of a tokenizer, probed with texts of one letter; None if these have no token."""
        frames = (_seen(tokenizer, [letter] * (1 + pair)) for letter in _LETTERS)
        return next((frame for frame in frames if frame is not None), None)

    def put(self, parts: Sequence[Ids]) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
        """Ids and types of n texts, int32 [sum of lengths], and where each text begins, int64 [n + 1]."""
        lengths = [np.diff(offsets) for _, offsets in parts]
        offsets = np.concatenate([[0], np.cumsum(np.sum(lengths, axis=0) + self.size)])
        ids, types = np.empty(offsets[-1], np.int32), np.empty(offsets[-1], np.int32)
        here = offsets[:-1].copy()
        for number, beside in enumerate(self.around):
            for token, token_type in beside:
                ids[here], types[here] = token, token_type
                here += 1
            if number < len(parts):
                values, begins = parts[number]
                positions = np.arange(len(values)) + np.repeat(here - begins[:-1], lengths[number])
                ids[positions], types[positions] = values, self.types[number]
                here += lengths[number]
        return ids, types, offsets


def _seen(tokenizer: Any, letters: list[str]) -> Frame | None:
    encoding = tokenizer.encode(*letters)
    of_part = encoding.sequence_ids
    positions = [[at for at, part in enumerate(of_part) if part == number] for number in range(len(letters))]
    if not all(positions):
        return None
    starts = [0, *(part[-1] + 1 for part in positions)]
    stops = [*(part[0] for part in positions), len(of_part)]
    tokens = list(zip(encoding.ids, encoding.type_ids, strict=True))
    around = tuple(tuple(tokens[start:stop]) for start, stop in zip(starts, stops, strict=True))
    return Frame(around, tuple(encoding.type_ids[part[0]] for part in positions))


class Backend:
    """A copy of a tokenizer of the tokenizers library that neither truncates nor pads; threads may share it."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = deepcopy(tokenizer)
        self._tokenizer.encode_special_tokens = tokenizer.encode_special_tokens
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.frames = {pair: frame for pair in (False, True) if (frame := Frame.of(self._tokenizer, pair))}

    def ids(self, texts: Sequence[str]) -> Ids:
        """The ids of texts without special tokens."""
        rows = [encoding.ids for encoding in self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]
        offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        return np.fromiter(chain.from_iterable(rows), np.int32, int(offsets[-1])), offsets

    def ids_of_repeated(self, texts: Sequence[str]) -> Ids:
        """The same for texts that may be repeated; each distinct one is tokenised once."""
        different = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        if len(different) == len(texts):
            return self.ids(texts)
        values, offsets = self.ids(list(different))
        rows = np.fromiter((different[text] for text in texts), np.int64, len(texts))
        lengths = np.diff(offsets)[rows]
        return values[run_positions(offsets[rows], lengths)], np.concatenate([[0], np.cumsum(lengths)])


def cut(ids: Ids, most: NDArray[np.int64] | int, left: bool = False) -> Ids:
    """Truncates texts to `most` ids, on the left side if `left`; most: of all, or of each, int64 [n]."""
    values, offsets = ids
    kept = np.minimum(lengths := np.diff(offsets), most)
    if (kept == lengths).all():
        return ids
    begins = offsets[1:] - kept if left else offsets[:-1]
    return values[run_positions(begins, kept)], np.concatenate([[0], np.cumsum(kept)])


def cut_pairs(first: Ids, second: Ids, most: int, left: bool) -> tuple[Ids, Ids]:
    """Truncates pairs to `most` ids together: the longer text first, until both have one length."""
    ones, others = np.diff(first[1]), np.diff(second[1])
    shorter = np.minimum(ones, others)
    half, fits = most // 2, ones + others <= most
    of_shorter = np.where(fits | (2 * shorter <= most), shorter, half)
    of_longer = np.where(fits, np.maximum(ones, others), most - of_shorter)
    longer = ones > others
    return (
        cut(first, np.where(longer, of_longer, of_shorter), left),
        cut(second, np.where(longer, of_shorter, of_longer), left),
    )


_known: WeakKeyDictionary[Any, tuple[object, Backend]] = WeakKeyDictionary()


def backend_of(tokenizer: Any, pairs: bool = False) -> Backend | None:
    """The backend of a Hugging Face tokenizer; None for slow ones, and for those that override its calls."""
    from transformers import PreTrainedTokenizerFast

    plain = isinstance(tokenizer, PreTrainedTokenizerFast) and all(
        getattr(type(tokenizer), name) is getattr(PreTrainedTokenizerFast, name) for name in _OWN
    )
    backend = own_backend(tokenizer, tokenizer.backend_tokenizer) if plain else None
    return backend if backend is not None and pairs in backend.frames else None


def own_backend(holder: Any, tokenizer: Any) -> Backend:
    """The copy of a tokenizer that belongs to `holder` while that lives; a new one if it has new tokens."""
    state = (tokenizer.get_vocab_size(), tokenizer.encode_special_tokens)
    entry = _known.get(holder)
    if entry is None or entry[0] != state:
        entry = _known[holder] = (state, Backend(tokenizer))
    return entry[1]
