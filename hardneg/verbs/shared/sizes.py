"""What a stage's estimate is made from and comes to: counts, shapes, a machine; bytes and seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hardneg.costs.estimated_seconds import EstimatedSeconds
from hardneg.costs.machine import Machine
from hardneg.encoders.open.configuration import BASE, Shape, Where
from hardneg.encoders.spec import FullSpec
from hardneg.formats.segments import Segments
from hardneg.registry.protocols import EstimatedSearch, IndexSize, SearchCost

if TYPE_CHECKING:
    from hardneg.training.options import LearningOptions

_FULL, _FULL_QUERY = 0.6, 0.4  # of the tokens that are read at most, those that texts and queries have
_BYTES_A_TOKEN = 4
_TERMS = 120  # what a learned sparse encoder keeps of a passage
_SPARSE_SCORES = 50e6  # of a query and a document in a second, on one core
PROCESS_BYTES = 700_000_000
BLOCK_BYTES = 200_000_000
JVM_BYTES = 1_000_000_000
PAIR_TOKENS = 120
"""Tokens of a query and a document that are read together."""


@dataclass(frozen=True)
class Row:
    """A stage's estimate.

    items: how many of `unit` there are to go through. disk, memory: bytes; memory of a process, without its networks.
    held: a process's network and what it needs of its own. shared: what the processes share. sent: bytes that machines
    send each other. seconds: `EstimatedSeconds` where they come from rates; a plain number is shown as a guess. charge:
    what others ask for it, such as a server for its answers, in the currency of its prices. requests, tokens: those of
    servers that write, tokens read and written.
    """

    items: int
    unit: str
    disk: int = 0
    memory: int = PROCESS_BYTES
    seconds: float = 0.0
    held: int = 0
    shared: int = 0
    sent: int = 0
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
    """

    documents: int
    splits: Mapping[str, int]
    model: FullSpec
    shape: Shape
    machine: Machine
    network: Shape = BASE
    inputs: Mapping[str, str] = field(default_factory=dict)
    form: str = "vectors"
    index: object = None
    corpus: int = 0
    collections: Mapping[str, "Sizes"] = field(default_factory=dict)

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
    def index_size(self) -> IndexSize:
        """Of the index of all documents: how much is in it, and with how many vectors a query is searched for."""
        if self.form != "token-vectors":
            return IndexSize(self.documents, self.documents, self.dimension)
        tokens = self.documents * _FULL * self.model.document_length
        return IndexSize(self.documents, tokens, self.dimension, _FULL_QUERY * self.model.query_length)

    def search_cost(self) -> SearchCost | None:
        """What a query takes in the index, as its backend tells it; None of an exact search."""
        return self.index.search_cost(self.index_size) if isinstance(self.index, EstimatedSearch) else None

    def searching(self, queries: float, batch: int | None = None) -> EstimatedSeconds:
        """The search among what the recipe's model makes of all documents, as the index does it; batch: at a time."""
        size = self.index_size
        if self.form == "weights":
            return EstimatedSeconds.of(queries * self.documents / _SPARSE_SCORES)
        if (cost := self.search_cost()) is None:
            return self.machine.searching(queries * size.query_vectors, size.vectors, self.dimension, batch)
        return self.machine.products(queries * cost.operations) + self.machine.codes(queries * cost.codes)

    @property
    def index_bytes(self) -> int:
        """What a search of the index reads, and what it holds in memory where it is not exact."""
        return self.documents * self.stored if (cost := self.search_cost()) is None else cost.held

    @property
    def search_memory(self) -> int:
        """Bytes that an index which is not searched exactly takes in each process."""
        return 0 if (cost := self.search_cost()) is None else cost.held

    @property
    def fetched(self) -> int:
        """Bytes of the index that are sent to the machines that do not have it."""
        return (self.machine.machines - 1) * self.index_bytes

    def network_seconds(
        self, tokens: float, shape: Shape | None = None, learning: bool = False, length: float | None = None
    ) -> EstimatedSeconds:
        """What so many tokens take to go through a network, by default the recipe's model, once and forward.

        learning: they are passed in training; each pass counts. length: tokens of a text; of a document by default.
        """
        texts = _FULL * self.model.document_length if length is None else length
        a_token = (shape or self.shape).operations_a_token(texts)
        return self.machine.network(tokens * a_token, a_token, learning)

    def encoding_seconds(self, tokens: float, length: float | None = None) -> EstimatedSeconds:
        """What the recipe's model takes for so many tokens of texts; a GPU may have to wait for the tokeniser."""
        if not self.shape.layers:
            return self.machine.looking_up(tokens) if self.shape.weights else EstimatedSeconds.of(0)
        network = self.network_seconds(tokens, length=length)
        return max(network, self.machine.tokenising(tokens)) if self.machine.gpu else network

    def kept(self, tokens: float, length: int, options: "LearningOptions", shape: Shape | None = None) -> int:
        """Bytes that a training keeps of so many tokens until their gradient; of texts of up to so many each."""
        halves: Where = "fp32" if options.precision == "fp32" else "bf16"
        where: Where = halves if self.machine.gpu else "cpu"
        return int(tokens * (shape or self.shape).kept_a_token(length, options.gradient_checkpointing, where))

    def rounded(self, options: "LearningOptions", shape: Shape | None = None) -> int:
        """Bytes of the 16-bit copies of weights that a training on a GPU holds."""
        halves = self.machine.gpu is not None and options.precision != "fp32"
        return (shape or self.shape).weights // 2 if halves else 0

    @property
    def padded(self) -> float:
        """Of the tokens that are read at most, those that a training's texts take with padding to the longest."""
        return 1.0 if self.machine.gpu else 0.8

    def exchanged(self, steps: float, gradients: float, vectors: float = 0) -> int:
        """Bytes that the machines of a training send each other: the gradients of all weights, vectors and theirs.

        Each of M machines sends and gets 2 (M - 1) / M of what is summed over all, and of what is gathered the others'
        parts, in as many steps.

        Source: P. Patarasu, X. Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, 2009.
        """
        return round(steps * (self.machine.machines - 1) * (2 * gradients + 3 * vectors))

    def segments(self, cut: Segments | None) -> tuple[int, int]:
        """How many vectors a document has, at most, and the tokens of each."""
        return (1, self.model.document_length) if cut is None else (cut.count, cut.length)


def encoding(cut: Segments | None, sizes: Sizes) -> Row:
    """What it takes to encode the corpus."""
    rows, length = sizes.segments(cut)
    copies = 2 if sizes.form == "weights" else 1  # blocks, and what they are put together to
    disk = sizes.documents * rows * (copies * sizes.stored + 20)
    sent = disk - disk // sizes.machine.machines  # the store is one machine's
    seconds = sizes.encoding_seconds(sizes.documents * rows * length * _FULL, length * _FULL)
    seconds += sizes.machine.writing(disk) + sizes.machine.sending(sent) + 3
    return Row(sizes.documents, "passages", disk, PROCESS_BYTES, seconds, 2 * sizes.shape.weights, sent=sent)
