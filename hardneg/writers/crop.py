"""The writer `crop`: two stretches of one passage, one as the query and one as the document."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from hardneg.formats.sentences import word_spans
from hardneg.records.errors import PluginError
from hardneg.records.types import Document, Written
from hardneg.runtime.seeding import generator


@dataclass(frozen=True)
class Crop:
    """Draws two stretches of words from a passage, independently: one is the query, the other stands for the passage.

    They may overlap, so that a model keeps the worth of equal words.

    Source: Izacard et al., Unsupervised Dense Information Retrieval with Contrastive Learning (TMLR 2022):
    independent random crops. Words are counted here, not tokens.

    Args:
        shortest: of the passage's words, the share of the shortest stretch.
        longest: that of the longest.
        words: a passage with fewer has no query, and no stretch has fewer than a quarter of them.
    """

    version: ClassVar[int] = 2

    shortest: float = 0.05
    longest: float = 0.5
    words: int = 16

    def __post_init__(self) -> None:
        if not 0 < self.shortest <= self.longest <= 1:
            raise PluginError(f"shortest and longest must be above 0 and up to 1, not {self.shortest}, {self.longest}")
        if self.words < 4:
            raise PluginError(f"words must be 4 or above, not {self.words}")

    def write(self, documents: Iterable[Document], *, count: int, seed: int) -> Iterator[Written]:
        """Return for each document `count` stretches of it, and another one in place of its text."""
        for document in documents:
            words = word_spans(document.text)
            if len(words) < self.words:
                yield Written((), document)
                continue
            source, stretches = generator(seed, "crop", document.doc_id), list[str]()
            for share in source.uniform(self.shortest, self.longest, 1 + count).tolist():
                length = min(len(words), max(self.words // 4, round(share * len(words))))
                start = int(source.integers(len(words) - length + 1))
                begin, end = words[start][0], words[start + length - 1][1]
                stretches.append(" ".join(document.text[begin:end].split()))
            yield Written(list(dict.fromkeys(stretches[1:])), document._replace(text=stretches[0]))
