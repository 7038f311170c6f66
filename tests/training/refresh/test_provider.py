"""What becomes of a refresh that cannot be trained on, by where refreshes come from."""

from pathlib import Path
from typing import Any

import pytest

from hardneg.records import NEGATIVES, ArtifactError, TrainingError
from hardneg.training.checkpoint import Checkpoints
from hardneg.training.refresh.folder import Refresh, RefreshFolder
from hardneg.training.refresh.provider import BackgroundProvider, RefreshProvider, SynchronousProvider

NAMED = "refresh 3, by the model of step 15"
ERRORS = (ArtifactError("cannot be read"), TrainingError("no query can be trained on"))


class Woken:
    """The process beside."""

    times = 0

    def wake(self) -> None:
        self.times += 1


def published(folder: Path) -> tuple[RefreshFolder, Refresh]:
    place, refresh = RefreshFolder(folder / "refreshes"), Refresh(3, 15, 1, 1)
    (place.partial(3) / NEGATIVES).write_text("none")
    place.publish(refresh)
    return place, refresh


@pytest.mark.parametrize("error", ERRORS)
def test_training_that_waits_ends_and_what_is_damaged_is_made_again_by_the_next_run(tmp_path, error):
    place, refresh = published(tmp_path)
    nothing: Any = None
    supply: RefreshProvider = SynchronousProvider(nothing, nothing, place, Checkpoints(tmp_path, ""), 0, 5, print)
    with pytest.raises(TrainingError, match=f"{NAMED}: {error}$"):
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
