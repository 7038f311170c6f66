"""Stage `encode`: the corpus as vectors in a flat index, block by block."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from hardneg.data.collection import StoredCollection
from hardneg.data.flat import index_bytes
from hardneg.distributed import world
from hardneg.fields import FREE, LATER, START, Name, OwnCut, Reference, Trait
from hardneg.stages.context import ArtifactInput, Facts, StageContext
from hardneg.stages.inputs import open_corpus, open_encoder
from hardneg.stages.spec import FORMS, RecipeView, Row, Sizes, StageSpec, encoding
from hardneg.wording import counted

if TYPE_CHECKING:
    from hardneg.encoders.segmenting import SegmentedCorpus
    from hardneg.indexes.exact import ExactOptions
    from hardneg.progress import Progress
    from hardneg.protocols import Searcher


class Encode(StageSpec):
    """Encodes the corpus into a flat index, which is the vector store too.

    segments: how long documents are cut into several vectors each; none reads their first `document_length` tokens.
    """

    version = 2
    purpose = "turn every passage into a vector"
    every_process = True
    kind = "index"
    needs_dataset = True
    resumes = True
    stage: Literal["encode"]
    model: Annotated[Name, Reference(("model",))] = START
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    segments: OwnCut = Field(default=None, json_schema_extra=LATER)
    tokens_per_batch: int | None = Field(default=None, gt=0, json_schema_extra=FREE)

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        """Segments of documents that become a vector a token."""
        if self.segments is not None and FORMS.get(recipe.encoder.form) == Trait.TOKEN_VECTORS:
            yield f"segments: {recipe.model.name!r} makes a vector of each token, which are not pooled; leave it out"

    def traits(self, recipe: RecipeView) -> Mapping[str, str]:
        """Several vectors a document, where it is cut, and what else than a vector a text becomes."""
        form = FORMS.get(recipe.encoder.form)
        own = {Trait.SEGMENTS: self.segments is not None, **({form: True} if form else {})}
        return {trait: recipe.name for trait, has in own.items() if has}

    def query_model(self, recipe: RecipeView) -> str:
        """The model that encodes the documents."""
        return self.model

    def estimate(self, sizes: Sizes) -> Row:
        """By the token that is read."""
        return encoding(self.segments, sizes)

    def open_index(
        self, source: ArtifactInput, collection: StoredCollection, options: "ExactOptions", progress: "Progress | None"
    ) -> "Searcher":
        """What its files say it is, searched exactly."""
        from hardneg.indexes.stored import open_store

        return open_store(source.folder, options, progress)

    def make(self, context: "StageContext[Encode]") -> Facts:
        """Encodes every block that is not yet there; a stopped run goes on at the first unfinished one."""
        from hardneg.encoders.inference import EncodeOptions
        from hardneg.encoders.segmenting import SegmentedCorpus
        from hardneg.encoders.stream import write_index

        corpus = open_corpus(context)
        encoder = open_encoder(context.inputs["model"], context.device, self.precision)
        options = EncodeOptions(tokens_per_batch=self.tokens_per_batch, precision=self.precision)
        here = world()
        rows = encoder.rows(corpus, self.segments, context.folder, context.progress, here)
        write_index([encoder], rows, context.folder, options, context.progress)
        if here.first:
            context.keep_only(*encoder.files)
        size = index_bytes(context.folder) if here.first else 0
        facts = {"passages": len(corpus), "dimension": encoder.dimension, "bytes": size}
        return facts | (_cut_facts(context, rows) if isinstance(rows, SegmentedCorpus) else {})


def _cut_facts(context: StageContext[Encode], rows: "SegmentedCorpus") -> dict[str, int]:
    """How many segments there are, and what of the documents was not read."""
    if rows.cut_off and world().first:
        documents = counted(len(rows.first) - 1, "document")
        behind = f"{rows.cut_off} of {documents} {'has' if rows.cut_off == 1 else 'have'} text behind the last segment"
        cut = f"{rows.cut.count} of {rows.cut.length} tokens"
        context.progress.note(f"{context.name}: {behind} ({cut}); it is not read")
    return {"segments": len(rows), "documents cut off": rows.cut_off}
