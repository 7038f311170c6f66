"""Compare the lists of one query: documents that entered, left, and moved."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class RankMove:
    """A document in two lists: its rank in each, counted from 1; None where the list lacks it."""

    doc_id: str
    before: int | None
    after: int | None

    @property
    def change(self) -> str:
        """The change in words."""
        if self.before is None:
            return "entered"
        if self.after is None:
            return "left"
        climbed = self.before - self.after
        return "stayed" if not climbed else f"up {climbed}" if climbed > 0 else f"down {-climbed}"


def moves(before: Sequence[str], after: Sequence[str]) -> list[RankMove]:
    """The moves of all documents, in the order of the second list; then those that left, in the first one's order."""
    old = {doc_id: rank for rank, doc_id in enumerate(before, 1)}
    new = {doc_id: rank for rank, doc_id in enumerate(after, 1)}
    there = [RankMove(doc_id, old.get(doc_id), rank) for doc_id, rank in new.items()]
    return there + [RankMove(doc_id, rank, None) for doc_id, rank in old.items() if doc_id not in new]


def tally(rank_moves: Sequence[RankMove]) -> dict[str, int]:
    """How many `entered`, `left`, `moved` and `stayed`."""
    words = [move.change.split()[0] for move in rank_moves]
    counts = {word: words.count(word) for word in ("entered", "left", "stayed")}
    return {**counts, "moved": len(words) - sum(counts.values())}
