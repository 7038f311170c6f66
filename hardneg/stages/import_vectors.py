"""Verb `import`: vectors of the corpus that another program made, as a flat index in the corpus's order."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from hardneg.fields import FREE, InputFile, Name, Trait
from hardneg.formats.collection import StoredCollection
from hardneg.formats.vectors import FlatVectors, index_bytes
from hardneg.formats.vectors_import import VectorOwners, arrange_vectors
from hardneg.records import counted
from hardneg.runtime import Progress
from hardneg.stages.shared.context import ArtifactInput, Facts, StageContext
from hardneg.stages.shared.inputs import open_corpus, open_vector_files
from hardneg.stages.shared.stage_spec import IndexSpec, RecipeView, Row, Sizes

if TYPE_CHECKING:
    from hardneg.indexes.kernels.exact.exact import ExactOptions
    from hardneg.protocols import Searcher


class ImportVectors(IndexSpec):
    """Brings vectors of every document into the store, in the order of the corpus; nothing is encoded.

    vectors: Parquet with an id and a list of numbers a row, JSON Lines as `pyserini.encode` writes them, or a .npy
    array. ids: of an array, the document of each row. Vectors of documents that the corpus lacks are left out, and
    counted. No model encodes the queries of such an index: a `search` names `query_vectors`, or a model.
    """

    version = 1
    artifact_type = "index"
    purpose = "take the passages' vectors from a file"
    needs_dataset = True
    stage: Literal["import"]
    vectors: Annotated[Name, InputFile("vectors of the documents, Parquet, JSON Lines or .npy")] = Field(
        json_schema_extra=FREE
    )
    ids: Annotated[Name | None, InputFile("the id of each vector of an array, one a line")] = Field(
        default=None, json_schema_extra=FREE
    )

    def traits(self, recipe: RecipeView) -> Mapping[str, str]:
        """No model that encodes its queries."""
        return {Trait.IMPORTED: recipe.name}

    def estimate(self, sizes: Sizes) -> Row:
        """By the vector that is read; twice the disk, for those in another order."""
        return Row(sizes.documents, "passages", sizes.documents * (sizes.dimension * 4 + 20))

    def open_index(
        self, source: ArtifactInput, collection: StoredCollection, options: "ExactOptions", progress: "Progress | None"
    ) -> "Searcher":
        """A flat index."""
        from hardneg.indexes.backends.flat import FlatSearcher

        return FlatSearcher(FlatVectors.open(source.folder), options=options, progress=progress)

    def make(self, context: "StageContext[ImportVectors]") -> Facts:
        """Streams the vectors into the index; tells of those that are of no document."""
        corpus = open_corpus(context)
        file = open_vector_files(self.vectors, self.ids)
        owners = VectorOwners(corpus.doc_ids, corpus.rows, "document")
        others = arrange_vectors(file, owners, context.folder, context.progress)
        if others:
            left_out = f"{counted(others, 'vector')} left out, of documents that the corpus lacks"
            context.progress.note(f"{context.name}: {left_out}")
        counts = {"vectors of other documents": others} if others else {}
        facts = {"passages": len(corpus), "dimension": file.dimension, "bytes": index_bytes(context.folder)}
        return facts | counts
