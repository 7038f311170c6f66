"""Which refresh a batch is of, by hand."""

from typing import Any

from hardneg.doors.trainer.schedule import CarryingBatchSampler, RefreshSchedule


def test_a_refresh_is_used_from_the_second_step_behind_it() -> None:
    schedule = RefreshSchedule(every=3)
    assert [schedule.number(batch) for batch in range(9)] == [0, 0, 0, 0, 1, 1, 1, 2, 2]


def test_an_epoch_begins_with_the_refresh_made_right_before_it() -> None:
    schedule = RefreshSchedule(every=3, epoch=1, first_step=6)
    assert [schedule.number(batch) for batch in range(5)] == [2, 2, 2, 2, 3]


def test_batches_of_all_processes_and_of_accumulation_make_one_step() -> None:
    schedule = RefreshSchedule(every=1, batches_a_step=4)
    assert [schedule.number(batch) for batch in range(14)] == [0] * 8 + [1] * 4 + [2] * 2


def test_without_steps_an_epoch_has_one_refresh() -> None:
    schedule = RefreshSchedule(every=None, epoch=2, first_step=20)
    assert {schedule.number(batch) for batch in range(10)} == {2}


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
