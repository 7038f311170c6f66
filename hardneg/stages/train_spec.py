"""What a recipe may say of training a dual encoder on mined negatives."""

from typing import Annotated, Literal

from pydantic import model_validator

from hardneg.stages.learning_spec import LearningSpec
from hardneg.stages.spec_parts import Name, Reference


class TrainSpec(LearningSpec):
    """Trains a dual encoder on mined negatives, or, without them, on the other queries' documents for split `train`.

    augmented: more negatives, with the queries they are of, such as a label stage makes: their examples are mixed with
    the others. teacher: a run, such as a rerank stage's, whose scores of the queries' own documents a loss may learn;
    it is of the queries that the negatives are of.
    """

    version = 1
    gives = ("teacher",)
    stage: Literal["train"]
    negatives: Annotated[Name | None, Reference(("negatives",))] = None
    augmented: Annotated[Name | None, Reference(("negatives",))] = None
    teacher: Annotated[Name | None, Reference(("run",))] = None

    @model_validator(mode="after")
    def _complete(self) -> "TrainSpec":
        if self.negatives is None and self.options.negatives_per_query:
            raise ValueError("negatives: missing; for the other queries' documents alone set negatives_per_query to 0")
        return self
