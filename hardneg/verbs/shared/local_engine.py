"""The engine that is used unless another is named: this machine, and the processes that started with this one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from hardneg.verbs.shared.context import StageContext
from hardneg.verbs.shared.stage_spec import StageSpec


@dataclass(frozen=True)
class Local:
    """Makes a stage in this process, and in those that torchrun, accelerate or `--num-processes` started with it."""

    version: ClassVar[int] = 1
    resumes: ClassVar[bool] = False

    def make(self, context: StageContext[StageSpec]) -> Mapping[str, Any]:
        """The stage's own way; what a stopped run left is gone on from where the stage says that it resumes."""
        return context.spec.make(context)
