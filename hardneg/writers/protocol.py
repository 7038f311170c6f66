"""What writers may have beside `write`: a session for all documents, and an estimate of their cost."""

from collections.abc import MutableMapping
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol, runtime_checkable

from hardneg.registry.protocols import QueryWriter


@runtime_checkable
class SessionWriter(Protocol):
    """A writer that opens something once for all documents, such as a network or connections to a server."""

    def writing(self, counts: MutableMapping[str, float], device: str | None) -> AbstractContextManager[QueryWriter]:
        """Return the opened writer; when the block ends, it adds to `counts` what it has used, such as tokens."""


class WriterCost(NamedTuple):
    """The cost of writing: requests to a server, their tokens read and written, and its charge."""

    requests: float = 0
    tokens: float = 0
    charge: float = 0


@runtime_checkable
class EstimatedWriter(Protocol):
    """A writer that estimates its cost, for a plan; others count as free."""

    def writing_cost(self, passages: float, tokens: float, count: int) -> WriterCost:
        """Return the cost of `count` queries for each of so many passages of so many tokens."""
