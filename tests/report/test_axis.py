import pytest

from hardneg.report.axis import axis, mark_of, wide_axis


def test_an_axis_has_room_for_all_and_round_marks() -> None:
    found = axis([0.31, 0.52], (0.0, 100.0))
    assert (found.low, found.high) == pytest.approx((0.2974, 0.5326))
    assert found.marks == pytest.approx([0.3, 0.35, 0.4, 0.45, 0.5])
    assert found.at(0.415) == pytest.approx(50.0)
    assert found.at(found.low) == 0.0 and found.at(found.high) == pytest.approx(100.0)


def test_differences_have_zero_among_the_marks_and_true_minus_signs() -> None:
    assert [mark_of(mark) for mark in axis([-0.02, 0.07], (1.0, 99.0)).marks] == ["−0.02", "0", "0.02", "0.04", "0.06"]


def test_equal_values_stand_in_the_middle() -> None:
    assert axis([0.5, 0.5], (0.0, 100.0)).at(0.5) == pytest.approx(50.0)
    assert axis([0.0], (0.0, 100.0)).at(0.0) == pytest.approx(50.0)


def test_costs_are_on_logarithms_only_where_they_differ_by_a_factor_of_ten() -> None:
    near, far = wide_axis([2.0, 8.0], (0.0, 100.0)), wide_axis([1.0, 1000.0], (0.0, 90.0))
    assert not near.logarithmic and near.low == 0.0 and near.at(0.0) == 0.0
    assert far.logarithmic and far.marks == [1.0, 10.0, 100.0, 1000.0]
    assert far.at(10.0) - far.at(1.0) == pytest.approx(far.at(1000.0) - far.at(100.0))


@pytest.mark.parametrize("values", [[0.001, 5.0], [3.0, 31.0], [1e-3, 1e9], [17.0, 900.0]])
def test_a_logarithmic_axis_has_at_least_two_marks_between_its_ends(values: list[float]) -> None:
    found = wide_axis(values, (0.0, 100.0))
    assert len(found.marks) >= 2 and all(0.0 <= found.at(mark) <= 100.0 for mark in found.marks)
