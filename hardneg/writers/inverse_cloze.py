"""The writer `inverse-cloze`: a sentence is the query, the rest of its passage the document."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from hardneg.formats.sentences import sentences, word_spans
from hardneg.records.errors import PluginError
from hardneg.records.types import Document, Written
from hardneg.runtime.seeding import generator


@dataclass(frozen=True)
class InverseCloze:
    """Takes sentences out of a passage as queries, so that a model learns what belongs together beyond equal words.

    At least one sentence is left in the passage. One that stands there twice is taken out in both places.

    Source: Lee et al., Latent Retrieval for Weakly Supervised Open Domain Question Answering (ACL 2019): the Inverse
    Cloze Task. A sentence stays in its passage in 10 % of the cases.

    Args:
        kept: the share of the queries whose sentence stays in the passage.
        words: the fewest and the most words of a sentence that is taken.
    """

    version: ClassVar[int] = 3

    kept: float = 0.1
    words: tuple[int, int] = (4, 40)

    def __post_init__(self) -> None:
        if not 0 <= self.kept <= 1:
            raise PluginError(f"kept must be 0 to 1, not {self.kept:g}")
        if not 1 <= self.words[0] <= self.words[1]:
            raise PluginError(f"words must be two numbers, the smaller first, from 1: not {list(self.words)}")

    def write(self, documents: Iterable[Document], *, count: int, seed: int) -> Iterator[Written]:
        """Return for each document up to `count` of its sentences, and the document without those that are taken."""
        for document in documents:
            yield self._write(document, count, seed)

    def _write(self, document: Document, count: int, seed: int) -> Written:
        parts = sentences(document.text)
        fewest, most = self.words
        different = list(dict.fromkeys(parts))
        fit = [part for part in different if fewest <= len(word_spans(part)) <= most]
        source = generator(seed, "inverse-cloze", document.doc_id)
        drawn = source.permutation(len(fit))[: min(count, len(different) - 1)].tolist() if fit else []
        taken = [fit[position] for position in drawn]
        gone = {part for part in taken if source.random() >= self.kept}
        rest = " ".join(part for part in parts if part not in gone)
        return Written(taken, document._replace(text=rest) if gone else document)
