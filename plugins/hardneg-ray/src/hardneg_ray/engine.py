"""The engine `ray` and its options."""

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
    blocks are in the store, so if an actor, a machine or the command is lost, only its current blocks are recomputed.
    All machines must see the store and the files of the recipe at the same paths.

    Args:
        address: the cluster to join; `auto` joins the cluster that `ray start` started on this machine, or starts one;
            `local` starts one that only this user can reach, and only from this machine.
        actors: maximum number of actors at a time; `auto` starts all that fit, and more when the cluster grows.
        num_gpus: number of GPUs per actor, which may be a fraction; by default, 1 if the cluster has GPUs.
        num_cpus: number of cores and threads per actor; by default, the machine's cores per GPU, or without GPUs, its
            cores per actor (all cores if `actors` is `auto`).
        losses: number of times that the same blocks, or a cluster started here, are lost before the stage fails.
        patience: seconds to wait for free resources for the first actor.
        object_store_memory: bytes of shared memory for a cluster that is started here.
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
                raise errors.PluginError(f"{name} is {value}; it must be at least {bound}")

    def make(self, context: "stages.StageContext[stages.StageSpec]") -> Mapping[str, Any]:
        """Run a stage on the cluster, or in this process if it reads local files, such as query vectors; return facts.

        Raises:
            UsageError: there is no such cluster, or it has no free resources.
            ArtifactError: the same blocks, or the cluster, were lost repeatedly.
            HardnegError: the stage's own errors.
        """
        from hardneg_ray.foreman import make

        return make(self, context)
