"""What a recipe may say of training on refreshed negatives."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, model_validator, with_config

from hardneg.stages.learning_spec import LearningSpec
from hardneg.stages.spec_parts import FREE, Name, Reference, has_answers, without_problems
from hardneg.training.refresh.devices import Devices
from hardneg.training.refresh.options import RefreshOptions

for _dataclass in (RefreshOptions, Devices):
    with_config(ConfigDict(extra="forbid"))(_dataclass)


class TrainRefreshedSpec(LearningSpec):
    """Trains a dual encoder on negatives that it mines itself, again and again, while it trains.

    negatives: what is trained on until the first refresh, which then is not mined from the model as it starts; without
    them that one is waited for. refresh: when negatives are mined, and which. devices: what the trainer and the process
    that mines beside it may use.
    """

    version = 1
    stage: Literal["train-refreshed"]
    split: Name = "train"
    negatives: Annotated[Name | None, Reference(("negatives",))] = None
    refresh: Annotated[RefreshOptions, AfterValidator(without_problems)]
    devices: Annotated[Devices, AfterValidator(without_problems), Field(json_schema_extra=FREE)] = Devices()

    @model_validator(mode="after")
    def _mines(self) -> "TrainRefreshedSpec":
        evaluated = self.validation_run is not None
        if told := self.refresh.never_again(self.options, evaluated, self.options.known_end):
            raise ValueError(f"refresh: {told}")
        return self

    def identity(self) -> dict[str, Any]:
        """The steps between checkpoints count too where those decide which models mine."""
        identity = super().identity()
        if self.refresh.policy == "continuous":
            identity["checkpoint_every"] = self.options.checkpoint_every
        return identity

    def missing(self, collection: Mapping[str, Any]) -> Iterator[str]:
        """Answers, where negatives are told by them."""
        if self.refresh.without_answers and not has_answers(collection, self.split):
            yield f"refresh.without_answers: needs answers, and split {self.split} has none: leave it out"
