"""The devices to compute on."""

from hardneg.records.errors import UsageError

_DEVICE_TYPES = ("cpu", "cuda", "mps", "xpu")


def check_device(device: str, field: str = "device") -> None:
    """Checks that a device is available; torch is imported for any but `cpu`.

    Args:
        device: `cpu`, `cuda`, `cuda:1`, `mps`, or whatever else torch computes on here.
        field: that set it, for the message.

    Raises:
        UsageError: this machine has no such device; the message names the available ones.
    """
    if device == "cpu" or device in (known := known_devices()):
        return
    from hardneg.records.wording import suggestion

    device_type = device.partition(":")[0]
    if device_type not in _DEVICE_TYPES:
        reason = f"no such device{suggestion(device_type, _DEVICE_TYPES)}"
    elif device_type in known:
        reason = f"this machine has no {device}"
    else:
        import torch

        reason = f"torch {torch.__version__} finds no {device_type} device here"
    where = f"{{{field}}}" if field.isidentifier() else field
    raise UsageError(f"{where} {device}: {reason}; there is: {', '.join(known)}", field)


def known_devices() -> list[str]:
    """The names of all devices: `cpu`, the type of accelerator that torch reports, and each of that type."""
    import torch

    if not torch.accelerator.is_available():
        return ["cpu"]
    device_type = str(torch.accelerator.current_accelerator()).partition(":")[0]
    return ["cpu", device_type, *(f"{device_type}:{number}" for number in range(torch.accelerator.device_count()))]
