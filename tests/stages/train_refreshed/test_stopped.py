"""A training that was stopped, or has lost its negatives, comes to the same weights."""

import os
from pathlib import Path
from typing import Any

import pytest
from stages.train_refreshed.runs import make, uses, weights

from hardneg.records import TrainingError
from hardneg.store import Store


@pytest.mark.parametrize("name", ["ance", "guarded"])
def test_it_is_the_same_twice_and_after_being_stopped_anywhere(recipe, store, tmp_path, monkeypatch, name):
    """Stopped in the third step, in the second refresh before and after its corpus is encoded, and later on."""
    whole, _ = make(recipe, store, name)
    places = [
        ("hardneg.training.loop.update", 3),
        ("hardneg.encoders.stream.encoded_blocks", 1),
        ("hardneg.training.refresh.mining.write_negatives", 1),
        ("hardneg.training.loop.update", 6),
    ]
    broken = Store(tmp_path)
    for place, calls in places:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            _stop_at(patch, place, calls)
            make(recipe, broken, name)
    artifact, _ = make(recipe, broken, name)
    assert artifact.key == whole.key and uses(artifact) == uses(whole)
    assert weights(artifact) == weights(whole)


@pytest.mark.parametrize(("name", "steps", "number"), [("ance", 8, 1), ("ance", 4, 0)])
def test_damaged_negatives_are_mined_again_by_the_model_that_mined_them(
    recipe, store, tmp_path, monkeypatch, name, steps, number
):
    """It goes on from step 6, where the weights of step 4 are left of its checkpoint; or from 3, with the start's."""
    whole, _ = make(recipe, store, name)
    _cut_off(recipe, Store(tmp_path), monkeypatch, name, steps, number)
    artifact, notes = make(recipe, Store(tmp_path), name)
    assert sum("has 100 bytes" in line and line.endswith("it is mined again") for line in notes) == 1
    assert uses(artifact) == uses(whole) and weights(artifact) == weights(whole)
    assert artifact.facts["refreshes made"] == whole.facts["refreshes made"]


def test_negatives_are_gone_where_the_weights_are_too(recipe, store, tmp_path, monkeypatch):
    make(recipe, store, "ance")
    partial = _cut_off(recipe, Store(tmp_path), monkeypatch, "ance", 8, 1)
    (kept,) = partial.glob("checkpoints/weights-*")
    assert kept.name == "weights-000000004.safetensors"
    kept.unlink()
    for _ in range(2):
        with pytest.raises(TrainingError, match="negatives of step 4 are gone, and so are the weights"):
            make(recipe, Store(tmp_path), "ance")


def _cut_off(recipe: Path, store: Store, monkeypatch: pytest.MonkeyPatch, name: str, steps: int, number: int) -> Path:
    """The folder of a run that was stopped in a step and then lost the end of its negatives."""
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        _stop_at(patch, "hardneg.training.loop.update", steps)
        make(recipe, store, name)
    (path,) = store.root.glob(f"*.partial/checkpoints/refreshes/{number:06d}/negatives.arrow")
    os.truncate(path, 100)
    return path.parents[3]


def _stop_at(patch: pytest.MonkeyPatch, place: str, calls: int) -> None:
    import importlib

    module, name = place.rsplit(".", 1)
    call, left = getattr(importlib.import_module(module), name), [calls]

    def stopping(*rest: Any, **named: Any) -> Any:
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        return call(*rest, **named)

    patch.setattr(place, stopping)
