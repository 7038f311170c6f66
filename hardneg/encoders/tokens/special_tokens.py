"""The special tokens that a tokenizer puts around a text or a pair of texts, and the type of every token."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.encoders.tokens.word_ids import Ids

_LETTERS = ("a", "1", ".")

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
