"""The writer `docstring`: what a function or class is said to do is the query, its code the document."""

import ast
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from hardneg.formats.python_code import Definition, SourceFile, code_of, first_sentence
from hardneg.records.errors import PluginError
from hardneg.records.types import Document, Written


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
        if not 1 <= self.words[0] <= self.words[1]:
            raise PluginError(f"words must be two numbers, the smaller first, from 1: not {list(self.words)}")

    def write(self, documents: Iterable[Document], *, count: int, seed: int) -> Iterator[Written]:
        """Return for each document the first sentence of its docstring, and the document without the docstring."""
        for document in documents:
            yield self._write(document) if count > 0 else Written((), document)

    def _write(self, document: Document) -> Written:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                body = ast.parse(document.text).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # prose
            body = []
        if len(body) != 1 or not isinstance(node := body[0], Definition) or not (text := ast.get_docstring(node)):
            return Written((), document)
        words = first_sentence(text).split()
        if not self.words[0] <= len(words) <= self.words[1]:
            return Written((), document)
        code = code_of(node, SourceFile(document.text.encode()))
        return Written([" ".join(words)], document._replace(text=code))
