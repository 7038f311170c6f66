"""Texts as encoders give them: taken by row, sliced, joined."""

import numpy as np

from hardneg.records.types import TokenVectors

TOKENS = TokenVectors(np.array([0, 1, 3, 3]), np.arange(6, dtype=np.float32).reshape(3, 2))


def test_rows_are_taken_in_the_order_asked_for() -> None:
    taken = TOKENS[np.array([1, 0, 0, 2])]
    assert taken.offsets.tolist() == [0, 2, 3, 4, 4] and len(taken) == 4
    assert taken.vectors[:, 0].tolist() == [2, 4, 0, 0]


def test_a_slice_is_a_part_and_may_be_empty() -> None:
    part = TOKENS[1:3]
    assert part.offsets.tolist() == [0, 2, 2] and part.vectors.tolist() == [[2, 3], [4, 5]]
    assert len(TOKENS[3:3]) == 0 and TOKENS[3:1].vectors.shape == (0, 2)
    assert TOKENS[::-1].offsets.tolist() == [0, 0, 2, 3]


def test_joined_parts_are_the_whole() -> None:
    tokens = TokenVectors.join([TOKENS[:2], TOKENS[2:]])
    assert tokens.offsets.tolist() == [0, 1, 3, 3] and (tokens.vectors == TOKENS.vectors).all()
