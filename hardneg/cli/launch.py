"""`--num-processes N`: the same command in N processes of torchrun, of which one speaks for all."""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from hardneg.cli.console import say
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
    watch_others,
    world,
)
from hardneg.store.artifacts import disk_errors

_LOST = 75
"""Exit code of a process that ends because another one did."""
_GRACE = 5.0
"""Seconds in which the launcher ends a process that may have failed because another one is gone."""


def launched(count: int | None, device: str | None) -> bool:
    """Whether this command is done, because it has run in `count` other processes.

    Raises:
        UsageError: it was started as one of several, and there are fewer than were asked for, or more.
    """
    here, wanted = world(), int(os.environ.get(PROCESSES_VARIABLE, 0)) or count
    if here.size == 1 and PROCESSES_VARIABLE not in os.environ:
        _check_launcher(count)
        if count is not None and count > 1:
            _launch(count, device)
            return True
    elif wanted is not None and here.size != wanted:
        if not here.first:
            sys.exit(UsageError.exit_code)
        raise UsageError(f"--num-processes {wanted}, but a launcher started {here.size} processes: drop the option")
    return False


def _check_launcher(count: int | None) -> None:
    """Refuses to be the one process that `accelerate launch --cpu` starts on a machine where several are wanted."""
    started = os.environ.get("ACCELERATE_USE_CPU", "").lower() in {"1", "true"} and os.environ.get("MASTER_ADDR")
    if started and not (started == "127.0.0.1" and count is not None):
        raise UsageError(
            "`accelerate launch --cpu` starts one process and gives it no number; pass --multi_gpu in its place (that "
            "needs no GPU) with --device cpu after `hardneg ...`, or use torchrun, or set RANK and WORLD_SIZE"
        )


def _launch(count: int, device: str | None) -> None:
    """Runs this command in `count` processes of torchrun, which ends all when one fails, and exits as that one did."""
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    if own_device(World(0, count, 0, count), device) == "cpu":
        os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // count)))
    os.environ[PROCESSES_VARIABLE] = str(count)
    options = ["--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", str(count)]
    logging.disable(logging.ERROR)  # torchrun's own account of a failure
    resume = "finished work is kept. Run the same command to resume"
    try:
        run.run(run.parse_args([*options, "-m", "hardneg", *sys.argv[1:]]))  # type: ignore[no-untyped-call]
    except ChildFailedError as error:
        codes = {rank: failure.exitcode for rank, failure in error.failures.items()}
        own = {rank: code for rank, code in codes.items() if code not in {_LOST, -signal.SIGTERM}}
        rank, code = next(iter((own or codes).items()))
        if code < 0:
            killed = f"hardneg: process {rank} of {count} was killed by {signal.Signals(-code).name}"
            say(f"{killed}; the others were stopped; {resume}", err=True)
        sys.exit(code if code > 0 else 128 - code)
    except SignalException as error:
        say(f"hardneg: stopped; {resume}", err=True)
        sys.exit(128 + error.sigval.value)
    finally:
        logging.disable(logging.NOTSET)


def own_device(here: World, device: str | None) -> str:
    """`cpu`, or the GPU of this process. Raises UsageError: there are too few GPUs, or one is named."""
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
    ending = threading.Event()
    threading.Thread(target=watch_others, args=(_end, ending), daemon=True).start()
    try:
        yield own_device(here, device)
        leave()
        ending.set()
    except Exception as error:
        if not isinstance(error, HardnegError):
            time.sleep(_GRACE)
        if speaks():
            raise
        sys.exit(error.exit_code if isinstance(error, HardnegError) else _LOST)


def _end(rank: int) -> None:
    say(f"hardneg: process {rank} is gone; finished work is kept. Run the same command to resume", err=True)
    os._exit(_LOST)


def meet(keys: Mapping[str, str], root: Path, seconds: float = 15.0) -> None:
    """Makes sure that all processes see the same files.

    Args:
        keys: key by step.
        root: the store's folder.
        seconds: within which a file of the first process is to be seen by those on other machines.

    Raises:
        UsageError: this process has come to other keys than the first, or does not see what that writes.
    """
    here = world()
    if here.several_machines:
        mark = root / "locks" / f"meeting-{from_first(time.time_ns())}"
        with disk_errors(root):
            mark.parent.mkdir(parents=True, exist_ok=True)
            if here.first:
                mark.touch()
        barrier()
        end = time.monotonic() + seconds
        while not mark.exists():
            if time.monotonic() > end:
                raise UsageError(
                    f"store {root}: process {here.rank} does not see what process 0 writes there; put the store on a "
                    "file system that all machines share, and give its path with --store or $HARDNEG_STORE"
                )
            os.listdir(mark.parent)  # a network file system may remember for a while what was not there
            time.sleep(0.2)
        barrier()
        if here.first:
            mark.unlink()
    if from_first(keys) != keys:
        raise UsageError(f"process {here.rank} sees another model or dataset than process 0: their files differ")
