"""The engine `ray`: what it can be told, and how it makes a stage."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from hardneg.plugin import PluginError

if TYPE_CHECKING:
    from hardneg.plugin import StageContext, StageSpec


@dataclass(frozen=True)
class Ray:
    """Has the actors of a Ray cluster make the blocks of encode, search, mine and rerank; the bytes stay the same.

    Each actor opens the model or the index once, and is given a few missing blocks at a time, as many as it manages.
    What is finished stands in the store, so a lost actor, machine or command costs the blocks it was at.

    Args:
        address: the cluster to join; `auto` joins the one that `ray start` has started on this machine, or starts one
            here; `local` starts one here, which only this machine and this user can reach.
        actors: how many at a time; `auto` is as many as have room, more whenever the cluster grows.
        num_gpus: GPUs of an actor, which may be a part of one; by default 1 where the cluster has any.
        num_cpus: cores of an actor, and its threads; by default a GPU's share of its machine, or without GPUs the
            machine's share of an actor, all where `actors` is `auto`.
        shared: whether all machines see the store under the same path; `auto` looks. Where they do not, blocks travel
            to this machine, which writes them, and inputs that a machine lacks travel to its own store.
        store: where a machine that lacks inputs keeps them; by default its own $HARDNEG_STORE, or the usual place.
        losses: how often the same blocks may be lost with an actor, or a cluster that was started here, until the stage
            ends with an error.
        patience: seconds to wait for room for the first actor.
        object_store_memory: bytes of shared memory of a cluster that is started here.
    """

    version: ClassVar[int] = 1

    address: str = "auto"
    actors: int | Literal["auto"] = "auto"
    num_gpus: float | None = None
    num_cpus: float | None = None
    shared: bool | Literal["auto"] = "auto"
    store: str | None = None
    losses: int = 3
    patience: float = 600.0
    object_store_memory: int = 100_000_000

    def __post_init__(self) -> None:
        if self.actors != "auto" and self.actors < 1:
            raise PluginError(f"actors must be 1 or above, or auto, not {self.actors}")
        for name, value in (("num_gpus", self.num_gpus), ("num_cpus", self.num_cpus)):
            if value is not None and value < 0:
                raise PluginError(f"{name} must be 0 or above, not {value}")
        if self.losses < 1:
            raise PluginError(f"losses must be 1 or above, not {self.losses}")
        if self.patience <= 0:
            raise PluginError(f"patience must be above 0, not {self.patience}")
        if self.object_store_memory < 80_000_000:
            raise PluginError(f"object_store_memory must be 80000000 or above, not {self.object_store_memory}")

    def make(self, context: "StageContext[StageSpec]") -> Mapping[str, Any]:
        """The stage in blocks; one that reads files of this machine, such as vectors of queries, is made here.

        Raises:
            UsageError: there is no such cluster, or no room in it.
            ArtifactError: the same blocks were lost again and again, or the cluster was.
            HardnegError: the stage's own errors.
        """
        from hardneg_ray.foreman import make

        return make(self, context)
