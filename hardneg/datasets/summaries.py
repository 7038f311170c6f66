"""What the datasets of docstrings share: summaries that can be queries, and splits that ids decide."""

import re
from typing import NamedTuple

from hardneg.runtime.seeding import derive_seed

_UNDERLINE = re.compile(r"^[-=~^*]{3,}$", re.MULTILINE)
_SIGNATURE = re.compile(r"^[\w.]+ ?\(.*\)( ?->.*)?$|->")


class Summary(NamedTuple):
    """A paragraph or sentence at the head of a docstring: its part's name, as it is there, and in one line."""

    part: str
    source: str
    text: str

    def unfit(self, passage: str, words: tuple[int, int]) -> str | None:
        """Why it cannot be the query of a passage; None if it can. `words` are the fewest and the most it may have."""
        if not words[0] <= len(self.text.split()) <= words[1]:
            return f"docstrings whose first {self.part} has not {words[0]} to {words[1]} words"
        if self.source.startswith("..") or _UNDERLINE.search(self.source) or _SIGNATURE.search(self.text):
            return "docstrings that start with a heading, a directive or a signature"
        if text_key(self.text) in " ".join(passage.split()).casefold():
            return f"docstrings that repeat their first {self.part}"
        return None


def text_key(text: str) -> str:
    """The same for two queries that differ in case, or in the punctuation at their ends."""
    return text.casefold().rstrip(" .:")


class SplitShares(NamedTuple):
    """The parts of the queries that are for development and for tests; the others are for training."""

    dev: float
    test: float
    seed: int

    @property
    def by_split(self) -> dict[str, float]:
        """The share of each split."""
        return {"train": 1 - self.dev - self.test, "dev": self.dev, "test": self.test}

    def split(self, item_id: str) -> str:
        """The split of an id; it depends on nothing else, and one in `test` stays there under a larger share."""
        share = derive_seed(self.seed, "split", item_id) / 2**64
        if share < self.test:
            return "test"
        return "dev" if share < self.test + self.dev else "train"

    def sizes(self, count: int) -> dict[str, int]:
        """How many of so many queries each split has, about."""
        return {split: round(share * count) for split, share in self.by_split.items()}
