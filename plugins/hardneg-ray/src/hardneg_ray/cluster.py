"""The Ray cluster: joined, or started on this machine; what it has, and what an actor of it takes."""

import math
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from hardneg.errors import ArtifactError, UsageError
from hardneg_ray.engine import Ray


class ClusterLost(ArtifactError):
    """The Ray processes of this machine are gone; started: whether they were started for this process."""

    def __init__(self, started: bool) -> None:
        self.started = started
        told = "the Ray processes of this machine are gone; what was finished is kept"
        super().__init__(f"{told}, the same command goes on from there")


@dataclass(frozen=True)
class Needs:
    """What an actor takes of its machine."""

    num_gpus: float
    num_cpus: float

    @property
    def told(self) -> str:
        """In words."""
        return f"{self.num_gpus:g} GPU and {self.num_cpus:g} cores" if self.num_gpus else f"{self.num_cpus:g} cores"


@dataclass(frozen=True)
class Cluster:
    """A cluster that this process has joined; started: whether it was started for it, on this machine."""

    options: Ray
    started: bool
    node: str

    def needs(self, device: str | None) -> Needs:
        """By the options, or by what the machines have."""
        cpus, gpus = self._machines("CPU"), self._machines("GPU")
        num_gpus = self.options.num_gpus
        if num_gpus is None:
            num_gpus = float(any(gpus) and device != "cpu")
        num_cpus = self.options.num_cpus
        if num_cpus is None:
            num_cpus = _cores(cpus, gpus, num_gpus, self.options.actors)
        return Needs(num_gpus, num_cpus)

    def room(self, needs: Needs) -> int:
        """How many actors the machines that are there have room for, if they have no other work."""
        by_machine = zip(self._machines("CPU"), self._machines("GPU"), strict=True)
        return sum(_fitting(cpus, needs.num_cpus, _fitting(gpus, needs.num_gpus)) for cpus, gpus in by_machine)

    def beside_driver(self, kind: type[Any]) -> Any:
        """Makes actors of a class on this machine, which take no room there."""
        here = NodeAffinitySchedulingStrategy(self.node, soft=False)
        return ray.remote(kind).options(num_cpus=0, max_restarts=-1, max_task_retries=-1, scheduling_strategy=here)

    def check(self) -> None:
        """Raises ClusterLost where the Ray processes of this machine are gone."""
        if not any(node["Alive"] and node["NodeID"] == self.node for node in ray.nodes()):
            raise ClusterLost(self.started)

    def _machines(self, resource: str) -> list[float]:
        return [float(node["Resources"].get(resource, 0.0)) for node in ray.nodes() if node["Alive"]]


def _cores(cpus: list[float], gpus: list[float], num_gpus: float, actors: Any) -> float:
    if num_gpus:
        shares = [cores * num_gpus / there for cores, there in zip(cpus, gpus, strict=True) if there >= num_gpus]
    elif actors == "auto":
        shares = [cores for cores in cpus if cores]
    else:
        shares = [sum(cpus) / actors]
    share = min(shares, default=1.0)
    return float(math.floor(share)) if share >= 1 else math.floor(share * 100) / 100


def _fitting(there: float, taken: float, most: float = math.inf) -> Any:
    return most if not taken else min(most, math.floor(there / taken + 1e-9))


@contextmanager
def joined(options: Ray) -> Iterator[Cluster]:
    """The cluster that the options name, for the time of a block; one that was joined before is left as it is.

    Raises:
        UsageError: there is none.
    """
    if ray.is_initialized():
        yield Cluster(options, False, ray.get_runtime_context().get_node_id())
        return
    with _own_signals():
        started = _join(options)
    try:
        yield Cluster(options, started, ray.get_runtime_context().get_node_id())
    finally:
        ray.shutdown()


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keeps what a process does when it is asked to end: Ray would write a trace of its own, and abort."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    if threading.current_thread() is threading.main_thread():
        for number, handler in before.items():
            signal.signal(number, handler)


def _join(options: Ray) -> bool:
    quiet: dict[str, Any] = {"log_to_driver": False, "configure_logging": True, "logging_level": "error"}
    if options.address != "local":
        try:
            ray.init(address=options.address, **quiet)
            return False
        except ConnectionError as error:
            if options.address != "auto":
                reason = str(error).splitlines()[0]
                raise UsageError(f"--engine ray: no cluster at {options.address} ({reason}); see `ray start`") from None
    try:
        ray.init(address="local", include_dashboard=False, object_store_memory=options.object_store_memory, **quiet)
    except Exception as error:  # Ray raises no kind of its own where its processes do not come up
        ray.shutdown()
        reason = str(error).split(". ")[0]
        raise ArtifactError(f"Ray could not be started on this machine ({reason}); is it busy? Run it again") from error
    return True
