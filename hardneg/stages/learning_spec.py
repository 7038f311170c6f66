"""What the specs of the stages that train have in common."""

from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from hardneg.stages.spec_parts import LATER, START, Loss, Name, OwnCut, Reference, StageSpec, without_problems
from hardneg.training.options import TrainOptions


class Validation(BaseModel):
    """How to judge the model while it trains: on the dev queries, over a pool of the positives and a run's top."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    split: Name = "dev"
    depth: int = Field(default=20, gt=0)
    queries: int | None = Field(default=None, gt=0)


class LearningSpec(StageSpec):
    """What the stages that train have in common.

    gives: the optional parts of a `ScoreBatch` that the stage's batches have, for losses that need them.
    segments: how documents are cut, each then scored by its best segment; none reads their first `document_length`
    tokens.
    """

    kind = "model"
    gives: ClassVar[tuple[str, ...]] = ()
    needs_dataset = True
    resumes = True
    model: Annotated[Name, Reference(("model",))] = START
    loss: Loss
    options: Annotated[TrainOptions, AfterValidator(without_problems)] = Field(default_factory=TrainOptions)
    validation_run: Annotated[Name | None, Reference(("run",))] = None
    validation: Validation = Validation()
    segments: OwnCut = Field(default=None, json_schema_extra=LATER)

    def identity(self) -> dict[str, Any]:
        """The options that only say how often to look or to save are left out."""
        return {**super().identity(), "options": self.options.identity()}
