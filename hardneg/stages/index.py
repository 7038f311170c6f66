"""Stage `index`: an index over the corpus's texts, such as Lucene's for BM25, or over vectors."""

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from hardneg.fields import IndexSetting, Name, Reference, Trait
from hardneg.formats.collection import StoredCollection
from hardneg.formats.vectors import index_bytes
from hardneg.protocols import EstimatedBackend, IndexBackend
from hardneg.registry import configure
from hardneg.runtime import Progress
from hardneg.stages.shared.context import ArtifactInput, Facts, StageContext
from hardneg.stages.shared.inputs import open_corpus
from hardneg.stages.shared.stage_spec import FORMS, IndexSpec, RecipeView, Row, Sizes

if TYPE_CHECKING:
    from hardneg.indexes.kernels.exact.exact import ExactOptions
    from hardneg.protocols import Searcher

_COMPRESSED = {Trait.COMPRESSED: "name an encode stage or a flat index"}


class BuildIndex(IndexSpec):
    """Builds an index over the corpus's texts, such as BM25's, or over the `vectors` of a flat index."""

    version = 1
    artifact_type = "index"
    purpose = "build an index to search in"
    needs_dataset = True
    stage: Literal["index"]
    backend: IndexSetting = Field(description="The kind of index; `hardneg plugins list indexes` shows them.")
    vectors: Annotated[
        Name | None, Reference(("index",), _COMPRESSED, passes=(Trait.SEGMENTS, Trait.IMPORTED, *FORMS.values()))
    ] = None

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        """Vectors where the backend takes texts, none where it takes what is encoded, or those of another form."""
        source = getattr(recipe.plugin("backend"), "input", None)
        if source not in (None, "texts") and self.vectors is None:
            yield f"vectors: missing; {self.backend.name} is built from the {source} of an encode stage"
        if source == "texts" and self.vectors is not None:
            yield f"vectors: {self.backend.name} is built from texts; leave it out"
        traits = recipe.traits(self.vectors or "")
        form = next((form for form, trait in FORMS.items() if trait in traits), "vectors")
        if source not in (None, "texts", form) and self.vectors is not None:
            built = f"{self.backend.name} is built from {source}"
            yield f"backend: {built}, and {self.vectors!r} holds {form}; name another"

    def traits(self, recipe: RecipeView) -> Mapping[str, str]:
        own = [Trait.TEXTS] if self.vectors is None else super().traits(recipe)
        return dict.fromkeys(own, recipe.name)

    def query_model(self, recipe: RecipeView) -> str | None:
        return None if self.vectors is None else recipe.query_model(self.vectors)

    def estimate(self, sizes: Sizes) -> Row:
        count, backend = sizes.documents, configure("indexes", self.backend)
        if isinstance(backend, EstimatedBackend):
            vectors = count * sizes.stored // (4 * sizes.dimension)
            return Row(count, "passages", backend.disk_bytes(count, vectors, sizes.dimension))
        if self.vectors is None:
            return Row(count, "passages", count * 600)
        return Row(count, "passages", count * (sizes.stored if sizes.form == "weights" else sizes.stored // 4 + 20))

    def open_index(
        self, source: ArtifactInput, collection: StoredCollection, options: "ExactOptions", progress: "Progress | None"
    ) -> "Searcher":
        from hardneg.indexes.kernels.exact.exact import ExactSearcher

        searcher = source.plugin("backend", IndexBackend).open(source.folder, collection.corpus.rows)
        return searcher.using(options, progress) if isinstance(searcher, ExactSearcher) else searcher

    def make(self, context: "StageContext[BuildIndex]") -> Facts:
        """Builds the index; one that was not closed cannot be gone on with."""
        vectors = context.inputs.get("vectors")
        source: Path | Iterator[tuple[str, str]]
        if vectors is not None:
            source = vectors.folder
        else:
            corpus = open_corpus(context)
            source = zip(corpus.doc_ids, chain.from_iterable(corpus.blocks()), strict=True)
        count = context.plugin("backend", IndexBackend).build(source, context.folder, context.progress)
        encoded = vectors.facts if vectors else {}
        counts = {"passages": encoded["passages"], "segments": count} if "segments" in encoded else {"passages": count}
        return {**counts, "bytes": index_bytes(context.folder)}
