"""Which devices and threads the trainer and the inferencer have."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hardneg.distributed import World
from hardneg.errors import UsageError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Devices:
    """What the two may use: a share each, or a list of devices each.

    On a CPU shares, or the lengths of the lists, divide the threads. On GPUs a share of the trainer's is its processes,
    one GPU each; the inferencer has in proportion those that follow, or the trainer's where there are no more.
    """

    trainer: int | tuple[str, ...] = 1
    inferencer: int | tuple[str, ...] = 1

    def problems(self) -> list[str]:
        """One line for each that makes no sense."""
        return [
            f"{name} must be a share of 1 or above, or a list of devices, not {value}"
            for name in ("trainer", "inferencer")
            if (value := getattr(self, name)) == () or (isinstance(value, int) and value < 1)
        ]

    @property
    def shares(self) -> tuple[int, int]:
        """The trainer's and the inferencer's."""
        trainer, inferencer = (
            value if isinstance(value, int) else len(value) for value in (self.trainer, self.inferencer)
        )
        return trainer, inferencer


def trainer_device(devices: Devices, given: str | None, here: World) -> str | None:
    """The device of this trainer process: the one that it was given, or its own of the list.

    Raises:
        UsageError: the list has fewer devices than there are trainer processes on this machine.
    """
    if isinstance(devices.trainer, int):
        return given
    if len(devices.trainer) < here.local_size:
        raise UsageError(
            f"devices.trainer: {len(devices.trainer)} devices for {here.local_size} processes: name one for each"
        )
    return devices.trainer[here.local_rank]


def inferencer_devices(devices: Devices, trainer: "torch.device", here: World, gpus: int) -> Sequence[str]:
    """The devices of the inferencer beside trainers, of which one runs on `trainer`; gpus: how many are there."""
    if not isinstance(devices.inferencer, int):
        return devices.inferencer
    if trainer.type == "cpu":
        return ["cpu"]
    of_trainer, of_inferencer = devices.shares
    wanted = max(1, here.local_size * of_inferencer // of_trainer)
    free = range(here.local_size, gpus)[:wanted]
    return [f"cuda:{number}" for number in free] or [str(trainer)]


def threads(devices: Devices, total: int, here: World) -> tuple[int, int]:
    """A trainer process's and the inferencer's part of `total` threads; one at least."""
    of_trainer, of_inferencer = devices.shares
    together = total * of_trainer // (of_trainer + of_inferencer)
    return max(1, together // here.local_size), max(1, total - together)
