"""The Ray cluster, its resources, and the resources of an actor."""

import math
from dataclasses import dataclass
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from hardneg.plugin import errors
from hardneg_ray.engine import Ray


class ClusterLost(errors.ArtifactError):
    """The Ray processes on this machine have stopped. started: whether they were started for this process."""

    def __init__(self, started: bool) -> None:
        self.started = started
        reason = "the Ray processes on this machine have stopped"
        super().__init__(f"{reason}; finished work is saved, so run the same command to resume")


@dataclass(frozen=True)
class Needs:
    """The numbers of GPUs and cores that each actor reserves, which may be fractions."""

    num_gpus: float
    num_cpus: float

    @property
    def words(self) -> str:
        """The resources for messages, such as `1 GPU and 4 cores`."""
        return f"{self.num_gpus:g} GPU and {self.num_cpus:g} cores" if self.num_gpus else f"{self.num_cpus:g} cores"


@dataclass(frozen=True)
class Cluster:
    """A cluster that this process has joined. started: whether this process started it. node: this machine's id."""

    options: Ray
    started: bool
    node: str

    def needs(self, device: str | None) -> Needs:
        """Return the resources that an actor reserves for `device`: from the options, or derived from the machines."""
        cpus, gpus = self._machines("CPU"), self._machines("GPU")
        num_gpus = self.options.num_gpus
        if num_gpus is None:
            num_gpus = float(any(gpus) and device != "cpu")
        num_cpus = self.options.num_cpus
        if num_cpus is None:
            num_cpus = _cores(cpus, gpus, num_gpus, self.options.actors)
        return Needs(num_gpus, num_cpus)

    def room(self, needs: Needs) -> int:
        """Return the number of actors with these needs that fit on the idle cluster."""
        by_machine = zip(self._machines("CPU"), self._machines("GPU"), strict=True)
        return sum(_fitting(cpus, needs.num_cpus, _fitting(gpus, needs.num_gpus)) for cpus, gpus in by_machine)

    def beside_driver(self, actor: type[Any]) -> Any:
        """Return a factory for actors of a class that run on this machine, reserve no resources, and are restarted."""
        here = NodeAffinitySchedulingStrategy(self.node, soft=False)
        return ray.remote(actor).options(num_cpus=0, max_restarts=-1, max_task_retries=-1, scheduling_strategy=here)

    def check(self) -> None:
        """Raise ClusterLost if the Ray processes on this machine have stopped."""
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
