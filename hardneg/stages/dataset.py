"""Stage `dataset`: reads a collection once and keeps it as Arrow files."""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Literal, cast

from pydantic import Field

from hardneg.fields import LATER, Kept, PluginKind, Setting
from hardneg.formats.collection import write_collection
from hardneg.protocols import DatasetLoader
from hardneg.stages.shared.context import Facts, StageContext
from hardneg.stages.shared.stage_spec import RecipeView, Row, Sizes, StageSpec


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
        return {"source": cast(DatasetLoader, recipe.plugin("loader")).fingerprint, **excluded}

    def estimate(self, sizes: Sizes) -> Row:
        count = sizes.documents
        return Row(count, "passages", count * 600)

    def make(self, context: "StageContext[ReadDataset]") -> Facts:
        """Writes the collection; facts: counts of documents, queries and judgements, and of what was left out."""
        collection = context.plugin("loader", DatasetLoader).load()
        if self.withheld is not None:
            collection = self.withheld.of(collection)
        return write_collection(collection, context.folder, context.progress, exclude_own=self._excludes)
