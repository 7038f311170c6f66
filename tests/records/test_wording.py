"""What pydantic finds is told in the project's own words."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from hardneg.records import PluginError, PluginSetting, complaint, counted
from hardneg.registry import configure


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
        ({"text": 3}, "must be a text (got 3)"),
        ({"names": "a"}, "must be a list (got 'a')"),
        ({"names": []}, "must have at least 1, not 0 (got [])"),
        ({"few": {"a": 1, "b": 2}}, "must have at most 1, not 2 (got {'a': 1, 'b': 2})"),
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


def test_a_dataset_without_its_source() -> None:
    with pytest.raises(PluginError) as caught:
        configure("datasets", PluginSetting("beir", {}))
    assert str(caught.value).startswith("source: missing: give beir:SOURCE, the folder with `corpus.jsonl`")


def test_options_of_plugins() -> None:
    pytest.importorskip("hardneg_datasets")
    with pytest.raises(PluginError) as caught:
        configure("datasets", PluginSetting("msmarco-doc", {"source": "x", "url": "maybe", "splits": 3, "sorce": 1}))
    options = ["sorce: msmarco-doc has no such option; did you mean 'source'?"]
    options += ["url: must be true or false (got 'maybe')"]
    assert all(part in str(caught.value) for part in (*options, "splits: must be a mapping of names to values (got 3)"))


def test_one_and_more() -> None:
    told = [counted(0, "error"), counted(1, "error"), counted(1234, "error"), counted(1, "query has", "queries have")]
    assert told == ["0 errors", "1 error", "1,234 errors", "1 query has"]
    assert counted(2, "query has", "queries have") == "2 queries have" and counted(2, "query") == "2 queries"
