"""Faster ways with the same results that an installed package brings: modules by the entry points `hardneg.faster`."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from hardneg.registry.plugins import entry_points

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor, device, nn


class Packing(Protocol):
    """How texts are laid out for a network that takes them in another form than padded."""

    def takes(self, tokens: Any, /) -> bool:
        """Whether `Tokens` can be laid out so."""

    def batches(self, lengths: "NDArray[np.int64]", tokens: int, /) -> "Iterator[NDArray[np.int64]]":
        """Rows in passes of at most so many tokens, as `token_batches`."""

    def features(self, tokens: Any, rows: "NDArray[np.int64]", device: "device") -> dict[str, Any]:
        """The input of some rows, as `Tokens.batch`."""


class FasterPasses(Protocol):
    """The module `passes`: of networks without gradients, where neither attention nor compilation is set."""

    def arrange(self, network: "nn.Module", /) -> None:
        """Has a copy of a network, in its precision, compute faster; its vectors change by rounding alone."""

    def packing(self, encoder: Any, side: str, parts: "Sequence[nn.Module]", /) -> Packing | None:
        """The layout of texts for the parts of an `Encoder`, the first of them arranged; None leaves them padded."""


class Rough(Protocol):
    """A part of the queries, and the documents that may be among their best k.

    given_up: bool [q], queries that are searched again in float32.
    """

    given_up: "Tensor"

    def candidates(self, tiles: Any, bar: "Tensor | None", /) -> "tuple[Tensor, Tensor, Tensor] | None":
        """The query, row and float32 score of all documents of a block above the bar; None for none.

        By ascending query, then row: int64 [p], int64 [p], float32 [p]. bar: float32 [q], the k-th best scores so far;
        None at first.
        """

    def state(self) -> "Mapping[str, NDArray[Any]]":
        """What a search that resumes needs."""


class RoughSearch(Protocol):
    """An exact search by candidates; corpus, queries: how many are multiplied at a time."""

    name: str
    corpus: int
    queries: int

    def computing(self) -> AbstractContextManager[None]:
        """The settings of torch that hold in a search."""

    def tiles(self, start: int, block: "Tensor", /) -> Any:
        """A block of vectors, float32 [n, d] from row `start` on, as all parts of the queries look at it."""

    def part(self, queries: "Tensor", k: int, state: "Mapping[str, NDArray[Any]] | None", /) -> Rough:
        """A part of the queries, float32 [q, d], where a stopped search was."""


class FasterSearch(Protocol):
    """The module `search`."""

    def rough_search(self, device: "device", queries: int, vectors: int, dimension: int, k: int) -> RoughSearch | None:
        """The faster search of this size on a device; None where float32 is as fast."""


def faster_passes() -> FasterPasses | None:
    """The faster passes of an installed package."""
    return _installed("passes")


def faster_search() -> FasterSearch | None:
    """The faster exact search of an installed package."""
    return _installed("search")


def _installed(name: str) -> Any:
    return next((point.load() for point in entry_points("faster") if point.name == name), None)
