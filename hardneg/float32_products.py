"""Products of float32 on a GPU: of whole numbers, or of numbers rounded to TF32 first."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hardneg.errors import UsageError

if TYPE_CHECKING:
    import torch


@contextmanager
def float32_products(device: "torch.device", tf32: bool = False) -> Iterator[None]:
    """Has products on a GPU multiply as said inside, whatever was set outside; other devices know one way alone.

    TF32 keeps 10 of the 23 bits behind a number's point, and is several times as fast.

    Raises:
        UsageError: TF32 is asked for on a device that has none.
    """
    if device.type != "cuda":
        if tf32:
            raise UsageError(f"tf32 is for GPUs by CUDA, and this is {device.type}: leave it out")
        yield
        return
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
