"""Joining a Ray cluster, or starting one on this machine."""

import os
import secrets
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import ray
from ray._private import ray_constants
from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]

from hardneg.plugin import errors
from hardneg_ray.cluster import Cluster
from hardneg_ray.engine import Ray

_MEETING, _PAUSE = 60.0, 1.0  # seconds that a cluster may take to answer, and between two checks
_STARTS = 3
_LOOK = 0.05  # seconds
Result = TypeVar("Result")
_QUIET: dict[str, Any] = {"log_to_driver": False, "configure_logging": True, "logging_level": "error"}


@contextmanager
def joined(options: Ray) -> Iterator[Cluster]:
    """Yield the cluster that this process is already in; otherwise, join or start the one in `options` for the block.

    Raises:
        UsageError: there is no such cluster.
        ArtifactError: a cluster cannot be started here.
    """
    if ray.is_initialized():
        yield Cluster(options, False, ray.get_runtime_context().get_node_id())
        return
    with ExitStack() as ends, beside(lambda: _join(options, ends)) as started:
        try:
            yield Cluster(options, started, ray.get_runtime_context().get_node_id())
        finally:
            ray.shutdown()


@contextmanager
def beside(work: Callable[[], Result]) -> Iterator[Result]:
    """Run a function in a thread that ends with the block, and yield the function's result.

    This keeps signals working: Ray waits in C code while it starts, and replaces the program's signal handlers.
    Processes that Ray starts end with the thread.
    """
    result, over = Future[Result](), threading.Event()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:
            result.set_exception(error)
        over.wait()

    threading.Thread(target=run, name="joining", daemon=True).start()
    try:
        yield _awaited(result)
    except BaseException:
        signal.alarm(0)  # Ray's handler calls the program's, but aborts a process that is alive 3 seconds later
        raise
    finally:
        over.set()


def _awaited(result: Future[Result]) -> Result:
    """Wait for the result and return it; restore the program's signal handlers repeatedly while waiting."""
    while not result.done():
        _hear()
        wait([result], _LOOK)
    _hear()
    return result.result()


def _hear() -> None:
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.getsignal(number))


def _join(options: Ray, ends: ExitStack) -> bool:
    """Join or start a cluster; return whether it was started here. `ends` closes the fence of a started cluster."""
    address = _address(options.address)
    if address != "local":
        try:
            ray.init(address=address, **_QUIET)
        except ConnectionError as error:
            reason = str(error).splitlines()[0]
            if "InvalidAuthToken" in str(error.__cause__):
                reason = "it requires another token; set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN to its token"
            raise errors.UsageError(_unreached(address, reason)) from None
        return False
    ends.enter_context(fenced())
    return _start(options.object_store_memory)


def _start(object_store_memory: int) -> bool:
    """Start a cluster on this machine, with more than Ray's half minute for its processes."""
    for left in reversed(range(_STARTS)):
        try:
            ray.init(address="local", include_dashboard=False, object_store_memory=object_store_memory, **_QUIET)
        except Exception as error:  # Ray has no error class for processes that do not start
            ray.shutdown()
            if not left:
                reason = str(error).split(". ")[0]
                problem = f"Ray could not be started on this machine in {_STARTS} tries ({reason})"
                raise errors.ArtifactError(f"{problem}; retry when the machine is less busy") from error
        else:
            break
    return True


def _address(named: str) -> str:
    """Return the address to join, after checking that it answers; Ray itself would retry for 15 minutes.

    Raises:
        UsageError: the address, from the option or the environment, does not answer.
    """
    if named == "auto":
        named = os.environ.get("RAY_ADDRESS") or "auto"
    if named != "auto":
        end = time.monotonic() + _MEETING
        while reason := silence(named):
            if time.monotonic() > end:
                raise errors.UsageError(_unreached(named, f"{reason} for {_MEETING:g} seconds"))
            time.sleep(_PAUSE)
        return named
    noted = Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()) / "ray" / "ray_current_cluster"
    there = noted.exists() and not silence(noted.read_text().strip())  # the file remains after a cluster is killed
    return "auto" if there else "local"  # Ray's own `auto` would join the private cluster of another command


def silence(address: str) -> str:
    """Return why HOST:PORT does not answer; empty if it answers, or for other forms of address."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        return ""
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PAUSE).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _unreached(address: str, reason: str) -> str:
    return f"engine ray: no cluster at {address} ({reason}); start one with `ray start`, or use address=local"


_VARIABLES = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")


@contextmanager
def fenced() -> Iterator[None]:
    """Isolate a cluster that is started within the block from the network.

    Ray's setting for one-machine clusters, as on macOS, is the only one that makes all processes listen only on the
    loopback interface. The token is new each time, in a file that only this user can read; Ray's processes inherit its
    path.
    """
    many, before = ray_constants.ENABLE_RAY_CLUSTER, {name: os.environ.get(name) for name in _VARIABLES}
    with tempfile.TemporaryDirectory(prefix="hardneg-ray-") as folder:
        token = Path(folder) / "token"
        token.touch(0o600)
        token.write_text(secrets.token_hex(32))
        ray_constants.ENABLE_RAY_CLUSTER = False
        _ask_for({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)})
        try:
            yield
        finally:
            ray_constants.ENABLE_RAY_CLUSTER = many
            _ask_for(before)


def _ask_for(wanted: Mapping[str, str | None]) -> None:
    """Set environment variables, and make Ray re-read its settings, which it otherwise reads once."""
    for name in _VARIABLES:
        os.environ.pop(name, None)
    os.environ.update({name: value for name, value in wanted.items() if value is not None})
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()
