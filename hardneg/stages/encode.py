"""Stage `encode`: the corpus as vectors in a flat index."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import Field

from hardneg.encoders.protocol import EncodeOptions, StoredRows, TextEncoder
from hardneg.encoders.spec import ModelSpec
from hardneg.fields import FREE, LATER, Name, OwnCut, Reference, Trait
from hardneg.formats.vectors import index_bytes
from hardneg.records import START, counted
from hardneg.runtime import Progress, Task, world
from hardneg.stages.shared.blocks import StageBlocks
from hardneg.stages.shared.context import ArtifactInput, Facts, StageContext
from hardneg.stages.shared.inputs import open_corpus, open_prompted
from hardneg.stages.shared.stage_spec import FORMS, IndexSpec, RecipeView, Row, Sizes, encoding
from hardneg.store import SCRATCH
from hardneg.store.blocks import BlockResult

if TYPE_CHECKING:
    from hardneg.formats.collection import StoredCollection
    from hardneg.indexes.kernels.exact.exact import ExactOptions
    from hardneg.protocols import Searcher


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
    model: Annotated[Name, Reference(("model",))] = START
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    segments: OwnCut = Field(default=None, json_schema_extra=LATER)
    document_prompt: str | None = Field(
        default=None, json_schema_extra=LATER, description="The prompt before each passage, in place of the model's."
    )
    tokens_per_batch: int | None = Field(default=None, gt=0, json_schema_extra=FREE)

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        """Segments of documents that become a vector a token."""
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

    def blocks(self, context: "StageContext[Encode]", first: bool = True) -> "EncodedBlocks":
        """Blocks of passages, or of segments. Raises ArtifactError where a stopped run has cut others."""
        from hardneg.encoders.stream import Layout

        corpus, scratch = open_corpus(context), context.folder / SCRATCH
        encoder = open_prompted(context, "document", self.document_prompt, self.precision)
        rows = encoder.rows(corpus, self.segments, scratch, context.progress, world())
        options = EncodeOptions(self.tokens_per_batch, self.precision)
        sizes, unit = Layout.of_encoder(encoder, rows).sizes, "passages" if self.segments is None else "segments"
        return EncodedBlocks(context, sizes, "encode corpus", unit, encoder=encoder, rows=rows, options=options)


@dataclass(frozen=True)
class EncodedBlocks(StageBlocks):
    """The blocks of an index, as a process has opened them."""

    encoder: TextEncoder = field(kw_only=True)
    rows: StoredRows = field(kw_only=True)
    options: EncodeOptions = field(kw_only=True)

    def make(self, numbers: Sequence[int], task: Task) -> Iterator[tuple[int, BlockResult]]:
        """What the texts of each block are encoded into."""
        from hardneg.encoders.stream import encoded_blocks

        return encoded_blocks(self.encoder, self.rows, numbers, self.options, task.advance)

    def finish(self) -> Facts:
        """Writes the index, and tells of it."""
        from hardneg.encoders.stream import join_blocks

        spec, folder, rows = self.context.spec, self.context.folder, cast(Any, self.rows)
        join_blocks(self.encoder, rows, self.store, folder)
        facts = {"passages": len(rows), "dimension": self.encoder.dimension, "bytes": index_bytes(folder, SCRATCH)}
        if spec.segments is None:
            return facts
        if rows.cut_off:
            have = f"{counted(len(rows.first) - 1, 'document')} {'has' if rows.cut_off == 1 else 'have'}"
            cut = f"text after the last segment ({rows.cut.count} of {rows.cut.length} tokens)"
            self.context.progress.note(f"{self.context.name}: {rows.cut_off} of {have} {cut}; it is not read")
        return facts | {"passages": len(rows.corpus), "segments": len(rows), "documents cut off": rows.cut_off}
