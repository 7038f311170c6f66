import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hardneg.indexes.angular import angular_scores


def test_angles():
    """At 0, 45, 60, 90 and 180 degrees; a rounding beyond 1 is 1."""
    cosines = np.array([1, np.sqrt(0.5), 0.5, 0, -1, 1 + 1e-6], np.float32)
    np.testing.assert_allclose(angular_scores(cosines), [1, 0.75, 2 / 3, 0.5, 0, 1], atol=1e-6)
    assert angular_scores(cosines).dtype == np.float32


@given(st.lists(st.floats(-1, 1, width=32), max_size=30))
def test_the_order_is_that_of_the_cosines(cosines: list[float]):
    ordered = np.sort(np.array(cosines, np.float32))
    assert (np.diff(angular_scores(ordered)) >= 0).all()
