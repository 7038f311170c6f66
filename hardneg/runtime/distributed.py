"""Work shared by the processes of torchrun or accelerate; a single process does not import torch."""

import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from threading import Event
from typing import TYPE_CHECKING, Any

from hardneg.records import UsageError

if TYPE_CHECKING:
    from torch import Tensor
    from torch._C._distributed_c10d import Store

Settle = Callable[[str, Callable[[], str]], str]

PATIENCE = timedelta(days=30)
"""The longest wait for other processes; if one dies, the launcher or `watch_others` ends the wait earlier."""

MEETING = timedelta(minutes=10)
"""The longest wait for other processes to connect at the start."""

_ROUND, _SILENT_ROUNDS = 5.0, 24  # seconds; after two minutes without a sign of life a process counts as dead
_calls = 0
_settling: "list[Settle]" = []


@dataclass(frozen=True, slots=True)
class World:
    """The rank of this process and the number of processes, both overall and on this machine (`local_`).

    The process with rank 0 writes files and messages for all processes.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1

    def share(self, total: int) -> slice:
        """Return the slice of `total` items for this process; the processes' shares differ in size by at most one."""
        return slice(total * self.rank // self.size, total * (self.rank + 1) // self.size)

    def shares(self, total: int) -> list[int]:
        """Return the sizes of the processes' shares of `total` items, by rank."""
        return [total * (rank + 1) // self.size - total * rank // self.size for rank in range(self.size)]


def world() -> World:
    """Return this process's `World`, read from the launcher's environment variables; without them, a single process."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size < 2 or "RANK" not in os.environ:
        return World()
    alone = "1" if "LOCAL_RANK" not in os.environ else str(size)
    local_size = int(os.environ.get("LOCAL_WORLD_SIZE", alone))
    return World(int(os.environ["RANK"]), size, int(os.environ.get("LOCAL_RANK", "0")), local_size)


_REFUSED = {f"ACCELERATE_USE_{name}": "false" for name in ("DEEPSPEED", "FSDP", "MEGATRON_LM")}
_REFUSED |= {"ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "1", "ACCELERATE_MIXED_PRECISION": "no"}


def check_settings() -> None:
    """Raise UsageError if accelerate was launched with settings that training does not support."""
    if found := [
        name for name, usual in _REFUSED.items() if os.environ.get(name, usual).lower() not in (usual, "0", "no")
    ]:
        reason = "every process holds the whole model, and `accumulate` and `precision` are training options"
        raise UsageError(f"{', '.join(found)}: not supported, as {reason}; remove them from the launcher's settings")


def gpu_of(here: World) -> int | None:
    """Return the number of this process's GPU: its local rank, or the only visible GPU; None with too few GPUs."""
    import torch

    count = torch.cuda.device_count()
    shown = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if count == 1 and shown and "RANK" in os.environ:
        return 0
    return here.local_rank if count >= here.local_size else None


def join(on_cpu: bool) -> World:
    """Join the other processes, with gloo and, unless `on_cpu`, NCCL for GPU tensors; return this process's `World`.

    Raises UsageError if a process does not connect within ten minutes.
    """
    here = world()
    if here.size > 1:
        import torch

        gpu = None if on_cpu else gpu_of(here)  # the same answer in all processes, with or without a GPU
        if gpu is not None:
            torch.cuda.set_device(gpu)
        if not torch.distributed.is_initialized():
            ways, store = "gloo" if gpu is None else "cpu:gloo,cuda:nccl", _meet(here)
            torch.distributed.init_process_group(ways, None, PATIENCE, here.size, here.rank, store)
    return here


def _meet(here: World) -> "Store":
    """Return the store that the processes share, once all are connected. Raises UsageError if one does not connect."""
    from torch.distributed.rendezvous import rendezvous

    address = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
    minutes = f"within {MEETING.total_seconds() / 60:g} minutes"
    end = time.monotonic() + MEETING.total_seconds()
    came = 0
    try:
        store: Store = next(rendezvous("env://", timeout=MEETING))[0]
        store.add("hardneg/came", 1)
        while (came := store.add("hardneg/came", 0)) < here.size and time.monotonic() < end:
            time.sleep(0.05)
    except (RuntimeError, ValueError) as error:
        reason = str(error).split("\n")[0]
        raise UsageError(f"process 0 at {address} did not answer {minutes} ({reason}); check this address") from error
    if came < here.size:
        raise UsageError(f"only {came} of {here.size} processes connected to {address} {minutes}; start the others too")
    store.set_timeout(PATIENCE)
    return store


def leave() -> None:
    """Wait until all processes call this, then leave the process group."""
    if world().size > 1:
        import torch

        with suppress(RuntimeError):  # the process of the common store may have left already
            barrier()
        torch.distributed.destroy_process_group()


def barrier() -> None:
    """Wait until all processes call this."""
    here = world()
    if here.size > 1:
        store, key = _store(), _next_key("barrier")
        store.add(key, 1)
        _wait(lambda: store.add(key, 0) >= here.size)


def from_first(value: Any) -> Any:
    """Return the first process's value, which must be valid in JSON, in all processes; the others wait for it."""
    here = world()
    if here.size == 1:
        return value
    store, key = _store(), _next_key("value")
    if here.rank == 0:
        store.set(key, json.dumps(value))
        return value
    _wait(lambda: store.check([key]))
    return json.loads(store.get(key))


def from_whoever_asks_first(name: str, make: Callable[[], str]) -> str:
    """Call `make` in the first process that calls this with `name`, and return its result in every such process.

    Not all processes need to call this. A single process, or one that has not joined the others, calls its own `make`.
    """
    if _settling:
        return _settling[-1](name, make)
    if world().size == 1:
        return make()
    import torch

    if not torch.distributed.is_initialized():
        return make()
    store = _store()
    if store.add(f"asked/{name}", 1) == 1:
        store.set(f"said/{name}", json.dumps(make()))
    _wait(lambda: store.check([f"said/{name}"]))
    return str(json.loads(store.get(f"said/{name}")))


def settle_by(settle: Settle) -> None:
    """Make `from_whoever_asks_first` call `settle` instead in this process, a worker started by an engine."""
    _settling[:] = [settle]


def speaks() -> bool:
    """Return whether this process is the first to report an error, and should print it; a single process always is."""
    if world().size == 1:
        return True
    with suppress(RuntimeError):  # the process of the common store may have ended already
        return bool(_store().add("hardneg/error", 1) == 1)
    return False


def watch_others(lost: Callable[[int], None], ending: Event) -> None:
    """Watch for a process that dies, and call `lost` with its rank; stop when `ending` is set. Run this in a thread.

    Each process keeps increasing a counter in the shared store. The first process watches all others, which watch it.
    """
    store: Any = _store()
    here, store = world(), store.clone()  # so that no other call is blocked
    seen = {rank: (0, 0) for rank in (range(1, here.size) if here.rank == 0 else (0,))}
    round_number, dead = 0, None
    while dead is None and not ending.wait(_ROUND):
        round_number += 1
        try:
            store.add(f"alive/{here.rank}", 1)
            for rank, (before, since) in seen.items():
                if (count := store.add(f"alive/{rank}", 0)) != before:
                    seen[rank] = count, round_number
                elif round_number - since > _SILENT_ROUNDS:
                    dead = rank
        except RuntimeError:
            dead = 0
    if dead is not None and not ending.wait(_ROUND):
        lost(dead)


def gather(part: "Tensor", total: int) -> "Tensor":
    """Concatenate the parts of all processes in rank order; gradients flow back to each part.

    The gradient of a part is summed over all processes. If every process computes the same loss from the result, the
    weights' gradients averaged over processes therefore equal those of a single process.

    part: this process's share of `total` rows, [n, d], or [n, T, d] where T may differ between processes.
    Rows beyond the share are dropped. Returns [total, d], or [total, T, d] with the largest T, padded with zeros.
    """
    if (here := world()).size == 1:
        return part
    import torch

    counts = here.shares(total)
    own = part[: counts[here.rank]]
    longer = list[int]()
    if part.dim() == 3:
        largest = torch.tensor(part.shape[1], device=part.device)
        torch.distributed.all_reduce(largest, torch.distributed.ReduceOp.MAX)
        longer = [int(largest) - part.shape[1]]
    beyond = [size for more in (0, *longer, max(counts) - len(own)) for size in (0, more)]
    padded = torch.nn.functional.pad(own, beyond)
    blocks: Sequence[Tensor] = _gathering().apply(padded)
    return torch.cat([block[:count] for block, count in zip(blocks, counts, strict=True)])


@cache
def _gathering() -> Any:
    import torch
    from torch import Tensor

    class Gather(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, part: Tensor) -> Tensor:
            parts = [torch.empty_like(part) for _ in range(world().size)]
            torch.distributed.all_gather(parts, part.contiguous())
            return torch.stack(parts)

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> Tensor:
            gradient = gradients[0].contiguous()
            torch.distributed.all_reduce(gradient)
            return gradient[world().rank]

    return Gather


def _store() -> "Store":
    from torch._C._distributed_c10d import PrefixStore
    from torch.distributed.distributed_c10d import _get_default_store

    return PrefixStore("hardneg", _get_default_store())


def _next_key(operation: str) -> str:
    """Return a new name for a collective operation; all processes must run these in the same order."""
    global _calls
    _calls += 1
    return f"{operation}/{_calls}"


def _wait(done: Any) -> None:
    """Poll `done` at growing intervals until it returns true, so that signals are handled meanwhile."""
    pause = 0.001
    while not done():
        time.sleep(pause)
        pause = min(pause * 1.5, 0.5)
