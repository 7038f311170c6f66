"""Stages `encode`, `import` and `index`: the corpus as vectors, made here or brought in, and indexes to search in."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import Field

from hardneg.encoders import protocol, spec
from hardneg.fields import FREE, LATER, IndexSetting, InputFile, Name, OwnCut, Reference, Trait
from hardneg.formats import vectors_import
from hardneg.formats.collection import StoredCollection
from hardneg.formats.vectors import FlatVectors, index_bytes
from hardneg.protocols import EstimatedBackend, Searcher
from hardneg.records import layout, wording
from hardneg.registry import configure
from hardneg.runtime import distributed, progress
from hardneg.stages import blocks, inputs
from hardneg.stages.base import FORMS, ArtifactInput, Facts, IndexSpec, RecipeView, Row, Sizes, StageContext, encoding
from hardneg.store import SCRATCH
from hardneg.store.blocks import BlockResult


class Encode(IndexSpec):
    """Encodes the corpus into a flat index, which is the vector store too.

    segments: how long documents are cut into several vectors each; none reads their first `document_length` tokens.
    """

    version = 2
    purpose = "turn every passage into a vector"
    every_process = True
    artifact_type = "index"
    needs_dataset = True
    stage: Literal["encode"]
    model: Annotated[Name, Reference(("model",))] = layout.START
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    segments: OwnCut = Field(default=None, json_schema_extra=LATER)
    document_prompt: str | None = Field(
        default=None, json_schema_extra=LATER, description="The prompt before each passage, in place of the model's."
    )
    tokens_per_batch: int | None = Field(default=None, gt=0, json_schema_extra=FREE)

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        model = recipe.models.of(self.began_with(recipe))
        if self.segments is not None and model.family.form == "token-vectors":
            yield f"segments: {model.spec.name!r} makes a vector of each token, which are not pooled; leave it out"

    def traits(self, recipe: RecipeView) -> Mapping[str, str]:
        form = FORMS.get(recipe.models.of(self.began_with(recipe)).family.form)
        own = [Trait.SEGMENTS] if self.segments is not None else []
        return dict.fromkeys([*own, *([form] if form else [])], recipe.name)

    def began_with(self, recipe: RecipeView) -> spec.ModelSpec:
        return recipe.model_of(self.model)

    def query_model(self, recipe: RecipeView) -> str:
        return self.model

    def estimate(self, sizes: Sizes) -> Row:
        return encoding(self.segments, sizes)

    def open_index(self, source: ArtifactInput, collection: StoredCollection, options: Any, progress: Any) -> Searcher:
        from hardneg.indexes.open_store import open_store

        return open_store(source.folder, options, progress)

    def blocks(self, context: "StageContext[Encode]", first: bool = True) -> "EncodedBlocks":
        """Blocks of passages, or of segments. Raises ArtifactError where a stopped run has cut others."""
        from hardneg.encoders.stream import Layout

        corpus, scratch = inputs.open_corpus(context), context.folder / SCRATCH
        encoder = inputs.open_prompted(context, "document", self.document_prompt, self.precision)
        rows = encoder.rows(corpus, self.segments, scratch, context.progress, distributed.world())
        options = protocol.EncodeOptions(self.tokens_per_batch, self.precision)
        sizes, unit = Layout.of_encoder(encoder, rows).sizes, "passages" if self.segments is None else "segments"
        return EncodedBlocks(context, sizes, "encode corpus", unit, encoder=encoder, rows=rows, options=options)


@dataclass(frozen=True)
class EncodedBlocks(blocks.StageBlocks):
    """The blocks of an index, as a process has opened them."""

    encoder: protocol.TextEncoder = field(kw_only=True)
    rows: protocol.StoredRows = field(kw_only=True)
    options: protocol.EncodeOptions = field(kw_only=True)

    def make(self, numbers: Sequence[int], task: progress.Task) -> Iterator[tuple[int, BlockResult]]:
        from hardneg.encoders.stream import encoded_blocks

        return encoded_blocks(self.encoder, self.rows, numbers, self.options, task.advance)

    def finish(self) -> Facts:
        from hardneg.encoders.stream import join_blocks

        folder, rows = self.context.folder, cast(Any, self.rows)
        join_blocks(self.encoder, rows, self.store, folder)
        facts = {"dimension": self.encoder.dimension, "bytes": index_bytes(folder, SCRATCH)}
        if self.context.spec.segments is None:
            return {"passages": len(rows), **facts}
        if rows.cut_off:
            have = f"{wording.counted(len(rows.first) - 1, 'document')} {'has' if rows.cut_off == 1 else 'have'}"
            cut = f"text after the last segment ({rows.cut.count} of {rows.cut.length} tokens)"
            self.context.progress.note(f"{self.context.name}: {rows.cut_off} of {have} {cut}; it is not read")
        return {"passages": len(rows.corpus), **facts, "segments": len(rows), "documents cut off": rows.cut_off}


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
        return {Trait.IMPORTED: recipe.name}

    def estimate(self, sizes: Sizes) -> Row:
        return Row(sizes.documents, "passages", sizes.documents * (sizes.dimension * 4 + 20))

    def open_index(self, source: ArtifactInput, collection: StoredCollection, options: Any, progress: Any) -> Searcher:
        from hardneg.indexes.exact import FlatSearcher

        return FlatSearcher(FlatVectors.open(source.folder), options=options, progress=progress)

    def make(self, context: "StageContext[ImportVectors]") -> Facts:
        corpus, ids = inputs.open_corpus(context), None if self.ids is None else Path(self.ids).expanduser()
        file = vectors_import.open_vectors(Path(self.vectors).expanduser(), ids)
        owners = vectors_import.VectorOwners(corpus.doc_ids, corpus.rows, "document")
        others = vectors_import.arrange_vectors(file, owners, context.folder, context.progress)
        facts = {"passages": len(corpus), "dimension": file.dimension, "bytes": index_bytes(context.folder)}
        if not others:
            return facts
        left_out = f"{wording.counted(others, 'vector')} left out, of documents that the corpus lacks"
        context.progress.note(f"{context.name}: {left_out}")
        return {**facts, "vectors of other documents": others}


class BuildIndex(IndexSpec):
    """Builds an index over the corpus's texts, such as BM25's, or over the `vectors` of a flat index."""

    version = 1
    artifact_type = "index"
    purpose = "build an index to search in"
    needs_dataset = True
    stage: Literal["index"]
    backend: IndexSetting = Field(description="The kind of index; `hardneg plugins list indexes` shows them.")
    vectors: Annotated[
        Name | None,
        Reference(
            ("index",),
            refuses={Trait.COMPRESSED: "name an encode stage or a flat index"},
            passes=(Trait.SEGMENTS, Trait.IMPORTED, *FORMS.values()),
        ),
    ] = None

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        source = getattr(recipe.plugin("backend"), "input", None)
        traits, name = recipe.traits(self.vectors or ""), self.backend.name
        form = next((form for form, trait in FORMS.items() if trait in traits), "vectors")
        if source == "texts" and self.vectors is not None:
            yield f"vectors: {name} is built from texts; leave it out"
        elif source not in (None, "texts") and self.vectors is None:
            yield f"vectors: missing; {name} is built from the {source} of an encode stage"
        elif source not in (None, "texts", form):
            yield f"backend: {name} is built from {source}, and {self.vectors!r} holds {form}; name another"

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

    def open_index(self, source: ArtifactInput, collection: StoredCollection, options: Any, progress: Any) -> Searcher:
        from hardneg.indexes.exact import ExactSearcher

        searcher: Searcher = source.plugins["backend"].open(source.folder, collection.corpus.rows)
        return searcher.using(options, progress) if isinstance(searcher, ExactSearcher) else searcher

    def make(self, context: "StageContext[BuildIndex]") -> Facts:
        """Builds the index; one that was not closed cannot be gone on with."""
        vectors, folder = context.inputs.get("vectors"), context.folder
        source: Any = None if vectors is None else vectors.folder
        if source is None:
            corpus = inputs.open_corpus(context)
            source = zip(corpus.doc_ids, chain.from_iterable(corpus.blocks()), strict=True)
        count = context.plugins["backend"].build(source, folder, context.progress)
        encoded = vectors.facts if vectors else {}
        counts = {"passages": encoded["passages"], "segments": count} if "segments" in encoded else {"passages": count}
        return {**counts, "bytes": index_bytes(folder)}
