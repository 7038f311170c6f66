"""Refreshes on disk, their options, and what becomes of one that cannot be trained on."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from hardneg.records import errors, layout
from hardneg.runtime.distributed import World
from hardneg.training.checkpoint import Checkpoints
from hardneg.training.options import Devices, RefreshOptions
from hardneg.training.refresh.folder import Refresh, RefreshFolder, refresh_facts
from hardneg.training.refresh.mining import chunk, known_to_be_relevant
from hardneg.training.refresh.provider import BackgroundProvider, RefreshProvider, SynchronousProvider

SECONDS = {"encode": 1.0, "search": 1.0, "write": 1.0}


def publish(place: RefreshFolder, number: int, step: int, text: str = "negatives") -> None:
    (place.partial(number) / "negatives.arrow").write_text(text)
    place.publish(Refresh(number, step, 10, 200, SECONDS))


def test_what_is_published_is_found(tmp_path):
    place = RefreshFolder(tmp_path / "refreshes")
    assert place.newest() is None and place.records() == []
    publish(place, 0, 0)
    publish(place, 1, 40)
    assert place.newest() == Refresh(1, 40, 10, 200, SECONDS)
    assert place.newest(39) == Refresh(0, 0, 10, 200, SECONDS)
    assert place.negatives(1).read_text() == "negatives"
    manifest = json.loads((tmp_path / "refreshes" / "000001" / "manifest.json").read_text())
    assert manifest["files"] == {"negatives.arrow": 9}


def test_the_newest_two_stay_and_all_are_remembered(tmp_path):
    place = RefreshFolder(tmp_path)
    for number in range(4):
        publish(place, number, 10 * number)
    assert place.numbers() == [2, 3]
    assert [record["step"] for record in place.records()] == [0, 10, 20, 30]


def test_one_that_was_made_twice_counts_once(tmp_path):
    """The first time died between the line and the name, or was damaged later."""
    place = RefreshFolder(tmp_path)
    for number, step in ((0, 0), (1, 9), (1, 10), (2, 20)):
        publish(place, number, step)
    assert [(record["number"], record["step"]) for record in place.records()] == [(0, 0), (1, 10), (2, 20)]


def test_what_is_being_written_is_not_found(tmp_path):
    place = RefreshFolder(tmp_path)
    publish(place, 0, 0)
    (place.partial(1) / "negatives.arrow").write_text("neg")
    assert place.numbers() == [0]
    place.tidy()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000000", "made.jsonl"]


@pytest.mark.parametrize("name", ["negatives.arrow", "manifest.json"])
@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_damaged_one_is_told_once_and_removed(tmp_path, name, damage):
    place, told = RefreshFolder(tmp_path), list[str]()
    publish(place, 0, 0)
    publish(place, 1, 10)
    path = tmp_path / "000001" / name
    path.write_text(path.read_text()[:4]) if damage == "cut" else path.unlink()
    for _ in range(2):
        found = place.newest(20, told.append)
        assert found is not None and found.number == 0
    assert len(told) == 1 and "damaged" in told[0] and told[0].endswith("it is mined again") and "\n" not in told[0]
    publish(place, 1, 20)
    assert place.newest() == Refresh(1, 20, 10, 200, SECONDS)


def test_what_later_models_mined_is_forgotten(tmp_path):
    place = RefreshFolder(tmp_path)
    publish(place, 4, 40)
    publish(place, 5, 50)
    for step in (40, 50, 60):
        place.vectors(step).mkdir()
    place.forget_after(45)
    assert place.numbers() == [4] and [path.name for path in tmp_path.glob("vectors-*")] == ["vectors-000000040"]
    place.forget_after(39)
    assert place.newest() is None


def test_vectors_of_one_model_are_kept(tmp_path):
    place = RefreshFolder(tmp_path)
    for step in (40, 50):
        place.vectors(step).mkdir()
    place.tidy(50)
    assert [path.name for path in tmp_path.glob("vectors-*")] == ["vectors-000000050"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (RefreshOptions("every"), ["policy every: give every"]),
        (RefreshOptions("synchronous"), ["policy synchronous: give every"]),
        (RefreshOptions("every", 0, depth=0), ["every must be 1", "depth must be 1", "negatives must be 0 (depth)"]),
        (RefreshOptions("every", 10), []),
    ],
)
def test_options_that_make_no_sense(options, told):
    assert [line[: len(start)] for line, start in zip(options.problems(), told, strict=True)] == told


def test_five_parts_of_the_queries_are_all_of_them_and_the_last_has_the_remainder():
    parts = [chunk(103, number, 5) for number in range(5)]
    assert [len(part) for part in parts] == [20, 20, 20, 20, 23]
    assert [query for part in parts for query in part] == list(range(103))
    assert chunk(103, 7, 5) == parts[2]
    assert chunk(103, 9, 1) == range(103)


def test_the_last_positive_alone_is_known_where_the_published_program_is_followed():
    known = {"q1": ["d3", "d1"], "q2": ["d2"]}
    assert known_to_be_relevant(known, RefreshOptions(excluded="last")) == {"q1": ["d1"], "q2": ["d2"]}
    assert known_to_be_relevant(known, RefreshOptions()) == known


def test_threads_by_share():
    alone = World()
    assert Devices().threads(2, alone) == Devices().threads(1, alone) == (1, 1)
    assert Devices(3, 1).threads(16, alone) == (12, 4)
    assert Devices().threads(16, World(0, 2, 0, 2)) == (4, 8)
    assert Devices(0, 1).problems() == ["trainer must be 1 or above, not 0"]


def test_gpus_by_share():
    first, two = torch.device("cuda:0"), World(0, 2, 0, 2)
    assert Devices().mining(torch.device("cpu"), World(), 0) == ["cpu"]
    assert Devices().mining(first, World(), 1) == ["cuda:0"]
    assert Devices().mining(first, two, 8) == ["cuda:2", "cuda:3"]
    assert Devices(1, 2).mining(first, two, 8) == ["cuda:2", "cuda:3", "cuda:4", "cuda:5"]


def test_facts_of_a_run():
    made = {"queries": 7, "seconds": {"encode": 2.0, "queries": 0.25, "search": 1.0, "write": 0.5}}
    history = [{"step": 1, "loss": 1.0}, *({"step": 2 + i, "refresh": i // 2, "lag": i} for i in range(4))]
    steps = {"refreshes used": 2, "mean lag": 1.5, "largest lag": 3, "waiting's part of the time": 0.25}
    seconds = {"encode": 6.0, "queries": 0.75, "search": 3.0, "write": 1.5}
    steps |= {"refreshes made": 3, "documents encoded": 300, "queries searched": 21}
    assert refresh_facts(history, [made] * 3, 0.25, 100) == {
        **{f"seconds of inference: {name}": value for name, value in seconds.items()},
        **steps,
    }
    assert "mean lag" not in refresh_facts([{"step": 1}], [], 0.0, 100)


NAMED = "refresh 3, by the model of step 15"
ERRORS = (errors.ArtifactError("cannot be read"), errors.TrainingError("no query can be trained on"))


class Woken:
    """The process beside."""

    times = 0

    def wake(self) -> None:
        self.times += 1


def published(folder: Path) -> tuple[RefreshFolder, Refresh]:
    place, refresh = RefreshFolder(folder / "refreshes"), Refresh(3, 15, 1, 1)
    (place.partial(3) / layout.NEGATIVES).write_text("none")
    place.publish(refresh)
    return place, refresh


@pytest.mark.parametrize("error", ERRORS)
def test_training_that_waits_ends_and_what_is_damaged_is_made_again_by_the_next_run(tmp_path, error):
    place, refresh = published(tmp_path)
    nothing: Any = None
    supply: RefreshProvider = SynchronousProvider(nothing, nothing, place, Checkpoints(tmp_path, ""), 0, 5, print)
    with pytest.raises(errors.TrainingError, match=f"{NAMED}: {error}$"):
        supply.refuse(refresh, error)
    assert place.numbers() == ([] if error is ERRORS[0] else [3])


@pytest.mark.parametrize("error", ERRORS)
def test_training_beside_goes_on_and_has_what_is_damaged_made_again(tmp_path, error):
    place, refresh = published(tmp_path)
    told, process = list[str](), Woken()
    beside: Any = process
    supply: RefreshProvider = BackgroundProvider(beside, place, True, 5, told.append)
    supply.refuse(refresh, error)
    if error is ERRORS[0]:
        assert told == [f"{NAMED}: cannot be read; it is mined again"] and (place.numbers(), process.times) == ([], 1)
    else:
        assert told == [f"{NAMED}: no query can be trained on; it is not used"]
        assert (place.numbers(), process.times) == ([3], 0)
