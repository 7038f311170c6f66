"""Writers that take a query out of a passage: its heading, its docstring, a sentence of it, or a stretch."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from hardneg.datasets import pydocs
from hardneg.formats.texts import sentences, word_spans
from hardneg.records import Document, PluginError, Written
from hardneg.runtime import generator


def _check_words(words: tuple[int, int]) -> None:
    if not 1 <= words[0] <= words[1]:
        raise PluginError(f"words must be two numbers, the smaller first, from 1: not {list(words)}")


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


@dataclass(frozen=True)
class FirstSentence:
    """Takes the first sentence of a docstring as the query, and the whole docstring out of the code.

    A passage that is no function or class of Python with a docstring has no query. It has one at most, however many
    are wanted.

    Args:
        words: the fewest and the most words of a sentence that is a query.
    """

    version: ClassVar[int] = 1

    words: tuple[int, int] = (3, 40)

    def __post_init__(self) -> None:
        _check_words(self.words)

    def write(self, documents: Iterable[Document], *, count: int, seed: int) -> Iterator[Written]:
        """Return for each document the first sentence of its docstring, and the document without the docstring."""
        for document in documents:
            body = getattr(pydocs.parsed(document.text), "body", [])
            node = body[0] if len(body) == 1 and count > 0 and isinstance(body[0], pydocs.Definition) else None
            words = pydocs.first_sentence(ast.get_docstring(node) or "").split() if node else []
            if node and self.words[0] <= len(words) <= self.words[1]:
                code = pydocs.code_of(node, pydocs.SourceFile(document.text.encode()))
                yield Written([" ".join(words)], document._replace(text=code))
            else:
                yield Written((), document)


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
        _check_words(self.words)

    def write(self, documents: Iterable[Document], *, count: int, seed: int) -> Iterator[Written]:
        """Return for each document up to `count` of its sentences, and the document without those that are taken."""
        for document in documents:
            parts = sentences(document.text)
            different = list(dict.fromkeys(parts))
            fit = [part for part in different if self.words[0] <= len(word_spans(part)) <= self.words[1]]
            source = generator(seed, "inverse-cloze", document.doc_id)
            drawn = source.permutation(len(fit))[: min(count, len(different) - 1)].tolist() if fit else []
            taken = [fit[position] for position in drawn]
            gone = {part for part in taken if source.random() >= self.kept}
            rest = " ".join(part for part in parts if part not in gone)
            yield Written(taken, document._replace(text=rest) if gone else document)


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
