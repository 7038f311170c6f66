"""What the datasets of docstrings share: options, summaries that can be queries, and splits that ids decide."""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from hardneg.datasets.docstrings import package_version
from hardneg.records.errors import UsageError
from hardneg.runtime.seeding import FIXED, derive_seed
from hardneg.store.digest import digest
from hardneg.store.identity import options_in_key

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


@dataclass(frozen=True)
class FromDocstrings:
    """The options of a dataset of docstrings, and what follows from them; each dataset documents them in its words."""

    packages: tuple[str, ...] = ("numpy", "scipy", "pandas", "sklearn", "matplotlib", "networkx")
    max_passages: int = 6000
    min_passage_words: int = 20
    query_words: tuple[int, int] = (3, 40)
    seed: int = FIXED
    dev_share: float = 0.055
    test_share: float = 0.12
    name: ClassVar[str]
    version: ClassVar[int] = 1

    def fingerprint(self) -> str:
        """A digest of the packages' versions (or their sources), the options and Python's version."""
        versions = [[package, package_version(package)] for package in self._names]
        return digest([self.name, self.version, options_in_key(self), versions, list(sys.version_info[:2])])

    def size_hint(self) -> int:
        """The cap; the default packages reach it."""
        return self.max_passages

    def query_hint(self) -> Mapping[str, int]:
        """Each split's share of the cap; some summaries are no query of their own."""
        return self._shares.sizes(self.max_passages)

    def _check(self) -> None:
        """Raises UsageError where there is no package, a cap under 1, or shares that leave a split nothing."""
        if not self.packages or self.max_passages < 1:
            raise UsageError(f"{self.name}: give at least one package, and a max_passages of 1 or more")
        if min(self._shares.by_split.values()) <= 0:
            raise UsageError(f"{self.name}: give a dev_share and a test_share above 0, and below 1 together")

    @property
    def _names(self) -> list[str]:
        return sorted(set(self.packages))

    @property
    def _shares(self) -> SplitShares:
        return SplitShares(self.dev_share, self.test_share, self.seed)
