"""How a GPU multiplies float32, and that what was set before holds again; the setting needs no GPU."""

from collections.abc import Iterator

import pytest
import torch
from transformers.utils import enable_tf32

from hardneg.records.errors import UsageError
from hardneg.runtime.devices import float32_products

GPU, CPU = torch.device("cuda"), torch.device("cpu")
WAYS = ("torch.backends", "torch.backends.cuda.matmul", "torch.backends.mkldnn", "torch.backends.mkldnn.matmul")


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    torch.set_float32_matmul_precision("highest")
    for owner in owners():
        owner.fp32_precision = "none"


def owners() -> list[object]:
    backends = torch.backends
    return [backends, backends.cuda.matmul, backends.mkldnn, backends.mkldnn.matmul]


def state() -> dict[str, str]:
    """All that torch has to say of it; its old setting cannot be read where the new ones say something else."""
    found = {name: owner.fp32_precision for name, owner in zip(WAYS, owners(), strict=True)}
    try:
        return {**found, "old": torch.get_float32_matmul_precision()}
    except RuntimeError:
        return {**found, "old": "mixed"}


@pytest.mark.parametrize(("tf32", "inside"), [(True, "high"), (False, "highest")])
def test_what_is_asked_for_holds_inside_whatever_holds_outside(tf32: bool, inside: str) -> None:
    for outside in ("highest", "high", "medium"):
        torch.set_float32_matmul_precision(outside)
        before = state()
        with float32_products(GPU, tf32):
            assert torch.get_float32_matmul_precision() == inside
        assert state() == before and before["old"] == outside


@pytest.mark.parametrize("tf32", [True, False])
@pytest.mark.parametrize("owner", range(4))
def test_it_holds_inside_what_was_set_for_one_backend_or_by_a_trainer(tf32: bool, owner: int) -> None:
    for outside in ("tf32", "ieee"):
        owners()[owner].fp32_precision = outside
        before = state()
        with float32_products(GPU, tf32):
            assert torch.get_float32_matmul_precision() == ("high" if tf32 else "highest")
            assert torch.backends.cuda.matmul.allow_tf32 == tf32
        assert state() == before


def test_a_trainer_that_sets_it_later_is_followed() -> None:
    enable_tf32(True)
    with float32_products(GPU):
        pass
    assert torch.backends.cuda.matmul.fp32_precision == "tf32"
    enable_tf32(False)
    assert torch.backends.cuda.matmul.fp32_precision != "tf32"


def test_whole_numbers_inside_of_rounded_ones_and_a_failure_puts_all_back() -> None:
    before = state()
    with pytest.raises(RuntimeError, match="stopped"), float32_products(GPU, tf32=True), float32_products(GPU):
        assert torch.get_float32_matmul_precision() == "highest"
        raise RuntimeError("stopped")
    assert state() == before


def test_a_device_without_tf32_is_told_and_otherwise_left_alone() -> None:
    torch.set_float32_matmul_precision("high")
    with float32_products(CPU):
        assert torch.get_float32_matmul_precision() == "high"
    with pytest.raises(UsageError, match="tf32 is for GPUs by CUDA, and this is cpu: leave it out"):
        float32_products(CPU, True).__enter__()
