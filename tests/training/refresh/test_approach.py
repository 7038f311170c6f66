"""Refreshes taken up while a toy model trains: at step boundaries, never going back, with their age noted."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from processes import launch
from refresh_toy import approach, run
from toy import toy_data

from hardneg.errors import TrainingError
from hardneg.training.examples import Examples
from hardneg.training.loop import TrainingResult
from hardneg.training.refresh.options import RefreshOptions

TOY = Path(__file__).parents[1] / "refresh_toy.py"


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


@pytest.mark.slow
def test_all_processes_go_over_at_the_same_step(toy_folder: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    processes = [process for number in (1, 2) for process in launch(TOY, [str(toy_folder), str(tmp_path)], number)]
    assert [process.wait(timeout=300) for process in processes] == [0, 0, 0]
    one, *two = (load_file(tmp_path / f"{name}.safetensors") for name in ("1-0", "2-0", "2-1"))
    for other in two:
        for name, tensor in one.items():
            torch.testing.assert_close(other[name], tensor, rtol=1e-5, atol=1e-6)
    for number in ("1", "2"):
        lines = (tmp_path / number / "history.jsonl").read_text().splitlines()
        records = [json.loads(line) for line in lines]
        assert [(record["refresh"], record["lag"]) for record in records] == [
            (0, 0),
            (0, 1),
            (1, 1),
            (2, 0),
            (2, 1),
            (3, 1),
        ]
