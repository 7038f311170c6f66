"""Refreshes taken up while a toy model trains: at step boundaries, never going back, with their age noted."""

import json
import os
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from processes import codes, launch
from refresh_toy import Scripted, approach, run
from toy import toy_data

from hardneg.formats.negatives import NegativesFile, read_negatives, write_negatives
from hardneg.records import Negatives, TrainingError, UsageError
from hardneg.training import examples, loop, options
from hardneg.training.methods.ance import AnceTraining, overlap

TOY = Path(__file__).parents[1] / "refresh_toy.py"


def uses(result: loop.TrainingResult) -> list[tuple[Any, Any]]:
    return [(record.get("refresh"), record.get("lag")) for record in result.history]


def test_the_newest_is_used_from_the_next_step_on_and_its_age_is_noted(toy_folder, tmp_path):
    chosen = {"max_steps": 8, "checkpoint_every": 4}
    result = run(approach(toy_folder, tmp_path, {0: 0, 3: 2, 4: 4, 6: 4}, **chosen), tmp_path, **chosen)
    assert uses(result) == [(0, 0), (0, 1), (0, 2), (1, 1), (2, 0), (2, 1), (2, 2), (2, 3)]
    assert [record["step"] for record in result.history] == list(range(1, 9))
    assert all("loss" in record for record in result.history)
    assert [record.get("kept") for record in result.history] == [None, None, None, 0.5, 0.5, None, None, None]


def test_all_batches_of_a_step_are_of_one_refresh(toy_folder, tmp_path, monkeypatch):
    drawn, corpus = {}, toy_data(toy_folder).corpus
    draw = examples.Examples.draw

    def spy(self: examples.Examples, start: int, count: int) -> Any:
        found = draw(self, start, count)
        drawn[start] = set(corpus.ids(found.documents[:, 1:].ravel()))
        return found

    monkeypatch.setattr(examples.Examples, "draw", spy)
    chosen = {"max_steps": 4, "accumulate": 3, "batch_size": 4}
    run(approach(toy_folder, tmp_path, {0: 0, 2: 1}, **chosen), tmp_path, **chosen)
    assert sorted(drawn) == list(range(0, 48, 4))
    for start, doc_ids in drawn.items():
        assert doc_ids <= ({"n0", "n1"} if start < 24 else {"n1", "n2"}), start


def test_the_first_negatives_are_used_until_the_first_refresh(toy_folder, tmp_path):
    chosen = {"max_steps": 4, "checkpoint_every": None}
    result = run(approach(toy_folder, tmp_path, {2: 1}, first=True, **chosen), tmp_path, **chosen)
    assert uses(result) == [(None, None), (None, None), (0, 1), (0, 2)]


def test_what_was_there_before_is_counted_by_query(tmp_path):
    """q1 keeps one of two, q2 all; q3 is new, q4 has none."""

    def written(name: str, lists: dict[str, list[str]]) -> NegativesFile:
        rows = (Negatives(key, [], found, np.zeros(len(found), np.float32)) for key, found in lists.items())
        write_negatives(tmp_path / name, rows)
        return read_negatives(tmp_path / name)

    before = written("a", {"q1": ["d1", "d2"], "q2": ["d3"], "q4": ["d1"]})
    assert overlap(written("b", {"q1": ["d2", "d9"], "q2": ["d3"], "q3": ["d1"], "q4": []}), before) == 0.75
    assert overlap(written("c", {"q7": ["d1"]}), before) is None


def test_nothing_to_train_on_is_an_error(toy_folder, tmp_path):
    with pytest.raises(TrainingError, match="there are no negatives"):
        run(approach(toy_folder, tmp_path, {}), tmp_path)


def test_one_that_vanishes_is_used_on(toy_folder, tmp_path):
    way = approach(toy_folder, tmp_path, {0: 0, 2: 2}, max_steps=6)
    way._provider.newest(3)
    way.prepare(3)
    way._refreshes.remove(1)
    list(way.batches(range(24, 40, 4), 4))
    assert way.log_metrics(4) == {"refresh": 1, "lag": 1, "kept": 0.5}
    assert way.log_metrics(5) == {"refresh": 1, "lag": 2}


def test_what_is_trained_on_may_be_cut_off(toy_folder, tmp_path):
    """Pages of a map that lie behind the end of the file would end the process."""
    way = approach(toy_folder, tmp_path, {0: 0})
    way.prepare(0)
    path = way._refreshes.negatives(0)
    assert str(path) not in Path("/proc/self/maps").read_text()
    os.truncate(path, 0)
    assert len(list(way.batches(range(0, 16, 4), 4))) == 4


@pytest.mark.parametrize("first", [True, False])
def test_a_refresh_without_usable_negatives_is_refused_once(toy_folder, tmp_path, first):
    """Training goes on with what it has; where it has nothing it ends."""
    way = approach(toy_folder, tmp_path, {2: 1, 3: 2} if first else {0: 1}, first=first)
    make, supply = way._mined, way._provider
    unusable = Mock(side_effect=TrainingError("no query can be used for training"))
    way._mined = lambda number: (make if number else unusable)(number)
    if first:
        list(way.batches(range(0, 40, 4), 4))
        assert [way.log_metrics(step) for step in (2, 3, 4)] == [{}, {}, {"refresh": 1, "lag": 1, "kept": 0.5}]
    else:
        with pytest.raises(TrainingError, match="no query can be used for training"):
            way.prepare(0)
    assert isinstance(supply, Scripted) and supply.refused == [(0, "TrainingError")]


def test_a_refresh_that_is_damaged_while_it_is_read_is_taken_up_when_it_is_made_again(toy_folder, tmp_path):
    """As many bytes as before, so that its manifest does not tell."""
    way = approach(toy_folder, tmp_path, {0: 0, 1: 1})
    newest, supply = way._provider.newest, way._provider

    def damaged(step: int) -> Any:
        found = newest(step)
        if step == 1 and not supply.refused:
            path = way._refreshes.negatives(1)
            path.write_bytes(bytes(path.stat().st_size))
        return found

    supply.newest = damaged
    way.prepare(0)
    list(way.batches(range(0, 24, 4), 4))
    assert [way.log_metrics(step).get("refresh") for step in (1, 2, 3)] == [0, 0, 1]
    assert supply.refused == [(1, "ArtifactError")]


def test_more_parts_than_queries_are_refused(toy_folder, tmp_path):
    way = approach(toy_folder, tmp_path, {})
    more = [way.encoder, way._data, way._options, options.RefreshOptions("every", 5, query_chunks=13)]
    with pytest.raises(UsageError, match=r"refresh.query_chunks: 12 queries cannot be split into 13 parts; use fewer"):
        AnceTraining(*more, way._provider)


def test_the_run_is_another_with_other_refreshes(toy_folder, tmp_path):
    way, first = approach(toy_folder, tmp_path, {}), approach(toy_folder, tmp_path, {}, first=True)
    other = approach(toy_folder, tmp_path, {})
    other._refreshing = options.RefreshOptions("every", 5, depth=100)
    assert len({way.digest(), first.digest(), other.digest()}) == 3
    assert way.digest() == approach(toy_folder, tmp_path, {}).digest()


@pytest.mark.slow
def test_all_processes_go_over_at_the_same_step(toy_folder, tmp_path):
    from safetensors.torch import load_file

    processes = [process for number in (1, 2) for process in launch([TOY, toy_folder, tmp_path], number)]
    assert codes(processes) == [0, 0, 0]
    one, *two = (load_file(tmp_path / f"{name}.safetensors") for name in ("1-0", "2-0", "2-1"))
    for other in two:
        for name, tensor in one.items():
            torch.testing.assert_close(other[name], tensor, rtol=1e-5, atol=1e-6)
    for number in ("1", "2"):
        lines = (tmp_path / number / "history.jsonl").read_text().splitlines()
        records = [json.loads(line) for line in lines]
        used = [(record["refresh"], record["lag"]) for record in records]
        assert used == [(0, 0), (0, 1), (1, 1), (2, 0), (2, 1), (3, 1)]
