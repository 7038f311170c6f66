"""`--num-processes N`: the same command in N processes, and how they speak with one voice."""

import logging
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from hardneg.cli.console import say
from hardneg.cli.watched import watched
from hardneg.records.errors import HardnegError, UsageError
from hardneg.runtime.distributed import (
    PROCESSES_VARIABLE,
    World,
    barrier,
    check_settings,
    from_first,
    gpu_of,
    join,
    leave,
    speaks,
    spoken,
    world,
)
from hardneg.store.artifacts import disk_errors

_LOST = 75
"""Exit code of a process that ends because another one did."""


def launches(count: int | None) -> bool:
    """Whether this process is to start `count` others instead of working itself.

    Raises:
        UsageError: it was started as one of several, and there are fewer than were asked for, or more.
    """
    here, wanted = world(), int(os.environ.get(PROCESSES_VARIABLE, 0)) or count
    if here.size == 1 and PROCESSES_VARIABLE not in os.environ:
        _check_launcher(count)
        return count is not None and count > 1
    if wanted is not None and here.size != wanted:
        if not here.first:
            sys.exit(UsageError.exit_code)
        raise UsageError(f"--num-processes {wanted}: {here.size} started; leave it out where a launcher starts hardneg")
    return False


def launched(count: int | None, device: str | None) -> bool:
    """Whether this command is done, because it has run in `count` other processes."""
    if launches(count):
        launch(count or 1, device)
        return True
    return False


def _check_launcher(count: int | None) -> None:
    """Refuses to be the one process that `accelerate launch --cpu` starts on a machine where several are wanted."""
    started = os.environ.get("ACCELERATE_USE_CPU", "").lower() in {"1", "true"} and os.environ.get("MASTER_ADDR")
    if started and not (started == "127.0.0.1" and count is not None):
        raise UsageError(
            "`accelerate launch --cpu` starts one process and gives it no number; pass --multi_gpu in its place (that "
            "needs no GPU) with --device cpu after `hardneg ...`, or use torchrun, or set RANK and WORLD_SIZE"
        )


def launch(count: int, device: str | None) -> None:
    """Runs this command in `count` processes and exits as they do, through torchrun."""
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    on_cpu = own_device(World(0, count, 0, count), device) == "cpu"
    os.environ[PROCESSES_VARIABLE] = str(count)
    if on_cpu:
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // count)))
    heard = logging.root.manager.disable
    logging.disable(logging.ERROR)  # torchrun's own account of a failure
    try:
        _torchrun(count, ["-m", "hardneg", *sys.argv[1:]])
    except ChildFailedError as error:
        rank, code = _cause({rank: failure.exitcode for rank, failure in error.failures.items()})
        if code < 0 or code == _LOST:
            how = f"was killed by {signal.Signals(-code).name}" if code < 0 else "lost the others"
            say(
                f"hardneg: process {rank} of {count} {how}; the others were stopped; finished work is kept. "
                "Run the same command to resume",
                err=True,
            )
        sys.exit(code if code > 0 else 128 - code)
    except SignalException as error:
        say("hardneg: stopped; finished work is kept. Run the same command to resume", err=True)
        sys.exit(128 + error.sigval.value)
    finally:
        logging.disable(heard)


def own_device(here: World, device: str | None) -> str:
    """`cpu`, or the GPU of this process.

    Raises:
        UsageError: there are too few GPUs, or one is named.
    """
    import torch

    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        return device
    if device != "cuda":
        raise UsageError(f"--device {device}: several processes run on `cpu` or, one GPU each, on `cuda`")
    if (gpu := gpu_of(here)) is None:
        raise UsageError(
            f"{here.local_size} processes on one machine: it has {torch.cuda.device_count()} GPUs, one a process is "
            "needed; or --device cpu"
        )
    return f"cuda:{gpu}"


@contextmanager
def together(device: str | None) -> Iterator[str | None]:
    """Meets the other processes, gives the device to use, and leaves with them; only one of them reports an error."""
    here = world()
    check_settings(launched=True)
    if here.size == 1:
        yield device
        return
    interrupts = (signal.SIGINT,) if PROCESSES_VARIABLE in os.environ or not here.first else ()
    for number in (signal.SIGTERM, *interrupts):
        signal.signal(number, signal.SIG_DFL)  # the launcher speaks, and waiting in C code must not delay the end
    join(on_cpu=device == "cpu")
    with watched(_end):
        try:
            yield own_device(here, device)
            leave()
        except HardnegError as error:
            if speaks():
                raise
            sys.exit(error.exit_code)
        except Exception:
            if spoken(seconds=5) or not speaks():
                sys.exit(_LOST)
            raise


def _end(rank: int, in_order: bool) -> None:
    """Ends this process because another one has; a line on each machine, unless that one or the launcher speaks."""
    here = world()
    if not in_order and PROCESSES_VARIABLE not in os.environ and here.local_rank == 0:
        say(
            f"hardneg: process {rank} of {here.size} is gone: it was killed, or its machine cannot be reached; "
            "finished work is kept. Run the same command to resume",
            err=True,
        )
    os._exit(_LOST)


def _check_shared(root: Path, seconds: float = 15.0) -> None:
    here = world()
    if not here.several_machines:
        return
    folder, meeting = root / "locks", from_first(time.time_ns())
    marks = [folder / f"meeting-{meeting}-{rank}" for rank in range(here.size)]
    with disk_errors(root):
        folder.mkdir(parents=True, exist_ok=True)
        marks[here.rank].touch()
    barrier()
    end = time.monotonic() + seconds
    while missing := [rank for rank, mark in enumerate(marks) if not mark.exists()]:
        if time.monotonic() > end:
            break
        os.listdir(folder)  # a network file system may remember for a while what was not there
        time.sleep(0.2)
    barrier()
    marks[here.rank].unlink()
    if missing:
        raise UsageError(
            f"store {root}: process {here.rank} does not see what process {missing[0]} writes there; put the store on "
            "a file system that all machines share, and give its path with --store or $HARDNEG_STORE"
        )


def meet(keys: Mapping[str, str], root: Path) -> None:
    """Makes sure that all processes see the same files.

    Args:
        keys: key by step.
        root: the store's folder.

    Raises:
        UsageError: this process has come to other keys than the first, or does not see what others write.
    """
    _check_shared(root)
    if from_first(keys) != keys:
        raise UsageError(f"process {world().rank} sees another model or dataset than process 0: their files differ")


def _torchrun(count: int, command: list[str]) -> None:
    from torch.distributed import run

    address = ["--standalone", "--local-addr", "127.0.0.1"]
    options = [*address, "--nproc-per-node", str(count)]
    run.run(run.parse_args([*options, *command]))  # type: ignore[no-untyped-call]


def _cause(codes: dict[int, int]) -> tuple[int, int]:
    """The process that failed first, and how: those that ended because of another do not count where one did not."""
    own = {rank: code for rank, code in codes.items() if code not in {_LOST, -signal.SIGTERM}}
    return next(iter((own or codes).items()))
