"""Several processes that notice the end of one of them.

Each holds a connection to the first, which tells whether it is still there. The system ends the connection of a
process that ends, at once, and that of a machine that is gone, after half a minute, however busy both interpreters
are. Who ends in order says so first.
"""

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from hardneg.records.errors import UsageError
from hardneg.runtime.distributed import MEETING, World, from_first, world

_TOKEN, _NUMBER = 32, 8
_POLITE = 5.0  # seconds in which a process that has connected says who it is
_GRACE = 15.0
"""Seconds in which a process ends by itself after another one has ended in order."""

_SILENCE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4}

Lost = Callable[[int, bool], None]
Lines = Mapping[int, socket.socket]


@contextmanager
def watched(lost: Lost) -> Iterator[None]:
    """Calls `lost`, from another thread, with the number of a process that is gone and whether it ended in order.

    Raises:
        UsageError: the first process cannot be reached by all others.
    """
    try:
        lines = _connect(world())
    except OSError as error:
        raise UsageError(
            f"the processes cannot reach each other ({error}); look at names, routes and firewalls"
        ) from None
    ending = threading.Event()
    for rank, line in lines.items():
        threading.Thread(target=_attend, args=(rank, lines, ending, lost), daemon=True).start()
        for option, value in _SILENCE.items():
            line.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    try:
        yield
    finally:
        ending.set()
        _tell(lines, world().rank)


def _connect(here: World) -> Lines:
    if not here.first:
        port, token = from_first(None)
        line = socket.create_connection((_host(here), port), timeout=MEETING.total_seconds())
        line.sendall(f"{token}{here.rank:{_NUMBER}}".encode())
        line.settimeout(None)
        return {0: line}
    lines: dict[int, socket.socket] = {}
    token = secrets.token_hex(_TOKEN // 2)
    with socket.create_server(("" if here.several_machines else _host(here), 0)) as server:
        from_first([server.getsockname()[1], token])
        server.settimeout(MEETING.total_seconds())
        while len(lines) < here.size - 1:
            line, _ = server.accept()
            if (hello := _greeting(line)).startswith(token):
                lines[int(hello[_TOKEN:])] = line
            else:
                line.close()
    return lines


def _greeting(line: socket.socket) -> str:
    """What is said by who has connected; a stranger, such as a port scanner, may say nothing."""
    line.settimeout(_POLITE)
    try:
        hello = line.recv(_TOKEN + _NUMBER, socket.MSG_WAITALL)
        line.settimeout(None)
    except OSError:
        return ""
    return hello.decode(errors="replace")


def _host(here: World) -> str:
    return os.environ["MASTER_ADDR"] if here.several_machines else "127.0.0.1"


def _attend(rank: int, lines: Lines, ending: threading.Event, lost: Lost) -> None:
    """Waits for the end of one connection; the first process passes on to the others who is gone."""
    said = b""
    with suppress(OSError):
        said = lines[rank].recv(_NUMBER, socket.MSG_WAITALL)
    gone = int(said) if said else rank
    in_order = bool(said) and gone == rank
    if in_order:
        time.sleep(_GRACE)
    if not ending.is_set():
        _tell({other: line for other, line in lines.items() if other != rank}, gone)
        lost(gone, in_order)


def _tell(lines: Lines, rank: int) -> None:
    for line in lines.values():
        with suppress(OSError):
            line.sendall(f"{rank:{_NUMBER}}".encode())
