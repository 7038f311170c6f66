"""Rerankers whose source may lack a head for scores: one that is drawn at random must be trained before it scores."""

from typing import Protocol, runtime_checkable


@runtime_checkable
class NeedsHead(Protocol):
    """A trainable reranker that says whether its `load(None)` draws a head."""

    def check_trained(self) -> None:
        """Raises ModelError where the source is on this machine and lacks a head."""


def check_trained(plugin: object) -> None:
    """Refuses to score with a reranker whose head nobody has trained, where it can say so. Raises ModelError."""
    if isinstance(plugin, NeedsHead):
        plugin.check_trained()
