"""Protocols of encoders and of the plugins that open them, the encoder families."""

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
"""The representation of a text: one vector, term weights, or one vector per token."""
Windows = Iterable[tuple[int, Sequence[str]]]
"""Texts to encode, in windows: the position of each window's first text, and its texts."""


@dataclass(frozen=True)
class EncodeOptions:
    """Options of forward passes over texts or pairs; only `precision` changes results beyond rounding noise.

    tokens_per_batch: maximum number of tokens per forward pass, padding included; a longer text is a batch of one. None
        uses the device's default (`hardneg.encoders.towers`).
    precision: `auto` uses bfloat16 for large transformers if the hardware supports it (`hardneg.runtime.devices`).
    window: number of texts or pairs that are sorted together by length.
    """

    tokens_per_batch: int | None = None
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    window: int = 4096


class StoredRows(Protocol):
    """The rows of a corpus in an index: documents or segments. doc_ids: the id of each row."""

    @property
    def doc_ids(self) -> Iterable[str]: ...

    def __len__(self) -> int: ...

    def blocks(self, start: int, stop: int, size: int) -> Iterable[Sequence[str]]:
        """Return the texts of documents `start` to `stop` (exclusive), `size` at a time."""


class StoreWriter(AbstractContextManager["StoreWriter"], Protocol):
    """A writer of encoded documents in row order; the folder is complete only after `close`."""

    def write(self, encoded: Any, /) -> None:
        """Write the next encoded documents or segments, as an encoder returns them."""

    def write_doc_ids(self, doc_ids: Iterable[str]) -> None:
        """Write the ids of all rows, in row order. The ids may come from an iterator."""

    def close(self) -> None:
        """Finish the folder. Raises ArtifactError if rows or ids are missing."""


class TextEncoder(Protocol):
    """An opened model that encodes texts.

    files: names of the files that `writer` writes; the first appears only when the folder is complete. block: maximum
    number of documents per write. device: a `torch.device`. dimension: vector dimension, or number of terms.
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
        """Encode texts in order. Raises ModelError if a text cannot be encoded."""

    def encode_windows(
        self,
        windows: Windows,
        side: Side,
        options: EncodeOptions,
        advance: Callable[[int], None],
        cut: Segments | None = None,
    ) -> "Iterator[tuple[int, Encoded]]":
        """Yield each window's start position and encoded texts. cut: how to segment documents, if at all."""

    def rows(
        self, corpus: "Corpus", cut: Segments | None, folder: Path, progress: Progress, here: "World"
    ) -> StoredRows:
        """Return the rows to store; processes share counts through `folder`. Raises ModelError if `cut` is unusable."""

    def writer(self, folder: Path, rows: StoredRows) -> StoreWriter:
        """Return a writer that stores the encoded rows in `folder`."""


class EncoderFamily(Protocol):
    """An encoder family (`hardneg.encoders`); its fields are the options of `model.encoder`.

    form: representation of the encoded documents. trainable: whether the encoders can be trained.

    If the models of a family are folders, the family also has a class method `claims`, which accepts the path of a
    folder and returns whether the folder contains a model of the family. Families with a higher class attribute
    `special` (1 by default) are asked first.
    """

    version: ClassVar[int]
    form: ClassVar[Form]
    trainable: ClassVar[bool]

    def full(self, model: "ResolvedModel") -> FullSpec:
        """Complete the spec with the model's own values, without a download. Raises ModelError if one is missing."""

    def digest(self, model: "ResolvedModel") -> str:
        """Return the model's digest: 32 hexadecimal digits that change if the encoding of any text may change."""

    def look_up(self, model: "ResolvedModel") -> Lookup:
        """Return the size in bytes of local files and of files to download. Raises ModelError if unavailable."""

    def load(self, model: "ResolvedModel", device: str | None = None, precision: str | None = None) -> TextEncoder:
        """Open the model on a device, for training if `precision` is None. Raises ModelError if it is unusable."""
