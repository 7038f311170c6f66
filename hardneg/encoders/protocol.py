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
    """Options of forward passes over texts or pairs; only `precision` changes results beyond rounding noise.

    tokens_per_batch: maximum number of tokens per forward pass, padding included; a longer text is a batch of one. None
        is the device's default (`hardneg.encoders.towers`).
    precision: `auto` is bfloat16 if the hardware supports it (`hardneg.runtime.devices`).
    window: number of texts or pairs that are sorted together by length.
    """

    tokens_per_batch: int | None = None
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    window: int = 4096


class StoredRows(Protocol):
    """The rows of a corpus in an index: documents or segments. doc_ids: the document id of each row."""

    @property
    def doc_ids(self) -> Iterable[str]: ...

    def __len__(self) -> int: ...

    def blocks(self, start: int, stop: int, size: int) -> Iterable[Sequence[str]]:
        """The texts of documents `start` to `stop`, `size` at a time."""


class StoreWriter(AbstractContextManager["StoreWriter"], Protocol):
    """A writer of encoded documents in row order; the folder is complete only after `close`."""

    def write(self, encoded: Any, /) -> None:
        """Writes the next rows."""

    def write_doc_ids(self, doc_ids: Iterable[str]) -> None:
        """Writes the id of each row, in row order, streaming."""

    def close(self) -> None:
        """Completes the folder. Raises ArtifactError if rows or ids are missing."""


class TextEncoder(Protocol):
    """An opened model that encodes texts.

    files: names of the files that `writer` writes; the last name is written first. block: maximum number of documents
    per write. device: a `torch.device`. dimension: vector dimension, or number of terms.
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
        """Encodes texts in order. Raises ModelError if a text cannot be encoded."""

    def encode_windows(
        self,
        windows: Windows,
        side: Side,
        options: EncodeOptions,
        advance: Callable[[int], None],
        cut: Segments | None = None,
    ) -> "Iterator[tuple[int, Encoded]]":
        """Yields the number and encoded texts of each window, few in memory. cut: how to cut documents, if at all."""

    def rows(
        self, corpus: "Corpus", cut: Segments | None, folder: Path, progress: Progress, here: "World"
    ) -> StoredRows:
        """The rows to store; processes may share the counting through `folder`. Raises ModelError if cutting fails."""

    def writer(self, folder: Path, rows: StoredRows) -> StoreWriter:
        """A writer for the rows."""


class EncoderFamily(Protocol):
    """An encoder family (`hardneg.encoders`), whose fields are the options of `model.encoder`.

    form: form of the encoded documents. trainable: whether the encoders can be trained.

    A family whose models are folders also has `claims`, a class method that takes a folder path and returns whether the
    files are a model of the family. Families with a higher class attribute `special` (1 by default) claim folders
    first.
    """

    version: ClassVar[int]
    form: ClassVar[Form]
    trainable: ClassVar[bool]

    def full(self, model: "ResolvedModel") -> FullSpec:
        """The spec filled in with the model's own values, without a download. Raises ModelError if not possible."""

    def digest(self, model: "ResolvedModel") -> str:
        """The model's digest: 32 hexadecimal digits that change if the encoding of any text may change."""

    def look_up(self, model: "ResolvedModel") -> Lookup:
        """The bytes of the model's local files and of the files to download. Raises ModelError if unavailable."""

    def load(self, model: "ResolvedModel", device: str | None = None, precision: str | None = None) -> TextEncoder:
        """Opens the model on a device. precision: None is for training. Raises ModelError if the model is unusable."""
