"""How a GPU multiplies float32, and that what was set before holds again; the setting needs no GPU."""

from collections.abc import Iterator

import pytest
import torch

from hardneg.errors import UsageError
from hardneg.float32_products import float32_products

GPU, CPU = torch.device("cuda"), torch.device("cpu")


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize(("tf32", "inside"), [(True, "high"), (False, "highest")])
def test_what_is_asked_for_holds_inside_whatever_holds_outside(tf32: bool, inside: str) -> None:
    for outside in ("highest", "high", "medium"):
        torch.set_float32_matmul_precision(outside)
        with float32_products(GPU, tf32):
            assert torch.get_float32_matmul_precision() == inside
        assert torch.get_float32_matmul_precision() == outside


def test_whole_numbers_inside_of_rounded_ones_and_a_failure_puts_all_back() -> None:
    with pytest.raises(RuntimeError, match="stopped"), float32_products(GPU, tf32=True), float32_products(GPU):
        assert torch.get_float32_matmul_precision() == "highest"
        raise RuntimeError("stopped")
    assert torch.get_float32_matmul_precision() == "highest"


def test_a_device_without_tf32_is_told_and_otherwise_left_alone() -> None:
    torch.set_float32_matmul_precision("high")
    with float32_products(CPU):
        assert torch.get_float32_matmul_precision() == "high"
    with (
        pytest.raises(UsageError, match="tf32 is for GPUs by CUDA, and this is cpu: leave it out"),
        float32_products(CPU, True),
    ):
        pass
