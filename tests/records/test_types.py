"""Texts as encoders give them: taken by row, sliced, joined."""

import numpy as np
from encoded_forms import Numbers, Several

SPARSE = Numbers(np.array([0, 2, 2, 3]), np.array([1, 4, 0], np.int32), np.array([0.5, 2.0, 1.5], np.float32), 5)
TOKENS = Several(np.array([0, 1, 3, 3]), np.arange(6, dtype=np.float32).reshape(3, 2))


def test_rows_are_taken_in_the_order_asked_for() -> None:
    taken = SPARSE[np.array([2, 0, 0, 1])]
    assert taken.offsets.tolist() == [0, 1, 3, 5, 5]
    assert taken.first.tolist() == [0, 1, 4, 1, 4]
    assert taken.second.tolist() == [1.5, 0.5, 2.0, 0.5, 2.0]
    assert taken.wide == 5 and len(taken) == 4


def test_a_slice_is_a_part_and_may_be_empty() -> None:
    part = TOKENS[1:3]
    assert part.offsets.tolist() == [0, 2, 2] and part.several.tolist() == [[2, 3], [4, 5]]
    assert len(TOKENS[3:3]) == 0 and TOKENS[3:1].several.shape == (0, 2)
    assert TOKENS[::-1].offsets.tolist() == [0, 0, 2, 3]


def test_joined_parts_are_the_whole() -> None:
    again = Numbers.join([SPARSE[:1], SPARSE[1:1], SPARSE[1:]])
    assert again.offsets.tolist() == SPARSE.offsets.tolist() and again.first.tolist() == SPARSE.first.tolist()
    tokens = Several.join([TOKENS[:2], TOKENS[2:]])
    assert tokens.offsets.tolist() == [0, 1, 3, 3] and (tokens.several == TOKENS.several).all()
