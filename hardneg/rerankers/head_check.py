"""Rerankers whose source may lack a head for scores: a random one must be trained before it scores."""

from typing import Protocol, runtime_checkable


@runtime_checkable
class NeedsHead(Protocol):
    """A trainable reranker that knows whether its `load(None)` draws a random head."""

    def check_trained(self) -> None:
        """Raises ModelError where the source is on this machine and lacks a head."""


def check_trained(plugin: object) -> None:
    """Refuses to score with a reranker whose head is untrained, where it knows. Raises ModelError."""
    if isinstance(plugin, NeedsHead):
        plugin.check_trained()
