"""Stages `dataset`, `model`, `encode`, `import` and `index`: collections, further models, and indexes."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import Field

from hardneg import fields
from hardneg.encoders import protocol, spec
from hardneg.encoders.open.resolved import load_encoder
from hardneg.formats import vectors_import
from hardneg.formats.collection import write_collection
from hardneg.formats.vectors import FlatVectors, index_bytes
from hardneg.protocols import EstimatedBackend, Searcher
from hardneg.records import errors, layout, wording
from hardneg.registry import configure
from hardneg.runtime import distributed, progress
from hardneg.stages import ArtifactInput, Facts, RecipeView, StageContext, StageSpec, StoredCollection, base, work
from hardneg.store import SCRATCH, blocks


class ReadDataset(StageSpec):
    """Reads a collection into Arrow files; the recipe's `dataset` defines the stage named `dataset`.

    withheld: which training labels to set aside; default: none. exclude_own: whether to exclude, for each query, the
    document with its id, as BEIR does; by default, only for ArguAna and Quora, whose queries are documents.
    """

    version = 1
    artifact_type = "collection"
    purpose = "read the passages, queries and relevance judgements"
    stage: Literal["dataset"] = "dataset"
    loader: Annotated[fields.Setting, fields.PluginKind("datasets", location_options=("source",))]
    withheld: fields.Kept | None = Field(default=None, json_schema_extra=fields.LATER)
    exclude_own: bool | None = Field(default=None, json_schema_extra=fields.LATER)

    @property
    def _excludes(self) -> bool:
        names = re.split(r"[/\\]", str(self.loader.options.get("source", "")).lower())
        return not {"arguana", "quora"}.isdisjoint(names) if self.exclude_own is None else self.exclude_own

    def identity(self) -> dict[str, Any]:
        excluded = {"excluded": lambda recipe: "documents with the query's id"} if self._excludes else {}
        source = {"source": lambda recipe: recipe.plugins[recipe.name, "loader"].fingerprint()}
        return {**super().identity(), **source, **excluded}

    def estimate(self, sizes: base.Sizes) -> base.Row:
        return base.Row(sizes.documents, "passages", sizes.documents * 600)

    def make(self, context: "StageContext[ReadDataset]") -> Facts:
        """Write the collection; facts: counts of documents, queries and judgements, and of skipped items."""
        collection = context.plugins["loader"].load()
        if self.withheld is not None:
            collection = self.withheld.of(collection)
        return write_collection(collection, context.folder, context.progress, exclude_own=self._excludes)


class BroughtModel(StageSpec):
    """Loads an additional model that other stages train or encode with, for example as a guide.

    model: the model to load, in the same form as the recipe's `model`.
    """

    version = 1
    artifact_type = "model"
    artifact_folder = layout.MODEL_FOLDER
    every_process = True
    inherits = ()
    purpose = "load a model other than the recipe's own"
    stage: Literal["model"]
    model: fields.Model = Field(json_schema_extra=fields.FREE)

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "model": lambda recipe: recipe.models.of(self.model).digest}

    def network(self, recipe: RecipeView) -> spec.ModelSpec:
        return self.model

    def estimate(self, sizes: base.Sizes) -> base.Row:
        return base.Row(1, "model", sizes.network.weights)

    def make(self, context: "StageContext[BroughtModel]") -> Facts:
        """Load the model and save it with its prompts and lengths. Raises UsageError if it has no local weights."""
        if distributed.world().rank > 0:
            return {}
        encoder: Any = load_encoder(self.model, context.device)
        if not hasattr(encoder, "save"):
            problem = f"{self.model.name!r} has no local weights; set it as the recipe's model instead"
            raise errors.UsageError(f"{context.name}.model: {problem}")
        encoder.save(context.folder / layout.MODEL_FOLDER)
        return {"dimension": encoder.dimension, **context.models.of(self.model, fetched=True).facts}


class Encode(base.IndexSpec):
    """Encodes the corpus into a flat index, which also serves as the vector store.

    segments: how to split documents into segments, one vector each; default: only the first `document_length` tokens.
    """

    version = 2
    purpose = "encode every passage as a vector"
    every_process = in_blocks = True
    artifact_type = "index"
    needs_dataset = True
    stage: Literal["encode"]
    model: Annotated[fields.Name, fields.Reference(("model",))] = layout.START
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    segments: fields.OwnCut = Field(default=None, json_schema_extra=fields.LATER)
    document_prompt: str | None = Field(
        default=None,
        json_schema_extra=fields.LATER,
        description="The prompt before each passage, instead of the model's.",
    )
    tokens_per_batch: int | None = Field(default=None, gt=0, json_schema_extra=fields.FREE)

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        if self.segments is not None:
            model = recipe.models.of(self.began_with(recipe))
            if model.family.form == "token-vectors":
                yield f"segments: {model.spec.name!r} has one vector per token and needs no segments; remove it"

    def traits(self, recipe: RecipeView) -> Mapping[str, str]:
        form = base.FORMS.get(recipe.models.of(self.began_with(recipe)).family.form)
        own = [fields.Trait.SEGMENTS] if self.segments is not None else []
        return dict.fromkeys([*own, *([form] if form else [])], recipe.name)

    def query_model(self, recipe: RecipeView) -> str:
        return self.model

    def estimate(self, sizes: base.Sizes) -> base.Row:
        return base.encoding(self.segments, sizes)

    def open_index(self, source: ArtifactInput, collection: StoredCollection, options: Any, progress: Any) -> Searcher:
        from hardneg.indexes.open_store import open_store

        return open_store(source.folder, options, progress)

    def make(self, context: "StageContext[Encode]") -> "EncodedBlocks":
        """Return the work in blocks of passages or segments. Raises ArtifactError if a stopped run's blocks differ."""
        from hardneg.encoders.stream import Layout

        corpus, scratch = work.open_corpus(context), context.folder / SCRATCH
        encoder = work.open_prompted(context, "document", self.document_prompt, self.precision)
        rows = encoder.rows(corpus, self.segments, scratch, context.progress, distributed.world())
        options = protocol.EncodeOptions(self.tokens_per_batch, self.precision)
        sizes, unit = Layout.of_encoder(encoder, rows).sizes, "passages" if self.segments is None else "segments"
        return EncodedBlocks(context, sizes, "encode corpus", unit, encoder=encoder, rows=rows, options=options)


@dataclass(frozen=True)
class EncodedBlocks(work.StageBlocks):
    """The work of stage `encode` in blocks of passages or segments."""

    encoder: protocol.TextEncoder = field(kw_only=True)
    rows: protocol.StoredRows = field(kw_only=True)
    options: protocol.EncodeOptions = field(kw_only=True)

    def make(self, numbers: Sequence[int], task: progress.Task) -> Iterator[tuple[int, blocks.BlockResult]]:
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
            cut = f"text after the last of {rows.cut.count} segments of {rows.cut.length} tokens"
            self.context.progress.note(f"{self.context.name}: {rows.cut_off} of {have} {cut}; this text is not read")
        return {"passages": len(rows.corpus), **facts, "segments": len(rows), "documents cut off": rows.cut_off}


class ImportVectors(base.IndexSpec):
    """Imports precomputed vectors of all documents, skipping vectors of documents that are not in the corpus.

    vectors: Parquet with an id and a list of numbers per row, JSON Lines as written by `pyserini.encode`, or a .npy
    array. ids: a file with the document id of each array row. Searching this index needs `query_vectors` or a `model`.
    """

    version = 1
    artifact_type = "index"
    purpose = "import the vectors of the passages from a file"
    needs_dataset = True
    stage: Literal["import"]
    vectors: Annotated[fields.Name, fields.InputFile("vectors of the documents, Parquet, JSON Lines or .npy")] = Field(
        json_schema_extra=fields.FREE
    )
    ids: Annotated[fields.Name | None, fields.InputFile("the id of each vector of an array, one per line")] = Field(
        default=None, json_schema_extra=fields.FREE
    )

    def traits(self, recipe: RecipeView) -> Mapping[str, str]:
        return {fields.Trait.IMPORTED: recipe.name}

    def estimate(self, sizes: base.Sizes) -> base.Row:
        return base.Row(sizes.documents, "passages", sizes.documents * (sizes.dimension * 4 + 20))

    def open_index(self, source: ArtifactInput, collection: StoredCollection, options: Any, progress: Any) -> Searcher:
        from hardneg.indexes.exact import FlatSearcher

        return FlatSearcher(FlatVectors.open(source.folder), options=options, progress=progress)

    def make(self, context: "StageContext[ImportVectors]") -> Facts:
        corpus, ids = work.open_corpus(context), None if self.ids is None else Path(self.ids).expanduser()
        file = vectors_import.open_vectors(Path(self.vectors).expanduser(), ids)
        owners = vectors_import.VectorOwners(corpus.doc_ids, corpus.rows, "document")
        others = vectors_import.arrange_vectors(file, owners, context.folder, context.progress)
        facts = {"passages": len(corpus), "dimension": file.dimension, "bytes": index_bytes(context.folder)}
        if not others:
            return facts
        left_out = f"skipped {wording.counted(others, 'vector')} of documents that are not in the corpus"
        context.progress.note(f"{context.name}: {left_out}")
        return {**facts, "vectors of other documents": others}


class BuildIndex(base.IndexSpec):
    """Builds an index from the text of the corpus, as for BM25, or from another index's vectors (`vectors`)."""

    version = 1
    artifact_type = "index"
    purpose = "build a search index"
    needs_dataset = True
    stage: Literal["index"]
    backend: fields.IndexSetting = Field(description="The type of index; `hardneg plugins list indexes` shows all.")
    vectors: Annotated[
        fields.Name | None,
        fields.Reference(
            ("index",),
            refuses={fields.Trait.COMPRESSED: "use an encode stage or a flat index"},
            passes=(fields.Trait.SEGMENTS, fields.Trait.IMPORTED, *base.FORMS.values()),
        ),
    ] = None

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        source = getattr(recipe.plugin("backend"), "input", None)
        traits, name = recipe.traits(self.vectors or ""), self.backend.name
        form = next((form for form, trait in base.FORMS.items() if trait in traits), "vectors")
        if source == "texts" and self.vectors is not None:
            yield f"vectors: {name} is built from text, not vectors; remove it"
        elif source not in (None, "texts") and self.vectors is None:
            yield f"vectors: missing; {name} is built from the {source} of an encode stage"
        elif source not in (None, "texts", form):
            yield f"backend: {name} is built from {source}, but {self.vectors!r} has {form}; use another index"

    def traits(self, recipe: RecipeView) -> Mapping[str, str]:
        own = [fields.Trait.TEXTS] if self.vectors is None else super().traits(recipe)
        return dict.fromkeys(own, recipe.name)

    def query_model(self, recipe: RecipeView) -> str | None:
        return None if self.vectors is None else recipe.query_model(self.vectors)

    def estimate(self, sizes: base.Sizes) -> base.Row:
        count, backend = sizes.documents, configure("indexes", self.backend)
        if isinstance(backend, EstimatedBackend):
            vectors = count * sizes.stored // (4 * sizes.dimension)
            return base.Row(count, "passages", backend.disk_bytes(count, vectors, sizes.dimension))
        if self.vectors is None:
            return base.Row(count, "passages", count * 600)
        return base.Row(
            count, "passages", count * (sizes.stored if sizes.form == "weights" else sizes.stored // 4 + 20)
        )

    def open_index(self, source: ArtifactInput, collection: StoredCollection, options: Any, progress: Any) -> Searcher:
        from hardneg.indexes.exact import ExactSearcher

        searcher: Searcher = source.plugins["backend"].open(source.folder, collection.corpus.rows)
        return searcher.using(options, progress) if isinstance(searcher, ExactSearcher) else searcher

    def make(self, context: "StageContext[BuildIndex]") -> Facts:
        vectors, folder = context.inputs.get("vectors"), context.folder
        source: Any = None if vectors is None else vectors.folder
        if source is None:
            corpus = work.open_corpus(context)
            source = zip(corpus.doc_ids, chain.from_iterable(corpus.blocks()), strict=True)
        count = context.plugins["backend"].build(source, folder, context.progress)
        encoded = vectors.facts if vectors else {}
        counts = {"passages": encoded["passages"], "segments": count} if "segments" in encoded else {"passages": count}
        return {**counts, "bytes": index_bytes(folder)}
