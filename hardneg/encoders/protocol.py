"""The protocols of encoders, whatever their family, and of the families, which are plugins."""

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
    import torch

    from hardneg.encoders.open.resolved import ResolvedModel
    from hardneg.formats.corpus import Corpus
    from hardneg.records import Encoded

Form = Literal["vectors", "weights", "token-vectors"]
"""The encoding of a text: one vector, weights of terms, or a vector a token."""
Windows = Iterable[tuple[int, Sequence[str]]]
"""Texts to encode: the number of its first text, and texts, for each window."""


@dataclass(frozen=True)
class EncodeOptions:
    """How texts or pairs go through a model; changes a vector or score by float noise, and `precision` by rounding.

    tokens_per_batch: the most rows times padded length of one forward pass; a longer text passes alone. None is
        the usual one of a device (`hardneg.encoders.passes`).
    precision: `auto` is bfloat16 where the device has units for it (`hardneg.runtime.devices`).
    window: number of texts or pairs that are sorted by length together.
    """

    tokens_per_batch: int | None = None
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    window: int = 4096


class StoredRows(Protocol):
    """The stored rows of a corpus: documents, or segments of them; doc_ids: the id of each row."""

    @property
    def doc_ids(self) -> Iterable[str]: ...

    def __len__(self) -> int: ...

    def blocks(self, start: int, stop: int, size: int) -> Iterable[Sequence[str]]:
        """The texts of documents `start` to `stop`, `size` at a time."""


class StoreWriter(AbstractContextManager["StoreWriter"], Protocol):
    """Writes encoded documents in the order of their rows; what is not closed is not there."""

    def write(self, encoded: Any, /) -> None:
        """Writes the rows that come next."""

    def write_doc_ids(self, doc_ids: Iterable[str]) -> None:
        """Writes the id of each row, in row order, streaming."""

    def close(self) -> None:
        """Completes the folder. Raises ArtifactError where rows or ids are missing."""


class TextEncoder(Protocol):
    """An opened model: texts in; out comes what is stored, searched and scored.

    files: the names of the files that `writer` leaves in a folder, first the one that it writes last. block: the most
    documents that it writes at a time. dimension: size of a vector, or number of terms.
    """

    files: Sequence[str]
    block: int

    @property
    def spec(self) -> FullSpec: ...

    @property
    def device(self) -> "torch.device": ...

    @property
    def dimension(self) -> int: ...

    def encode(
        self, texts: Sequence[str], side: Side, options: EncodeOptions = ..., progress: Progress = ...
    ) -> "Encoded":
        """Encodes the texts in order. Raises ModelError where one cannot be encoded."""

    def encode_windows(
        self,
        windows: Windows,
        side: Side,
        options: EncodeOptions,
        advance: Callable[[int], None],
        cut: Segments | None = None,
    ) -> "Iterator[tuple[int, Encoded]]":
        """Yields each window's number and encoded texts, few in memory; cut: into several rows each, if at all."""

    def rows(
        self, corpus: "Corpus", cut: Segments | None, folder: Path, progress: Progress, here: "World"
    ) -> StoredRows:
        """The rows to store; processes may count a part each, in files of `folder`. Raises ModelError: no cuts."""

    def writer(self, folder: Path, rows: StoredRows) -> StoreWriter:
        """A writer of the rows."""


class EncoderFamily(Protocol):
    """A family of encoders (`hardneg.encoders`); its fields are options of `model.encoder`.

    form: the encoding of documents. trainable: whether its encoders can be trained.

    A family whose models are folders also has `claims`, a class method: whether a folder (a path) holds one of its
    models, by its files. Such a model has a `folder` when it is opened. Families of other packages claim folders before
    those of hardneg; one with a higher `special`, a number of the class, before one with a lower.
    """

    version: ClassVar[int]
    form: ClassVar[Form]
    trainable: ClassVar[bool]

    def full(self, model: "ResolvedModel") -> FullSpec:
        """The spec, filled in with the model's own values; nothing is fetched. Raises ModelError."""

    def digest(self, model: "ResolvedModel") -> str:
        """32 hexadecimal digits: others whenever the encoding of a text may differ. Raises ModelError."""

    def look_up(self, model: "ResolvedModel") -> Lookup:
        """The files to read: those on this machine, and those to download. Raises ModelError."""

    def load(self, model: "ResolvedModel", device: str | None = None, precision: str | None = None) -> TextEncoder:
        """Opens the model on `device`, or the best. precision: of the encoding; None: to train. Raises ModelError."""
