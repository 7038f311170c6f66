"""Questions with passages as tokens, and which characters of a passage each token is."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.plugin import Document, Tokens

ANSWERABLE = "answerable"
"""The column that says of each token whether it may be in an answer: 1 in a passage's text, else 0."""


@dataclass(frozen=True, slots=True)
class PassageTokens:
    """n questions, each read together with one passage.

    tokens: the network's inputs, and the column `ANSWERABLE`.
    begins, ends: int64 [sum of lengths], the characters of the passage's text that a token is, from and up to; 0 and 0
    for tokens that are not of the text: those of the question and the title, and special ones.
    """

    tokens: Tokens
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]

    def characters(self, row: int, first: int, last: int) -> tuple[int, int]:
        """The characters of the text from token `first` of a row to token `last`, counted from the row's beginning."""
        offset = int(self.tokens.offsets[row])
        return int(self.begins[offset + first]), int(self.ends[offset + last])

    def spans(self, row: int, stretches: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """The first and last token of each of some places in a row's text; those that are not read are left out."""
        offset, end = self.tokens.offsets[row : row + 2]
        here = offset + np.flatnonzero(self.tokens.columns[ANSWERABLE][offset:end])
        begins, ends = self.begins[here], self.ends[here]
        covered = []
        for begin, stop in stretches:
            first = int(np.searchsorted(ends, begin, "right"))
            last = int(np.searchsorted(begins, stop, "left")) - 1
            if first <= last and begins[first] <= begin and ends[last] >= stop:
                covered.append((int(here[first] - offset), int(here[last] - offset)))
        return list(dict.fromkeys(covered))


def tokenise_passages(
    tokenizer: Any, questions: Sequence[str], passages: Sequence[Document], length: int
) -> PassageTokens:
    """Each question with its passage, title first, by a fast Hugging Face tokenizer, cut to `length` tokens."""
    encoded = tokenizer(
        list(questions),
        [passage.contents for passage in passages],
        truncation="longest_first",
        max_length=length,
        return_offsets_mapping=True,
    )
    stretches = encoded.pop("offset_mapping")
    offsets = np.cumsum([0, *map(len, encoded["input_ids"])], dtype=np.int64)
    size = int(offsets[-1])
    columns = {name: np.fromiter(chain.from_iterable(rows), np.int32, size) for name, rows in encoded.items()}
    of_passage = np.fromiter(
        (part == 1 for row in range(len(questions)) for part in encoded.sequence_ids(row)), bool, size
    )
    title = np.array([len(passage.contents) - len(passage.text) for passage in passages], np.int64)
    characters = np.array(list(chain.from_iterable(stretches)), np.int64).reshape(size, 2)
    characters -= np.repeat(title, np.diff(offsets))[:, None]
    answerable = of_passage & (characters[:, 1] > 0)
    columns[ANSWERABLE] = answerable.astype(np.int32)
    characters = np.maximum(characters, 0) * answerable.astype(np.int64)[:, None]
    padding = {"input_ids": tokenizer.pad_token_id or 0, "token_type_ids": tokenizer.pad_token_type_id}
    return PassageTokens(Tokens(columns, offsets, padding, False, 0), characters[:, 0], characters[:, 1])
