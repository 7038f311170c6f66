"""What the device can do at most: the rates that the other pieces' shares are of."""

import os

import torch
from gpu.material import median_seconds
from gpu.setting import Figures, Setting


def rates(setting: Setting) -> Figures:
    """Products in bfloat16 and float32, copies on the device and to it, a launch, and a read of one number."""
    device, found = torch.device(setting.device), Figures(torch=torch.__version__, cores=os.cpu_count() or 0)
    if setting.gpu:
        found["card"] = torch.cuda.get_device_name()
    size, count = setting.size(8192, 256), setting.size(1 << 28, 1 << 20)
    for name in ("bfloat16", "float32"):
        one, other = (torch.randn(size, size, device=device).to(getattr(torch, name)) for _ in range(2))
        taken = median_seconds(lambda one=one, other=other: [one @ other for _ in range(5)], setting)
        found[f"{name} TFLOP/s"] = round(2 * size**3 * 5 / taken / 1e12, 1)
    there = torch.empty(count, device=device)
    copied = torch.empty_like(there)
    found["copy GB/s"] = round(8 * count / median_seconds(lambda: copied.copy_(there), setting) / 1e9)
    for name, pinned in (("pinned", setting.gpu), ("pageable", False)):
        here = torch.zeros(count // 4, pin_memory=pinned)
        taken = median_seconds(lambda here=here: there[: count // 4].copy_(here, non_blocking=True), setting)
        found[f"{name} to the device, GB/s"] = round(count / taken / 1e9, 1)
    number = torch.zeros(1, device=device)
    taken = median_seconds(lambda: [number.add_(1) for _ in range(1000)], setting)
    found["us a launch"] = round(taken * 1e3, 2)
    taken = median_seconds(lambda: [bool(number.isfinite()) for _ in range(100)], setting)
    found["us a read"] = round(taken * 1e4, 1)
    return found
