"""Verb `model`: another model in a recipe, beside its own."""

from collections.abc import Callable, Mapping
from typing import Literal

from pydantic import Field

from hardneg.encoders.spec import ModelSpec
from hardneg.fields import FREE, Model
from hardneg.records import MODEL_FOLDER, UsageError
from hardneg.runtime import world
from hardneg.stages.shared.context import Facts, StageContext
from hardneg.stages.shared.stage_spec import RecipeView, Row, Sizes, StageSpec


class BroughtModel(StageSpec):
    """Brings in a second model, which others encode with, such as a guide of a training, or start from.

    model: what it is, as the recipe's own `model` says it.
    """

    version = 1
    artifact_type = "model"
    artifact_folder = MODEL_FOLDER
    every_process = True
    inherits = ()
    purpose = "bring in another model, beside the recipe's own"
    stage: Literal["model"]
    model: Model = Field(json_schema_extra=FREE)

    def content(self, recipe: RecipeView) -> Mapping[str, Callable[[], str]]:
        return {"model": lambda: recipe.models.of(self.model).digest}

    def began_with(self, recipe: RecipeView) -> ModelSpec:
        return self.model

    def network(self, recipe: RecipeView) -> ModelSpec:
        return self.model

    def estimate(self, sizes: Sizes) -> Row:
        return Row(1, "model", sizes.network.weights)

    def make(self, context: "StageContext[BroughtModel]") -> Facts:
        """Loads it, which checks it, and saves it with its prompts and lengths.

        Raises:
            ModelError: it is not there, or cannot do what is said of it.
            UsageError: it has no weights here.
        """
        from hardneg.encoders.encoder import Encoder
        from hardneg.encoders.open.resolved import load_encoder

        if not world().first:
            return {}
        encoder = load_encoder(self.model, context.device)
        if not isinstance(encoder, Encoder):
            problem = "has no weights here that could be kept: make it the recipe's own model"
            raise UsageError(f"{context.name}.model: {self.model.name!r} {problem}")
        encoder.save(context.folder / MODEL_FOLDER)
        return {"dimension": encoder.dimension, **context.models.of(self.model, fetched=True).facts}
