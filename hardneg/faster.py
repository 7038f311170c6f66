"""Faster ways with the same results that an installed package brings: modules by the entry points `hardneg.faster`."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from hardneg.registry import entry_points

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor, device, nn


class Packing(Protocol):
    """A layout of texts that are not padded: what it takes, its passes as `token_batches`, and their `Tokens.batch`."""

    def takes(self, tokens: Any, /) -> bool: ...

    def batches(self, lengths: "NDArray[np.int64]", tokens: int, /) -> "Iterator[NDArray[np.int64]]": ...

    def features(self, tokens: Any, rows: "NDArray[np.int64]", device: "device") -> dict[str, Any]: ...


class FasterPasses(Protocol):
    """The module `passes`: of networks without gradients, where neither attention nor compilation is set.

    `arrange` has a copy of a network, in its precision, compute faster; its vectors change by rounding alone.
    `packing` is the layout for the parts of an `Encoder`, the first of them arranged; None leaves texts padded.
    """

    def arrange(self, network: "nn.Module", /) -> None: ...

    def packing(self, encoder: Any, side: str, parts: "Sequence[nn.Module]", /) -> Packing | None: ...


class Rough(Protocol):
    """A part of the queries; `given_up`, bool [q], are searched again in float32.

    `candidates` has the query, row and float32 score of all documents of a block above the bar, by ascending query,
    then row: int64 [p], int64 [p], float32 [p]; None for none. bar: float32 [q], the k-th best scores so far; None at
    first.
    """

    given_up: "Tensor"

    def candidates(self, tiles: Any, bar: "Tensor | None", /) -> "tuple[Tensor, Tensor, Tensor] | None": ...


class RoughSearch(Protocol):
    """An exact search by candidates, of so many vectors (`corpus`) and queries at a time.

    In `computing` torch's settings hold. `tiles` is a block of vectors, float32 [n, d] from a row on, as all parts of
    the queries look at it; `part` is one of these, float32 [q, d].
    """

    corpus: int
    queries: int

    def computing(self) -> AbstractContextManager[None]: ...

    def tiles(self, start: int, block: "Tensor", /) -> Any: ...

    def part(self, queries: "Tensor", k: int, /) -> Rough: ...


class FasterSearch(Protocol):
    """The module `search`: its way for a search of this size on a device; None where float32 is as fast."""

    def rough_search(
        self, device: "device", queries: int, vectors: int, dimension: int, k: int
    ) -> RoughSearch | None: ...


def faster_passes() -> FasterPasses | None:
    """The faster passes of an installed package."""
    return next((point.load() for point in entry_points("faster") if point.name == "passes"), None)


def faster_search() -> FasterSearch | None:
    """The faster exact search of an installed package."""
    return next((point.load() for point in entry_points("faster") if point.name == "search"), None)
