"""Counts and shapes that the size of a stage follows from, and the size itself: items and bytes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hardneg.encoders.open.configuration import BASE, Shape
from hardneg.encoders.spec import FullSpec
from hardneg.formats.segments import Segments

_FULL = 0.6  # of the tokens that are read at most, those that texts have
_BYTES_A_TOKEN = 4
_TERMS = 120  # what a learned sparse encoder keeps of a passage
PAIR_TOKENS = 120
"""Tokens of a query and a document that are read together."""


@dataclass(frozen=True)
class Row:
    """A stage's estimate.

    items: how many of `unit` there are to go through. disk: bytes. charge: what others ask for it, such as a server for
    its answers, in the currency of its prices. requests, tokens: those of servers that write, read and written.
    """

    items: int
    unit: str
    disk: int = 0
    charge: float = 0.0
    requests: int = 0
    tokens: int = 0


@dataclass(frozen=True)
class Sizes:
    """What a stage's estimate is made from.

    splits: queries by split. model, shape: of the recipe's own model. network: that of the reranker or reader which the
    stage has or uses. form: what the model makes of a text. corpus: bytes of all texts and ids; 0 where they are not in
    the store. collections: those that the stage reads, by the paths of its inputs.
    """

    documents: int
    splits: Mapping[str, int]
    model: FullSpec
    shape: Shape
    network: Shape = BASE
    form: str = "vectors"
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


def encoding(cut: Segments | None, sizes: Sizes) -> Row:
    """What it takes to encode the corpus."""
    rows = 1 if cut is None else cut.count
    copies = 2 if sizes.form == "weights" else 1  # blocks, and what they are put together to
    disk = sizes.documents * rows * (copies * sizes.stored + 20)
    return Row(sizes.documents, "passages", disk)
