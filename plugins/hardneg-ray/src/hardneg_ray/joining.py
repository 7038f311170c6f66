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
    """Join the cluster of the options for the time of a block; a cluster joined before is left alone.

    Raises:
        UsageError: no such cluster.
        ArtifactError: a cluster that cannot be started here.
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
    """The result of a function run in a thread that lives as long as the block.

    This keeps signals working: Ray waits in C code while it starts, and replaces the program's signal handlers.
    Processes that Ray starts end with that thread.
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
        signal.alarm(0)  # Ray's handler calls the program's, but has the process aborted if it is there 3 seconds later
        raise
    finally:
        over.set()


def _awaited(result: Future[Result]) -> Result:
    """Return the result; meanwhile the program's signal handlers are restored repeatedly."""
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
    """Return whether a cluster was started here; it is fenced until `ends`."""
    address = _address(options.address)
    if address != "local":
        try:
            ray.init(address=address, **_QUIET)
        except ConnectionError as error:
            reason = str(error).splitlines()[0]
            if "InvalidAuthToken" in str(error.__cause__):
                reason = "it requires another token: set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN to its token"
            raise errors.UsageError(_unreached(address, reason)) from None
        return False
    ends.enter_context(fenced())
    return _start(options.object_store_memory)


def _start(object_store_memory: int) -> bool:
    """Start a cluster on this machine, with more than Ray's half minute for its processes."""
    for left in reversed(range(_STARTS)):
        try:
            ray.init(address="local", include_dashboard=False, object_store_memory=object_store_memory, **_QUIET)
        except Exception as error:  # Ray raises no kind of its own where its processes do not come up
            ray.shutdown()
            if not left:
                reason = str(error).split(". ")[0]
                problem = f"Ray could not be started on this machine in {_STARTS} tries ({reason}); is it busy?"
                raise errors.ArtifactError(f"{problem} Run it again") from error
        else:
            break
    return True


def _address(named: str) -> str:
    """The address to join, checked to answer; Ray would try for a quarter of an hour.

    Raises:
        UsageError: no answer at the address given here or in the environment.
    """
    if named == "auto":
        named = os.environ.get("RAY_ADDRESS") or "auto"
    if named != "auto":
        end = time.monotonic() + _MEETING
        while reason := silence(named):
            if time.monotonic() > end:
                raise errors.UsageError(_unreached(named, f"{reason}, for {_MEETING:g} seconds"))
            time.sleep(_PAUSE)
        return named
    noted = Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()) / "ray" / "ray_current_cluster"
    there = noted.exists() and not silence(noted.read_text().strip())  # it stays where a cluster was killed
    return "auto" if there else "local"  # Ray's own `auto` would join what another command has started for itself


def silence(address: str) -> str:
    """Why HOST:PORT does not answer; empty if it does, or for other forms of address."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        return ""
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PAUSE).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _unreached(address: str, reason: str) -> str:
    return f"engine ray: no cluster at {address} ({reason}); see `ray start`, or address=local"


_VARIABLES = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")


@contextmanager
def fenced() -> Iterator[None]:
    """Fence a cluster started within the block off from the network.

    Ray's only setting that makes all processes listen on the loopback alone is that of one-machine clusters, as on
    macOS. The token is new each time, in a file that only this user may read; Ray's processes inherit its path.
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
    """Make Ray read its settings again, which it otherwise does once."""
    for name in _VARIABLES:
        os.environ.pop(name, None)
    os.environ.update({name: value for name, value in wanted.items() if value is not None})
    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()
