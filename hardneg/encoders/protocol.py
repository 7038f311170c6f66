"""The protocols of encoders and of their families, which are plugins."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from hardneg.encoders.spec import FullSpec, Side
from hardneg.formats.segments import Segments
from hardneg.records import Lookup
from hardneg.runtime import Progress, World

if TYPE_CHECKING:
    from hardneg.encoders.open.resolved import ResolvedModel
    from hardneg.formats.corpus import Corpus
    from hardneg.records import Encoded

Form = Literal["vectors", "weights", "token-vectors"]
"""The encoding of a text: one vector, weights of terms, or a vector for each token."""
Windows = Iterable[tuple[int, Sequence[str]]]
"""Texts to encode in windows: the number of the first text, and the texts."""


@dataclass(frozen=True)
class EncodeOptions:
    """The options of a forward pass over texts or pairs; `precision` rounds results, the others change float noise.

    tokens_per_batch: the most tokens of one forward pass, padding included; a longer text passes alone. None is the
        default of the device (`hardneg.encoders.towers`).
    precision: `auto` is bfloat16 if the device has units for it (`hardneg.runtime.devices`).
    window: number of texts or pairs that are sorted by length together.
    """

    tokens_per_batch: int | None = None
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    window: int = 4096


class StoredRows(Protocol):
    """The rows of a corpus in an index: documents or segments; doc_ids: the id of each row."""

    @property
    def doc_ids(self) -> Iterable[str]: ...

    def __len__(self) -> int: ...

    def blocks(self, start: int, stop: int, size: int) -> Iterable[Sequence[str]]:
        """The texts of documents `start` to `stop`, `size` at a time."""


class StoreWriter(AbstractContextManager["StoreWriter"], Protocol):
    """A writer of encoded documents in the order of their rows; the folder is complete only after `close`."""

    def write(self, encoded: Any, /) -> None:
        """Writes the next rows."""

    def write_doc_ids(self, doc_ids: Iterable[str]) -> None:
        """Writes the id of each row, in row order, streaming."""

    def close(self) -> None:
        """Completes the folder. Raises ArtifactError: rows or ids are missing."""


class TextEncoder(Protocol):
    """An opened model that encodes texts.

    files: names of the files that `writer` writes in a folder, the last one written first. block: the most documents
    written at a time. device: a `torch.device`. dimension: size of a vector, or number of terms.
    """

    files: Sequence[str]
    block: int

    @property
    def spec(self) -> FullSpec: ...

    @property
    def device(self) -> Any: ...

    @property
    def dimension(self) -> int: ...

    def encode(
        self, texts: Sequence[str], side: Side, options: EncodeOptions = ..., progress: Progress = ...
    ) -> "Encoded":
        """Encodes texts in order. Raises ModelError: one cannot be encoded."""

    def encode_windows(
        self,
        windows: Windows,
        side: Side,
        options: EncodeOptions,
        advance: Callable[[int], None],
        cut: Segments | None = None,
    ) -> "Iterator[tuple[int, Encoded]]":
        """Yields each window's number and encoded texts, few in memory; cut: how documents are cut, if at all."""

    def rows(
        self, corpus: "Corpus", cut: Segments | None, folder: Path, progress: Progress, here: "World"
    ) -> StoredRows:
        """The rows to store; each process may count a share, in files of `folder`. Raises ModelError: cannot cut."""

    def writer(self, folder: Path, rows: StoredRows) -> StoreWriter:
        """A writer of the rows."""


class EncoderFamily(Protocol):
    """A family of encoders (`hardneg.encoders`); its fields are options of `model.encoder`.

    form: the encoding of documents. trainable: whether its encoders can be trained.

    A family whose models are folders also has `claims`, a class method that returns whether a folder (a path) holds one
    of its models, by its files. Families with a higher `special`, a number of the class (1 by default), claim folders
    before others.
    """

    version: ClassVar[int]
    form: ClassVar[Form]
    trainable: ClassVar[bool]

    def full(self, model: "ResolvedModel") -> FullSpec:
        """The spec filled in with the model's own values, without a download. Raises ModelError."""

    def digest(self, model: "ResolvedModel") -> str:
        """32 hexadecimal digits that differ if the encoding of any text may differ. Raises ModelError."""

    def look_up(self, model: "ResolvedModel") -> Lookup:
        """The bytes of the model's files on this machine and to download. Raises ModelError."""

    def load(self, model: "ResolvedModel", device: str | None = None, precision: str | None = None) -> TextEncoder:
        """Opens the model on a device or the best one; precision: None: for training. Raises ModelError."""
