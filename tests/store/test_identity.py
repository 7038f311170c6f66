"""What of options is in a key, and that one module alone knows."""

from dataclasses import dataclass, field
from typing import ClassVar

import pytest
from pydantic import BaseModel, Field

from hardneg.store import FREE, LATER, digest, legacy_key_names, options_in_key, plugin_identity, tree_digest
from hardneg.training.options import RerankerOptions, TrainOptions


class Verb(BaseModel):
    depth: int = 100
    device: str = Field(default="cpu", json_schema_extra=FREE)
    fill_to: int | None = Field(default=None, json_schema_extra=LATER)
    run: str = "bm25"


@dataclass(frozen=True)
class Plugin:
    depth: int = 100
    url: str = "here"
    sizes: tuple[int, int] = (1, 2)
    weights: dict[str, float] = field(default_factory=dict)
    version: ClassVar[int] = 3
    free: ClassVar[frozenset[str]] = frozenset({"url"})
    later: ClassVar[frozenset[str]] = frozenset({"sizes"})


@pytest.mark.parametrize(
    ("options", "counted"),
    [
        (Verb(), {"depth": 100}),
        (Verb(depth=100, device="cuda", fill_to=5), {"depth": 100, "fill_to": 5}),
        (Plugin(), {"depth": 100, "weights": {}}),
        (Plugin(url="there", sizes=(1, 3)), {"depth": 100, "sizes": [1, 3], "weights": {}}),
    ],
)
def test_free_options_never_count_and_later_ones_with_another_value_alone(options, counted):
    assert options_in_key(options, {"run"}) == counted


def test_a_plugin_counts_by_its_name_version_and_options():
    identity = {"name": "chosen", "version": 3, "options": {"depth": 7}}
    assert plugin_identity("chosen", Plugin(7), ["weights"]) == identity


def test_options_of_training_have_other_words_in_keys():
    given = TrainOptions(iterate_negatives=True, false_negative_mask=False)
    plain = TrainOptions().identity()
    assert TrainOptions(chunk=8).identity() == plain | {"chunk": 8}
    assert given.identity() == plain | {"order": "consecutive", "mask": "none"}
    assert legacy_key_names({"seed": 1, "iterate_negatives": True}) == {"seed": 1, "order": "consecutive"}


def test_a_default_is_that_of_the_class():
    assert RerankerOptions().identity()["negatives_per_query"] == 4
    assert not {"chunk", "tf32", "checkpoint_every"} & {*RerankerOptions().identity()}


def test_the_order_of_keys_does_not_matter_and_digests_are_pinned():
    assert digest({"a": 1, "b": [1, 2]}) == digest({"b": [1, 2], "a": 1})
    assert digest([1, 2]) != digest([2, 1])
    assert digest({"stage": "mine", "depth": 200}) == "940b0854ac8692c9f986bd7e978314db"


def test_what_json_cannot_hold_is_an_error():
    with pytest.raises(ValueError):
        digest(float("nan"))
    with pytest.raises(TypeError):
        digest({"a": object()})


def test_a_tree_is_named_by_its_paths_and_bytes(tmp_path):
    for place in ("one", "two"):
        (tmp_path / place / "sub").mkdir(parents=True)
        (tmp_path / place / "sub" / "x").write_text("same")
    assert tree_digest(tmp_path / "one") == tree_digest(tmp_path / "two")
    (tmp_path / "two" / "sub" / "x").write_text("sam!")
    assert tree_digest(tmp_path / "one") != tree_digest(tmp_path / "two")
