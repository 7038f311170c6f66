"""Which refresh a batch is of, by hand."""

from typing import Any

import pytest

from hardneg.integrations.refresher import CarryingBatchSampler, RefreshSchedule


@pytest.mark.parametrize(
    ("schedule", "numbers"),
    [
        (RefreshSchedule(every=3), [0, 0, 0, 0, 1, 1, 1, 2, 2]),  # used from the second step behind it
        (RefreshSchedule(every=3, epoch=1, first_step=6), [2, 2, 2, 2, 3]),  # one was made right before the epoch
        (RefreshSchedule(every=1, batches_a_step=4), [0] * 8 + [1] * 4 + [2] * 2),  # of all processes together
        (RefreshSchedule(every=None, epoch=2, first_step=20), [2] * 10),  # one for an epoch
    ],
)
def test_the_refresh_that_a_batch_is_of(schedule, numbers):
    assert [schedule.number(batch) for batch in range(len(numbers))] == numbers


class Held:
    """A batch sampler of four rows."""

    batch_size, drop_last = 2, True
    sampler: Any = None
    epoch = 0

    def __iter__(self) -> Any:
        return iter([[0, 3], [2, 1]])

    def __len__(self) -> int:
        return 2

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch


def test_indices_carry_the_number_of_their_refresh() -> None:
    sampler = CarryingBatchSampler(Held(), RefreshSchedule(every=2, epoch=1, first_step=6), rows=4)
    assert list(sampler) == [[12, 15], [14, 13]]
    assert len(sampler) == 2


def test_what_is_asked_of_it_is_asked_of_the_one_it_holds() -> None:
    held = Held()
    sampler = CarryingBatchSampler(held, RefreshSchedule(every=2, epoch=5), rows=4)
    sampler.sampler = drawn = Held()
    assert held.sampler is drawn
    assert (sampler.batch_size, sampler.drop_last) == (2, True)
    sampler.set_epoch(3)
    assert held.epoch == 3
    list(sampler)
    assert (held.epoch, drawn.epoch) == (5, 5)  # as a resumed run must have it
