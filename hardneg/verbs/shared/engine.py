"""The protocol of engines, which compute the blocks of a stage."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from hardneg.verbs.shared.context import StageContext
from hardneg.verbs.shared.stage_spec import StageSpec


class Engine(Protocol):
    """Where the blocks of a stage are made (`hardneg.engines`); it is never part of a key.

    resumes: whether it goes on from the blocks that a stopped run left, of every stage that has blocks.
    """

    version: ClassVar[int]
    resumes: ClassVar[bool]

    def make(self, context: StageContext[StageSpec]) -> Mapping[str, Any]:
        """Makes a stage that has blocks (`StageSpec.blocks`) in the context's folder: the bytes of its own `make`.

        Returns what the manifest tells. Blocks that are finished already are not made again.
        """


@dataclass(frozen=True)
class Local:
    """Makes a stage in this process, and in those that torchrun, accelerate or `--num-processes` started with it."""

    version: ClassVar[int] = 1
    resumes: ClassVar[bool] = False

    def make(self, context: StageContext[StageSpec]) -> Mapping[str, Any]:
        """The stage's own way; what a stopped run left is gone on from where the stage says that it resumes."""
        return context.spec.make(context)
