"""Products of float32 on a GPU: of whole numbers, or of numbers rounded to TF32 first."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hardneg.records import UsageError

if TYPE_CHECKING:
    import torch


@contextmanager
def float32_products(device: "torch.device", tf32: bool = False) -> Iterator[None]:
    """Sets the precision of products on a GPU inside the block, whatever was set outside; other devices have one.

    TF32 keeps 10 of the 23 bits of a mantissa, and is several times as fast.

    Raises:
        UsageError: TF32 is requested on a device that has none.
    """
    if device.type != "cuda":
        if tf32:
            raise UsageError(f"tf32 is for GPUs by CUDA, and this is {device.type}: leave it out")
        yield
        return
    import torch

    with _put_back():
        torch.set_float32_matmul_precision("high" if tf32 else "highest")
        yield


@contextmanager
def _put_back() -> Iterator[None]:
    """Has all that torch's one setting changes hold again: itself and, from torch 2.9 on, those of single backends.

    The one setting cannot be read where the others contradict it, as after `TrainingArguments(tf32=True)`; a backend
    that follows a larger group then does so again.
    """
    import torch

    backends: Any = torch.backends
    own: list[tuple[Any, str]] = []
    if hasattr(backends, "fp32_precision"):
        groups = ((backends, backends.cuda.matmul), (backends.mkldnn, backends.mkldnn.matmul))
        both = [(part, part.fp32_precision, group.fp32_precision) for group, part in groups]
        own = [(part, "none" if precision == of_group else precision) for part, precision, of_group in both]
    try:
        before = torch.get_float32_matmul_precision()
    except RuntimeError:
        before = "highest"
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
        for part, precision in own:
            part.fp32_precision = precision
