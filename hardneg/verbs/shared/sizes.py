"""Counts and shapes that the size of a stage follows from, and the size itself: items and bytes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hardneg.encoders.open.configuration import BASE, Shape, Where
from hardneg.encoders.spec import FullSpec
from hardneg.formats.segments import Segments
from hardneg.registry.protocols import EstimatedSearch, IndexSize

if TYPE_CHECKING:
    from hardneg.training.options import LearningOptions

_FULL = 0.6  # of the tokens that are read at most, those that texts have
_BYTES_A_TOKEN = 4
_TERMS = 120  # what a learned sparse encoder keeps of a passage
PROCESS_BYTES = 700_000_000
BLOCK_BYTES = 200_000_000
JVM_BYTES = 1_000_000_000
PAIR_TOKENS = 120
"""Tokens of a query and a document that are read together."""


@dataclass(frozen=True)
class Row:
    """A stage's estimate.

    items: how many of `unit` there are to go through. disk, memory: bytes; memory of a process, without its networks.
    held: a process's network and what it needs of its own. shared: what the processes share. charge: what others ask
    for it, such as a server for its answers, in the currency of its prices. requests, tokens: those of servers that
    write, tokens read and written.
    """

    items: int
    unit: str
    disk: int = 0
    memory: int = PROCESS_BYTES
    held: int = 0
    shared: int = 0
    charge: float = 0.0
    requests: int = 0
    tokens: int = 0


@dataclass(frozen=True)
class Sizes:
    """What a stage's estimate is made from.

    splits: queries by split. model, shape: of the recipe's own model. network: that of the reranker or reader which the
    stage has or uses. inputs: the stage's, by path, those that are implied too. form: what the model makes of a text.
    index: the configured backend of the index that the stage reads; None where that is flat. corpus: bytes of all texts
    and ids; 0 where they are not in the store. collections: those that the stage reads, by the paths of its inputs.
    gpu: whether networks run on one.
    """

    documents: int
    splits: Mapping[str, int]
    model: FullSpec
    shape: Shape
    network: Shape = BASE
    inputs: Mapping[str, str] = field(default_factory=dict)
    form: str = "vectors"
    index: object = None
    corpus: int = 0
    collections: Mapping[str, "Sizes"] = field(default_factory=dict)
    gpu: bool = False

    def queries(self, split: str) -> int:
        """How many queries a split has; a tenth of the documents where nothing says it."""
        return self.splits.get(split, max(1, self.documents // 10))

    @property
    def dimension(self) -> int:
        """That of the vectors."""
        width = self.model.projection or self.shape.vector or self.shape.hidden
        return min(width, self.model.truncate_dim or width)

    @property
    def document_tokens(self) -> int:
        """Those of a document that are read, in the mean."""
        return round(_FULL * self.model.document_length)

    @property
    def text_tokens(self) -> float:
        """Those of a whole document, in the mean; as many as the model reads where the texts are not in the store."""
        return self.corpus / self.documents / _BYTES_A_TOKEN if self.corpus else self.document_tokens

    @property
    def stored(self) -> int:
        """Bytes that a text of a document takes in an index, its id left out."""
        by_form = {"weights": _TERMS * 8 + 8, "token-vectors": self.document_tokens * self.dimension * 4}
        return by_form.get(self.form, self.dimension * 4)

    @property
    def search_memory(self) -> int:
        """Bytes that an index which is not searched exactly takes in each process."""
        if not isinstance(self.index, EstimatedSearch):
            return 0
        tokens = self.documents * _FULL * self.model.document_length
        vectors = tokens if self.form == "token-vectors" else self.documents
        return self.index.search_memory(IndexSize(self.documents, vectors, self.dimension))

    def kept(self, tokens: float, length: int, options: "LearningOptions", shape: Shape | None = None) -> int:
        """Bytes that a training keeps of so many tokens until their gradient; of texts of up to so many each."""
        halves: Where = "fp32" if options.precision == "fp32" else "bf16"
        where: Where = halves if self.gpu else "cpu"
        return int(tokens * (shape or self.shape).kept_a_token(length, options.gradient_checkpointing, where))

    def rounded(self, options: "LearningOptions", shape: Shape | None = None) -> int:
        """Bytes of the 16-bit copies of weights that a training on a GPU holds."""
        halves = self.gpu and options.precision != "fp32"
        return (shape or self.shape).weights // 2 if halves else 0

    @property
    def padded(self) -> float:
        """Of the tokens that are read at most, those that a training's texts take with padding to the longest."""
        return 1.0 if self.gpu else 0.8

    def segments(self, cut: Segments | None) -> tuple[int, int]:
        """How many vectors a document has, at most, and the tokens of each."""
        return (1, self.model.document_length) if cut is None else (cut.count, cut.length)


def encoding(cut: Segments | None, sizes: Sizes) -> Row:
    """What it takes to encode the corpus."""
    rows, _ = sizes.segments(cut)
    copies = 2 if sizes.form == "weights" else 1  # blocks, and what they are put together to
    disk = sizes.documents * rows * (copies * sizes.stored + 20)
    return Row(sizes.documents, "passages", disk, PROCESS_BYTES, 2 * sizes.shape.weights)
