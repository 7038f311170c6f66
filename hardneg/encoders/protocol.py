"""What an encoder is to those who use one, whatever its kind; and the shape of a kind, which is a plugin."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from hardneg.encoders.open.configuration import Shape
from hardneg.encoders.spec import FullSpec, Side
from hardneg.formats.segments import Segments
from hardneg.records.types import Lookup
from hardneg.runtime.progress import Progress

if TYPE_CHECKING:
    import torch

    from hardneg.encoders.inference import EncodeOptions
    from hardneg.encoders.open.resolved import ResolvedModel
    from hardneg.encoders.tokens.kept_ids import KeptIds
    from hardneg.formats.corpus import Corpus
    from hardneg.records.types import Encoded
    from hardneg.runtime.distributed import World

Form = Literal["vectors", "weights", "token-vectors"]
"""What an encoder makes of a text: one vector, weights of terms, or a vector a token."""


@dataclass(frozen=True)
class TextWindows:
    """Texts to encode: (number of its first text, texts) for each window; count: about how many rows they make.

    cut: how documents are cut into several rows each, where they are. kept: where their token ids may be known from.
    """

    texts: Iterable[tuple[int, Sequence[str]]]
    count: int
    cut: Segments | None = None
    kept: "KeptIds | None" = None


class StoredRows(Protocol):
    """What of a corpus is stored, row by row: documents, or segments of them; doc_ids: the id of each row."""

    @property
    def doc_ids(self) -> Iterable[str]: ...

    def __len__(self) -> int: ...

    def blocks(self, start: int, stop: int, size: int) -> Iterable[Sequence[str]]:
        """The texts of documents `start` to `stop`, so many at a time."""


class StoreWriter(AbstractContextManager["StoreWriter"], Protocol):
    """Writes what documents are encoded into, block by block; after a kill, the next writer finds the blocks."""

    def finished_blocks(self) -> set[int]:
        """The numbers of the blocks that are safely on disk."""

    def write_block(self, number: int, start_row: int, encoded: Any, /) -> None:
        """Writes the rows from `start_row` on, and marks the block as finished."""

    def write_doc_ids(self, doc_ids: Iterable[str]) -> None:
        """Writes the id of each row, in row order, streaming."""

    def close(self) -> None:
        """Checks that all is there: the folder is complete."""


class TextEncoder(Protocol):
    """An opened model: texts in, what is stored, searched and scored out.

    files: the names of what `writer` leaves in a folder. block: documents that it writes at a time, at most.
    """

    files: Sequence[str]
    block: int

    @property
    def spec(self) -> FullSpec: ...

    @property
    def device(self) -> "torch.device": ...

    @property
    def dimension(self) -> int:
        """Numbers of a vector, or how many terms there are."""

    def encode(
        self, texts: Sequence[str], side: Side, options: "EncodeOptions" = ..., progress: Progress = ...
    ) -> "Encoded":
        """The texts in order. Raises ModelError where one cannot be encoded."""

    def encode_windows(
        self, windows: TextWindows, side: Side, options: "EncodeOptions", advance: Callable[[int], None]
    ) -> "Iterator[tuple[int, Encoded]]":
        """For each window the number of its first text and what its texts are encoded into; few windows are held."""

    def rows(
        self, corpus: "Corpus", cut: Segments | None, folder: Path, progress: Progress, here: "World"
    ) -> StoredRows:
        """What of the corpus is stored; several processes may count a part each first, in files of `folder`.

        Raises:
            ModelError: documents cannot be cut for this model.
        """

    def writer(self, folder: Path, rows: StoredRows, number: int = 0) -> StoreWriter:
        """A writer of the rows; `number` tells the writers of several processes apart."""

    def is_complete(self, folder: Path, rows: StoredRows) -> bool:
        """Whether a folder holds all of the rows."""


class EncoderFamily(Protocol):
    """A family of encoders (`hardneg.encoders`); its fields are options of `model.encoder`.

    form: what documents become. trainable: whether its encoders can learn.

    A family whose models lie in folders also has `claims`, a class method: whether a folder (a path) is of one of its
    models, by what its files say. Such a model's `folder` is there when it is opened. Families of other packages are
    asked before those of hardneg; one with a higher `special`, a number of the class, before one with a lower.
    """

    version: ClassVar[int]
    form: ClassVar[Form]
    trainable: ClassVar[bool]

    def full(self, model: "ResolvedModel") -> FullSpec:
        """The spec with what the model says of itself filled in; nothing is fetched. Raises ModelError."""

    def digest(self, model: "ResolvedModel") -> str:
        """32 hexadecimal digits: others whenever what the model makes of a text may differ. Raises ModelError."""

    def look_up(self, model: "ResolvedModel") -> Lookup:
        """The files that would be read: which are there, which would come. Raises ModelError."""

    def shape(self, model: "ResolvedModel") -> Shape:
        """What decides the model's cost, for a plan."""

    def load(self, model: "ResolvedModel", device: str | None = None, precision: str | None = None) -> TextEncoder:
        """The opened model on `device` (None: the best there is).

        precision: what texts will be encoded in; None is to train. Raises ModelError.
        """
