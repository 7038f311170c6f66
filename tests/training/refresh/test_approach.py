"""Refreshes taken up while a toy model trains: at step boundaries, never going back, with their age noted."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toy import BagEncoder, options, toy_data

from hardneg.data.negatives import write_negatives
from hardneg.errors import TrainingError
from hardneg.losses.ranknet import RankNet
from hardneg.progress import Silent
from hardneg.training.examples import Examples
from hardneg.training.loop import TrainingResult, learn
from hardneg.training.refresh.approach import Refreshed
from hardneg.training.refresh.folder import NEGATIVES, Refresh, Refreshes
from hardneg.training.refresh.options import RefreshOptions
from hardneg.types import Negatives


class Scripted:
    """Publishes refreshes when training comes to certain steps: {step of training: step of the model that mined}."""

    def __init__(self, place: Refreshes, script: Mapping[int, int], pause: int | None = None) -> None:
        self.place, self.script, self.pause, self.asked = place, dict(script), pause, list[int]()

    def prepare(self, step: int) -> None:
        pass

    def newest(self, step: int) -> Refresh | None:
        self.asked.append(step)
        for place in [place for place in self.script if place <= step]:
            publish(self.place, len(self.place.made()), self.script.pop(place))
        return self.place.newest()


def publish(place: Refreshes, number: int, step: int) -> None:
    """Refresh n has documents n<n> and n<n+1> for every query."""
    rows = [Negatives(f"q{i}", [], [f"n{number}", f"n{number + 1}"], np.zeros(2, np.float32)) for i in range(12)]
    write_negatives(place.partial(number) / NEGATIVES, rows)
    place.publish(Refresh(number, step, 12, 24))


def approach(toy: Path, folder: Path, script: Mapping[int, int], first: bool = False, **more: Any) -> Refreshed:
    data, place = toy_data(toy), Refreshes(folder / "checkpoints" / "refreshes")
    encoder: Any = BagEncoder()
    data = data if first else replace(data, negatives=None)
    supply = Scripted(place, script)
    return Refreshed(encoder, data, options(**more), RefreshOptions("continuous"), supply, place)


def run(way: Refreshed, folder: Path, **more: Any) -> TrainingResult:
    return learn(way, RankNet(), options(**more), folder, progress=Silent())


def uses(result: TrainingResult) -> list[tuple[Any, Any]]:
    return [(record.get("refresh"), record.get("lag")) for record in result.history]


def test_the_newest_is_used_from_the_next_step_on_and_its_age_is_noted(toy_folder: Path, tmp_path: Path) -> None:
    chosen = {"max_steps": 8, "checkpoint_every": 4}
    result = run(approach(toy_folder, tmp_path, {0: 0, 3: 2, 4: 4, 6: 4}, **chosen), tmp_path, **chosen)
    assert uses(result) == [(0, 0), (0, 1), (0, 2), (1, 1), (2, 0), (2, 1), (2, 2), (2, 3)]
    assert [record["step"] for record in result.history] == list(range(1, 9))
    assert all("loss" in record for record in result.history)


def test_all_batches_of_a_step_are_of_one_refresh(
    toy_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn, corpus = {}, toy_data(toy_folder).corpus
    draw = Examples.draw

    def spy(self: Examples, start: int, count: int) -> Any:
        found = draw(self, start, count)
        drawn[start] = set(corpus.ids(found.documents[:, 1:].ravel()))
        return found

    monkeypatch.setattr(Examples, "draw", spy)
    chosen = {"max_steps": 4, "accumulate": 3, "batch_size": 4}
    run(approach(toy_folder, tmp_path, {0: 0, 2: 1}, **chosen), tmp_path, **chosen)
    assert sorted(drawn) == list(range(0, 48, 4))
    for start, doc_ids in drawn.items():
        assert doc_ids <= ({"n0", "n1"} if start < 24 else {"n1", "n2"}), start


def test_the_first_negatives_are_used_until_the_first_refresh(toy_folder: Path, tmp_path: Path) -> None:
    chosen = {"max_steps": 4, "checkpoint_every": None}
    result = run(approach(toy_folder, tmp_path, {2: 1}, first=True, **chosen), tmp_path, **chosen)
    assert uses(result) == [(None, None), (None, None), (0, 1), (0, 2)]


def test_nothing_to_train_on_is_an_error(toy_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="there are no negatives"):
        run(approach(toy_folder, tmp_path, {}), tmp_path)


def test_one_that_vanishes_is_used_on(toy_folder: Path, tmp_path: Path) -> None:
    way = approach(toy_folder, tmp_path, {0: 0, 2: 2}, max_steps=6)
    way._supply.newest(3)
    way.prepare(3)
    way._place.remove(1)
    list(way.batches(range(24, 40, 4), 4))
    assert way.look(4) == {"refresh": 1, "lag": 1} and way.look(5) == {"refresh": 1, "lag": 2}


def test_the_run_is_another_with_other_refreshes(toy_folder: Path, tmp_path: Path) -> None:
    way, first = approach(toy_folder, tmp_path, {}), approach(toy_folder, tmp_path, {}, first=True)
    other = approach(toy_folder, tmp_path, {})
    other._refreshing = RefreshOptions("continuous", depth=100)
    assert len({way.digest(), first.digest(), other.digest()}) == 3
    assert way.digest() == approach(toy_folder, tmp_path, {}).digest()
