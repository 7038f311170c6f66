"""Query writers that use part of a passage: its title, its docstring, a sentence, or a span of words."""

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
        raise PluginError(f"words must be two numbers of at least 1, the smaller first, not {list(words)}")


@dataclass(frozen=True)
class Heading:
    """Uses the title of a passage as the query, since titles resemble real queries, and removes it from the passage.

    A passage gets at most one query, however many are requested, and none without a usable title.

    Args:
        words: the minimum number of words in a usable title.
    """

    version: ClassVar[int] = 2

    words: int = 2

    def write(self, documents: Iterable[Document], *, count: int, seed: int) -> Iterator[Written]:
        """Yield each document without its title, which becomes the query, or unchanged if the title is unusable."""
        for document in documents:
            title = " ".join(document.title.split())
            fits = count > 0 and len(word_spans(title)) >= self.words and bool(document.text.strip())
            yield Written([title], document._replace(title="")) if fits else Written((), document)


@dataclass(frozen=True)
class FirstSentence:
    """Uses the first sentence of a docstring as the query and removes the whole docstring from the code.

    A passage gets at most one query, however many are requested, and none unless it is a Python function or class with
    a docstring.

    Args:
        words: the minimum and maximum number of words in a usable sentence.
    """

    version: ClassVar[int] = 1

    words: tuple[int, int] = (3, 40)

    def __post_init__(self) -> None:
        _check_words(self.words)

    def write(self, documents: Iterable[Document], *, count: int, seed: int) -> Iterator[Written]:
        """Yield each document without its docstring, whose first sentence is the query, or unchanged if unusable."""
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
    """Removes sentences from a passage and uses them as queries, so that a model learns more than word matching.

    At least one sentence stays in the passage. A repeated sentence is removed everywhere.

    Source: Lee et al., Latent Retrieval for Weakly Supervised Open Domain Question Answering (ACL 2019): the Inverse
    Cloze Task. In the paper, a sentence stays in its passage in 10% of cases.

    Args:
        kept: the share of queries whose sentence stays in the passage.
        words: the minimum and maximum number of words in a usable sentence.
    """

    version: ClassVar[int] = 3

    kept: float = 0.1
    words: tuple[int, int] = (4, 40)

    def __post_init__(self) -> None:
        if not 0 <= self.kept <= 1:
            raise PluginError(f"kept must be between 0 and 1, not {self.kept:g}")
        _check_words(self.words)

    def write(self, documents: Iterable[Document], *, count: int, seed: int) -> Iterator[Written]:
        """Yield up to `count` sentences of each document, and the document without the removed ones."""
        for document in documents:
            parts = sentences(document.text)
            different = list(dict.fromkeys(parts))
            fit = [part for part in different if self.words[0] <= len(word_spans(part)) <= self.words[1]]
            source = generator(seed, "inverse-cloze", document.doc_id)
            drawn = source.permutation(len(fit))[: min(count, len(different) - 1)].tolist() if fit else []
            taken = [fit[position] for position in drawn]
            removed = {part for part in taken if source.random() >= self.kept}
            rest = " ".join(part for part in parts if part not in removed)
            yield Written(taken, document._replace(text=rest) if removed else document)


@dataclass(frozen=True)
class Crop:
    """Draws independent spans of words from a passage: one replaces the passage, the others become its queries.

    The spans may overlap, so that a model still learns to match shared words.

    Source: Izacard et al., Unsupervised Dense Information Retrieval with Contrastive Learning (TMLR 2022):
    independent random crops. Here, lengths are counted in words, not tokens.

    Args:
        shortest: the length of the shortest span, as a share of the passage's words.
        longest: the length of the longest span, as a share of the passage's words.
        words: the minimum number of words in a usable passage; a span has at least a quarter of that number.
    """

    version: ClassVar[int] = 2

    shortest: float = 0.05
    longest: float = 0.5
    words: int = 16

    def __post_init__(self) -> None:
        if not 0 < self.shortest <= self.longest <= 1:
            raise PluginError(f"shortest {self.shortest} and longest {self.longest} break 0 < shortest <= longest <= 1")
        if self.words < 4:
            raise PluginError(f"words must be at least 4, not {self.words}")

    def write(self, documents: Iterable[Document], *, count: int, seed: int) -> Iterator[Written]:
        """Yield up to `count` spans of each document, and the document cut to one more; short ones stay unchanged."""
        for document in documents:
            words = word_spans(document.text)
            if len(words) < self.words:
                yield Written((), document)
                continue
            source, spans = generator(seed, "crop", document.doc_id), list[str]()
            for share in source.uniform(self.shortest, self.longest, 1 + count).tolist():
                length = min(len(words), max(self.words // 4, round(share * len(words))))
                start = int(source.integers(len(words) - length + 1))
                begin, end = words[start][0], words[start + length - 1][1]
                spans.append(" ".join(document.text[begin:end].split()))
            yield Written(list(dict.fromkeys(spans[1:])), document._replace(text=spans[0]))
