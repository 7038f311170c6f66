"""The engine `ray`: its options, and the making of a stage."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from hardneg.plugin import errors

if TYPE_CHECKING:
    from hardneg.plugin import stages


@dataclass(frozen=True)
class Ray:
    """Distributes the blocks of encode, search, mine and rerank to the actors of a Ray cluster; results are identical.

    Each actor opens the model or the index once, and gets a few missing blocks at a time, at its own pace. Finished
    blocks are in the store, so a lost actor, machine or command costs only its current blocks. All machines must see
    the store, and the files that a recipe names, at the same path.

    Args:
        address: the cluster to join; `auto` joins the one that `ray start` has started on this machine, or starts one
            here; `local` starts one here, which only this machine and this user can reach.
        actors: how many at a time; `auto` is as many as fit, more whenever the cluster grows.
        num_gpus: GPUs per actor, possibly a fraction; by default 1 if the cluster has any.
        num_cpus: cores of an actor, and its threads; by default the machine's cores per GPU, or without GPUs its cores
            per actor (all of them if `actors` is `auto`).
        losses: how often the same blocks may be lost with an actor, or a cluster started here, before the stage ends
            with an error.
        patience: seconds to wait for free resources for the first actor.
        object_store_memory: bytes of shared memory of a cluster that is started here.
    """

    version: ClassVar[int] = 1

    address: str = "auto"
    actors: int | Literal["auto"] = "auto"
    num_gpus: float | None = None
    num_cpus: float | None = None
    losses: int = 3
    patience: float = 600.0
    object_store_memory: int = 100_000_000

    def __post_init__(self) -> None:
        least = {"actors": 1, "num_gpus": 0, "num_cpus": 0, "losses": 1, "patience": 0}
        for name, bound in {**least, "object_store_memory": 80_000_000}.items():
            if (value := getattr(self, name)) not in (None, "auto") and value < bound:
                raise errors.PluginError(f"{name} must be {bound} or above, not {value}")

    def make(self, context: "stages.StageContext[stages.StageSpec]") -> Mapping[str, Any]:
        """Makes a stage in blocks; one that reads files of this machine, such as query vectors, is made here.

        Raises:
            UsageError: there is no such cluster, or it has no free resources.
            ArtifactError: the same blocks were lost again and again, or the cluster was.
            HardnegError: the stage's own errors.
        """
        from hardneg_ray.foreman import make

        return make(self, context)
