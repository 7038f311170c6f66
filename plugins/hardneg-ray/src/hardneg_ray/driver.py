"""The driver: opens a stage, has actors make the blocks that are missing, and puts them together."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hardneg.plugin import CHOICE, SCRATCH, StageBlocks, StageContext, StageSpec, UsageError
from hardneg_ray.cluster import ClusterLost
from hardneg_ray.desk import choices_file, choices_in
from hardneg_ray.engine import Ray
from hardneg_ray.foreman import Foreman
from hardneg_ray.joining import joined


def make(options: Ray, context: StageContext[StageSpec]) -> Mapping[str, Any]:
    """A stage; one that reads files of this machine alone is made by this process. Raises as `Ray.make`."""
    if (context.device or "").startswith("cuda:"):
        raise UsageError(
            f"{{device}} {context.device}: Ray gives each actor its own GPU: say cuda, or leave it out", "device"
        )
    context.keep_only(SCRATCH)
    blocks = context.spec.blocks(replace(context, device="cpu"))
    if not blocks.travels:
        context.progress.note(f"{context.name}: reads files of this machine, which makes it")
        return context.spec.make(context)
    _make_all(options, context, blocks)
    chosen = choices_in(choices_file(context.folder))
    choices = {subject.removeprefix(CHOICE): way for subject, way in chosen.items()}
    return {**blocks.finish(), **({"choices": choices} if choices else {})}


def _make_all(options: Ray, context: StageContext[StageSpec], blocks: StageBlocks) -> None:
    """Has all blocks made; a cluster that was started here is started again where it is lost."""
    for again in range(options.losses):
        missing = set(range(len(blocks.sizes))) - blocks.finished()
        if not missing:
            return
        try:
            with joined(options) as cluster, Foreman.at_work(cluster, context, blocks, missing) as foreman:
                return foreman.make()
        except ClusterLost as error:
            if not error.started or again == options.losses - 1:
                raise
            context.progress.note(f"{context.name}: the Ray processes of this machine are gone; they start again")
