"""Stage `encode`: the corpus as vectors in a flat index, block by block, in one folder or in shards."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from hardneg.encoders.spec import Attention, ModelSpec
from hardneg.fields import FREE, LATER, Name, OwnCut, Reference, Trait
from hardneg.records.layout import START
from hardneg.records.wording import counted
from hardneg.runtime.distributed import world
from hardneg.store.artifacts import SCRATCH
from hardneg.verbs.shared.context import ArtifactInput, Facts, StageContext
from hardneg.verbs.shared.stage_spec import FORMS, IndexSpec, RecipeView, Row, Sizes, encoding

if TYPE_CHECKING:
    from hardneg.encoders.corpus.sharding import OneFolder, ShardFolders
    from hardneg.encoders.protocol import EncodeOptions, StoredRows, TextEncoder
    from hardneg.encoders.tokens.segmenting import SegmentedCorpus
    from hardneg.formats.collection import StoredCollection
    from hardneg.indexes.kernels.exact.exact import ExactOptions
    from hardneg.records.types import Encoded
    from hardneg.registry.protocols import Searcher, StageBlocks
    from hardneg.runtime.progress import Progress


class Encode(IndexSpec):
    """Encodes the corpus into a flat index, which is the vector store too.

    segments: how long documents are cut into several vectors each; none reads their first `document_length` tokens.
    keep_tokens: whether the token ids of a large corpus are kept in the store, for the next encoding by this tokenizer.
    Vectors are the same in shards of any number, and so is the key.
    tf32: whether products in fp32 are of numbers rounded to TF32, which needs a GPU by CUDA; then part of the key.
    attention, compile: how a transformer computes, where that is not left to its processor.
    """

    version = 2
    purpose = "turn every passage into a vector"
    every_process = True
    artifact_type = "index"
    needs_dataset = True
    resumes = True
    stage: Literal["encode"]
    model: Annotated[Name, Reference(("model",))] = START
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    segments: OwnCut = Field(default=None, json_schema_extra=LATER)
    document_prompt: str | None = Field(
        default=None, json_schema_extra=LATER, description="The prompt before each passage, in place of the model's."
    )
    tokens_per_batch: int | None = Field(default=None, gt=0, json_schema_extra=FREE)
    tf32: bool = Field(default=False, json_schema_extra=LATER)
    attention: Attention = Field(default="auto", json_schema_extra=FREE)
    compile: bool = Field(default=False, json_schema_extra=FREE)
    keep_tokens: bool = Field(default=True, json_schema_extra=FREE)
    shards: int | None = Field(None, gt=0, json_schema_extra=FREE, description="Write the index in this many shards.")
    shard_rows: int | None = Field(
        None, gt=0, json_schema_extra=FREE, description="Or in shards of this many rows each."
    )

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        """Segments of documents that become a vector a token; shards of two sizes."""
        if self.shards is not None and self.shard_rows is not None:
            yield "shards: goes without shard_rows; leave one of them out"
        model = recipe.models.of(self.began_with(recipe))
        if self.segments is not None and FORMS.get(model.family.form) == Trait.TOKEN_VECTORS:
            yield f"segments: {model.spec.name!r} makes a vector of each token, which are not pooled; leave it out"

    def traits(self, recipe: RecipeView) -> Mapping[str, str]:
        """Several vectors a document, where it is cut, and what else than a vector a text becomes."""
        form = FORMS.get(recipe.models.of(self.began_with(recipe)).family.form)
        own = {Trait.SEGMENTS: self.segments is not None, **({form: True} if form else {})}
        return {trait: recipe.name for trait, has in own.items() if has}

    def began_with(self, recipe: RecipeView) -> ModelSpec:
        """That of its model."""
        return recipe.model_of(self.model)

    def query_model(self, recipe: RecipeView) -> str:
        """The model that encodes the documents."""
        return self.model

    def estimate(self, sizes: Sizes) -> Row:
        """By the token that is read."""
        return encoding(self.segments, sizes)

    def open_index(
        self,
        source: ArtifactInput,
        collection: "StoredCollection",
        options: "ExactOptions",
        progress: "Progress | None",
    ) -> "Searcher":
        """What its files say it is, searched exactly."""
        from hardneg.indexes.open_store import open_store

        return open_store(source.folder, options, progress)

    def make(self, context: "StageContext[Encode]") -> Facts:
        """Encodes every block that is not yet there; a stopped run goes on in the middle of the unfinished one."""
        from hardneg.encoders.corpus.sharding import Sharding, write_shards
        from hardneg.encoders.corpus.stream import write_index

        encoder, rows = self._opened(context)
        if self._in_shards(context):
            cut = Sharding(self.shards, self.shard_rows)
            write_shards(encoder, rows, context.folder, self._options(context), context.progress, cut)
        else:
            write_index([encoder], rows, context.folder, self._options(context), context.progress)
        return _finished(context, encoder, rows)

    def blocks(self, context: "StageContext[Encode]", writer: int = 0) -> "StageBlocks":
        """Blocks of passages, or of segments."""
        encoder, rows = self._opened(context)
        return EncodedBlocks(
            context, encoder, rows, self._options(context), self._store(context, encoder, rows, writer)
        )

    def _opened(self, context: "StageContext[Encode]") -> "tuple[TextEncoder, StoredRows]":
        """The model, and what it is to encode. Raises ArtifactError where a stopped run has cut other blocks."""
        from hardneg.encoders.corpus.stream import block_sizes
        from hardneg.formats.vectors.journal import check_sizes
        from hardneg.verbs.shared.inputs import open_corpus, open_prompted

        corpus = open_corpus(context)
        encoder = open_prompted(context, "document", self.document_prompt, self.precision)
        rows = encoder.rows(corpus, self.segments, context.folder, context.progress, world())
        check_sizes(context.folder / SCRATCH, block_sizes(encoder, rows))
        return encoder, rows

    def _options(self, context: "StageContext[Encode]") -> "EncodeOptions":
        from hardneg.encoders.protocol import EncodeOptions

        return EncodeOptions(
            self.tokens_per_batch,
            self.precision,
            attention=self.attention,
            compile=self.compile,
            keep_tokens=self.keep_tokens,
            tf32=self.tf32,
            begun=context.folder / SCRATCH / "begun",
        )

    def _in_shards(self, context: "StageContext[Encode]") -> bool:
        """Whether shards are wanted, or were begun by a run that was stopped."""
        from hardneg.formats.vectors.shards import BEGUN_CUT
        from hardneg.records.layout import WEIGHTS

        begun = (context.folder / BEGUN_CUT).exists()
        one = (context.folder / "index").exists() or (context.folder / WEIGHTS).exists()
        return begun or (not one and (self.shards or self.shard_rows) is not None)

    def _store(
        self, context: "StageContext[Encode]", encoder: "TextEncoder", rows: "StoredRows", writer: int
    ) -> "OneFolder | ShardFolders":
        from hardneg.encoders.corpus.sharding import OneFolder, ShardFolders, Sharding, ShardWork

        if not self._in_shards(context):
            return OneFolder(encoder, rows, context.folder, writer)
        cut = Sharding(self.shards, self.shard_rows)
        return ShardFolders(ShardWork.begun(encoder, rows, context.folder, cut), writer)


@dataclass(frozen=True)
class EncodedBlocks:
    """The blocks of an index, as a process has opened them; what one holds goes into the index, or its shard."""

    unit: ClassVar[str] = "passages"
    context: StageContext[Encode]
    encoder: "TextEncoder"
    rows: "StoredRows"
    options: "EncodeOptions"
    store: "OneFolder | ShardFolders"

    @cached_property
    def sizes(self) -> Sequence[int]:
        """The rows of each block."""
        from hardneg.encoders.corpus.stream import block_sizes

        return block_sizes(self.encoder, self.rows)

    def finished(self) -> set[int]:
        """By the store."""
        return self.store.finished_blocks()

    def make(self, numbers: Sequence[int]) -> "Iterator[tuple[int, tuple[int, Encoded]]]":
        """The first row of each, and what its texts are encoded into."""
        from hardneg.encoders.corpus.stream import encoded_blocks

        parts = encoded_blocks(self.encoder, self.rows, numbers, sum(self.sizes), self.options, lambda rows: None)
        return ((number, (start, encoded)) for number, start, encoded in parts)

    def write(self, number: int, content: "tuple[int, Encoded]") -> None:
        """Into the store."""
        from hardneg.encoders.corpus.stream import Layout
        from hardneg.formats.vectors.begun_blocks import drop

        self.store.write_block(number, *content)
        drop(self.options.begun, Layout.of_encoder(self.encoder, self.rows).name(number))

    def finish(self) -> Facts:
        """Completes the index."""
        self.store.close()
        return _finished(self.context, self.encoder, self.rows)


def _finished(context: StageContext[Encode], encoder: "TextEncoder", rows: "StoredRows") -> dict[str, int]:
    """Leaves the index alone in its folder, and tells of it."""
    from hardneg.encoders.tokens.segmenting import SegmentedCorpus
    from hardneg.formats.vectors.shards import index_bytes
    from hardneg.records.layout import SHARDS

    if world().first:
        shards = [path.name for path in context.folder.glob("shard-*") if path.is_dir()]
        context.keep_only(*encoder.files, *shards, SHARDS)
    size = index_bytes(context.folder) if world().first else 0
    passages = len(rows.corpus) if isinstance(rows, SegmentedCorpus) else len(rows)
    facts = {"passages": passages, "dimension": encoder.dimension, "bytes": size}
    return facts | (_cut_facts(context, rows) if isinstance(rows, SegmentedCorpus) else {})


def _cut_facts(context: StageContext[Encode], rows: "SegmentedCorpus") -> dict[str, int]:
    """How many segments there are, and what of the documents was not read."""
    if rows.cut_off and world().first:
        documents = counted(len(rows.first) - 1, "document")
        behind = f"{rows.cut_off} of {documents} {'has' if rows.cut_off == 1 else 'have'} text after the last segment"
        cut = f"{rows.cut.count} of {rows.cut.length} tokens"
        context.progress.note(f"{context.name}: {behind} ({cut}); it is not read")
    return {"segments": len(rows), "documents cut off": rows.cut_off}
