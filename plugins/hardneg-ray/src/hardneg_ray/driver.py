"""The driver: opens a stage, has actors make the blocks that are missing, and puts them together."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hardneg.errors import UsageError
from hardneg.protocols import StageBlocks
from hardneg.stages.context import StageContext
from hardneg.stages.spec import StageSpec
from hardneg_ray.cluster import ClusterLost, joined
from hardneg_ray.engine import Ray
from hardneg_ray.foreman import Foreman
from hardneg_ray.roster import Roster


def make(options: Ray, context: StageContext[StageSpec]) -> Mapping[str, Any]:
    """A stage; where it is not cut into blocks, this process makes it. Raises as `Ray.make`."""
    if (context.device or "").startswith("cuda:"):
        raise UsageError(f"--device {context.device}: Ray gives each actor its own GPU: say cuda, or leave it out")
    Roster(context.folder).write([])
    blocks = context.spec.blocks(replace(context, device="cpu"))
    if blocks is None:
        context.progress.note(f"{context.name}: is not cut into blocks; this machine makes it")
        return context.spec.make(context)
    choices = _made(options, context, blocks)
    return {**blocks.finish(), **({"choices": choices} if choices else {})}


def _made(options: Ray, context: StageContext[StageSpec], blocks: StageBlocks) -> dict[str, str]:
    """Has all blocks made; a cluster that was started here is started again where it is lost."""
    choices: dict[str, str] = {}
    for again in range(options.losses):
        missing = set(range(len(blocks.sizes))) - blocks.finished()
        if not missing:
            break
        try:
            with joined(options) as cluster, Foreman.at_work(cluster, context, blocks, missing) as foreman:
                choices = foreman.make()
        except ClusterLost as error:
            if not error.started or again == options.losses - 1:
                raise
            context.progress.note(f"{context.name}: the Ray processes of this machine are gone; they start again")
    return choices
