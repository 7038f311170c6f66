"""Refreshes on disk: whole or not there, two of them kept, damaged ones made again."""

import json

import pytest

from hardneg.training.refresh.folder import Refresh, RefreshFolder

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
