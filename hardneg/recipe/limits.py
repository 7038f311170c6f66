"""What of a plan is too large for the machines that it is made for, and what to do about it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hardneg.costs.data_sheets import MEMORY_PART
from hardneg.costs.machine import Machine
from hardneg.recipe.estimate import Estimate
from hardneg.records.wording import size

_LONG = 10_000  # hours of GPUs or machines together


@dataclass(frozen=True)
class Room:
    """Bytes that are free on each machine; None where that is not known, as of other machines than this one."""

    disk: float | None = None
    memory: float | None = None


def too_large(rows: Sequence[Estimate], machine: Machine, room: Room) -> Iterator[str]:
    """One line for each thing that does not fit, with what to do: `what: how much, how much there is; what to do`."""
    ahead = [row for row in rows if not row.cached]
    limit = MEMORY_PART * machine.rates.capacity
    for each in ahead:
        if limit and each.gpu_memory > limit:
            reason = f"{size(each.gpu_memory)} on each GPU, of which {size(limit)} can be counted on"
            yield f"{each.step.name}: {reason}; take smaller batches or chunks, gradient_checkpointing, or a larger GPU"
    yield from _on_machines(ahead, machine, room)
    for row in ahead:
        hours = (row.gpu_hours if row.gpus else machine.machines * row.seconds / 3600) if row.seconds else 0.0
        if hours > _LONG:
            what = "hours of GPUs" if row.gpus else "hours of machines"
            yield f"{row.step.name}: {hours:,.0f} {what}; {_less(row)}"


def _on_machines(ahead: Sequence[Estimate], machine: Machine, room: Room) -> Iterator[str]:
    disk = sum(row.disk for row in ahead)
    if room.disk is not None and disk > room.disk:
        reason = f"{size(disk)}, {size(room.disk)} are free in the store"
        yield f"disk: {reason}; name a store with more room, shards on several machines, or pq, opq-pq or ivfpq indexes"
    for row in ahead:
        each = row.memory / machine.machines
        if room.memory is not None and each > room.memory:
            reason = f"{size(each)} of memory, of which this machine has {size(room.memory)}"
            yield f"{row.step.name}: {reason}; take fewer processes, more machines, or an index of smaller codes"


def _less(row: Estimate) -> str:
    """What makes a step shorter."""
    if row.step.verb == "search":
        return "take more GPUs or machines, an ivfpq or hnsw index, or fewer queries"
    if row.step.verb.startswith("train"):
        return "take fewer steps or smaller batches, or a smaller model"
    return "take more GPUs or machines, or a smaller model"
