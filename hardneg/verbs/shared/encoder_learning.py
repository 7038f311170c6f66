"""The groups of options that verbs which train encoders have, and what their losses ask of the model's scores."""

from collections.abc import Iterator
from typing import Annotated, ClassVar

from pydantic import AfterValidator

from hardneg.fields import without_problems
from hardneg.losses import TEMPERATURE
from hardneg.registry.plugins import needs_of
from hardneg.training.masks import GUIDES, WITH_EACH_OTHER
from hardneg.training.options import TrainOptions
from hardneg.training.rates import usual_rate
from hardneg.verbs.shared.stage_spec import RecipeView
from hardneg.verbs.shared.training_options import (
    Batching,
    BothSides,
    Guidance,
    Judging,
    Learning,
    StartModel,
    of_the_run,
)


class EncoderLearning(StartModel, Judging, Learning):
    """The groups of every verb that trains an encoder."""

    def remarks(self, recipe: RecipeView) -> Iterator[str]:
        """Also a rate of another kind of model, and a temperature that makes all documents pull alike over cosines."""
        yield from super().remarks(recipe)
        loss, start, rate = recipe.plugin("loss"), self.began_with(recipe), self.options.learning_rate
        model, temperature = recipe.models.of(start), getattr(loss, "temperature", 0.0)
        if not 0.01 < rate / (usual := usual_rate(model) or rate) < 100:
            yield f"options.learning_rate: {rate:g} is far from what is usual for this kind of model, {usual:g}"
        if temperature < 1.0 or "teacher" in needs_of(loss):
            return
        similarity = start.similarity or (model.known.similarity if model.known else None)
        if similarity == "cosine" and (model.known_family is None or model.known_family.form == "vectors"):
            why = f"temperature {temperature:g} over cosines, so that all documents pull alike"
            yield f"loss: {self.loss.name}: {why}; {TEMPERATURE} is usual, or say model.similarity: dot"


class DualLearning(BothSides, Guidance, Batching, EncoderLearning):
    """The groups of every verb that trains both sides."""

    gives: ClassVar[tuple[str, ...]] = ("teacher", *WITH_EACH_OTHER, *GUIDES)
    options: Annotated[TrainOptions, AfterValidator(without_problems)] = of_the_run(TrainOptions)
