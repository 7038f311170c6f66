"""Stages `dataset` and `model`: the collection read once and kept as Arrow files, and a second model."""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Literal

from pydantic import Field

from hardneg.encoders.open.resolved import load_encoder
from hardneg.encoders.spec import ModelSpec
from hardneg.fields import FREE, LATER, Kept, Model, PluginKind, Setting
from hardneg.formats.collection import write_collection
from hardneg.records import errors, layout
from hardneg.runtime import world
from hardneg.stages.base import Facts, RecipeView, Row, Sizes, StageContext, StageSpec


class ReadDataset(StageSpec):
    """Reads the collection into Arrow files: stage `dataset`, made from the recipe's `dataset`.

    withheld: training labels that are kept back. exclude_own: a document that has a query's id does not count for that
    query; by default in ArguAna and Quora alone, whose queries are documents, as BEIR measures them.
    """

    version = 1
    artifact_type = "collection"
    purpose = "read the passages, queries and labels"
    stage: Literal["dataset"] = "dataset"
    loader: Annotated[Setting, PluginKind("datasets", location_options=("source",))]
    withheld: Kept | None = Field(default=None, json_schema_extra=LATER)
    exclude_own: bool | None = Field(default=None, json_schema_extra=LATER)

    @property
    def _excludes(self) -> bool:
        names = re.split(r"[/\\]", str(self.loader.options.get("source", "")).lower())
        return not {"arguana", "quora"}.isdisjoint(names) if self.exclude_own is None else self.exclude_own

    def content(self, recipe: RecipeView) -> Mapping[str, Callable[[], str]]:
        excluded = {"excluded": lambda: "documents with the query's id"} if self._excludes else {}
        return {"source": recipe.plugin("loader").fingerprint, **excluded}

    def estimate(self, sizes: Sizes) -> Row:
        return Row(sizes.documents, "passages", sizes.documents * 600)

    def make(self, context: "StageContext[ReadDataset]") -> Facts:
        """Writes the collection; facts: counts of documents, queries and judgements, and of what was left out."""
        collection = context.plugins["loader"].load()
        if self.withheld is not None:
            collection = self.withheld.of(collection)
        return write_collection(collection, context.folder, context.progress, exclude_own=self._excludes)


class BroughtModel(StageSpec):
    """Brings in a second model, which others encode with, such as a guide of a training, or start from.

    model: what it is, as the recipe's own `model` says it.
    """

    version = 1
    artifact_type = "model"
    artifact_folder = layout.MODEL_FOLDER
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

        if not world().first:
            return {}
        encoder = load_encoder(self.model, context.device)
        if not isinstance(encoder, Encoder):
            problem = "has no weights here that could be kept: make it the recipe's own model"
            raise errors.UsageError(f"{context.name}.model: {self.model.name!r} {problem}")
        encoder.save(context.folder / layout.MODEL_FOLDER)
        return {"dimension": encoder.dimension, **context.models.of(self.model, fetched=True).facts}
