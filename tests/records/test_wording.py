"""What pydantic finds is told in the project's own words."""

from typing import Annotated, Any, Literal

import numpy as np
import pytest
from encoded_forms import Numbers, Several
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from hardneg.records import complaint, counted


class Spec(BaseModel):
    model_config = ConfigDict(extra="forbid")

    whole: int = 1
    number: float = 1.0
    finite: Annotated[float, Field(allow_inf_nan=False)] = 1.0
    on: bool = False
    text: str = ""
    names: list[str] = Field(default=["a"], min_length=1)
    options: dict[str, int] = {}
    few: dict[str, int] = Field(default={}, max_length=1)
    kind: Literal["dot", "cosine"] = "dot"
    count: int = Field(default=1, ge=1, lt=10)
    own: str = ""

    @field_validator("own")
    @classmethod
    def _own(cls, value: str) -> str:
        if value:
            raise ValueError("is taken already")
        return value


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"whole": "many"}, "must be a whole number (got 'many')"),
        ({"whole": 2.5}, "must be a whole number (got 2.5)"),
        ({"number": "x"}, "must be a number (got 'x')"),
        ({"finite": float("inf")}, "must be a finite number (got inf)"),
        ({"on": "maybe"}, "must be true or false (got 'maybe')"),
        ({"text": 3}, "must be a string (got 3)"),
        ({"names": "a"}, "must be a list (got 'a')"),
        ({"names": []}, "must have a length of at least 1, not 0 (got [])"),
        ({"few": {"a": 1, "b": 2}}, "must have a length of at most 1, not 2 (got {'a': 1, 'b': 2})"),
        ({"options": 3}, "must be a mapping of names to values (got 3)"),
        ({"kind": "cosin"}, "must be 'dot' or 'cosine' (got 'cosin'); did you mean 'cosine'?"),
        ({"count": 0}, "must be at least 1 (got 0)"),
        ({"count": 10}, "must be less than 10 (got 10)"),
        ({"own": "x"}, "is taken already (got 'x')"),
    ],
)
def test_each_kind(value: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Spec.model_validate(value)
    assert [complaint(item) for item in caught.value.errors()] == [told]


def test_one_and_more() -> None:
    told = [counted(0, "error"), counted(1, "error"), counted(1234, "error"), counted(1, "query has", "queries have")]
    assert told == ["0 errors", "1 error", "1,234 errors", "1 query has"]
    assert counted(2, "query has", "queries have") == "2 queries have" and counted(2, "query") == "2 queries"


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
