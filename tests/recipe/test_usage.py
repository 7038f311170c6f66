import numpy as np

from hardneg.recipe.execute import usage


def test_the_peak_of_a_block_is_its_own_and_is_told_when_it_ends():
    with usage(1) as large:
        held = np.ones(30_000_000)
        assert not large
    del held
    with usage(2) as small:
        pass
    assert large["peak_memory"] - small["peak_memory"] > 200_000_000
    assert (small["processes"], small["device"]) == (2, "cpu") and "peak_gpu_memory" not in small
