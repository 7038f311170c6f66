"""The writer `heading`: the headings above a passage are the query, its text the document."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from hardneg.formats.sentences import word_spans
from hardneg.records.types import Document, Written


@dataclass(frozen=True)
class Heading:
    """Takes a passage's title as the query, and out of the passage, as titles are near to what people ask for.

    A passage has one title, so one query is written, however many are wanted; of a passage without a title none is.

    Args:
        words: the fewest words of a title that is a query.
    """

    version: ClassVar[int] = 2

    words: int = 2

    def write(self, documents: Iterable[Document], *, count: int, seed: int) -> Iterator[Written]:
        """Return for each document its title, and the document without it."""
        for document in documents:
            title = " ".join(document.title.split())
            fits = count > 0 and len(word_spans(title)) >= self.words and bool(document.text.strip())
            yield Written([title], document._replace(title="")) if fits else Written((), document)
