"""Sentences and words of a text, by its punctuation; and Python source as it is in its file, by its definitions."""

import ast
import importlib.util
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import regex

from hardneg.records.text import UNSPACED

_END = regex.compile(
    r"""(?<=[.!?…]["'”’»)\]]{0,8})\s+(?=["'“‘«(\[]*[\p{Lu}\p{Lo}\p{N}])  # an end, then what begins with a capital
    |(?<=[。！？।॥۔؟።፧։។။][」』”]{0,8})\s*  # ends that stand for nothing else, with or without a blank
    |(?<=[\p{Thai}\p{Lao}][\p{M}\p{P}]?)[ ]+(?=\p{Thai}|\p{Lao})  # scripts whose only end is a blank
    |(?<!\s)\s*\n\s*\n\s*  # a blank line, looked for once in each stretch of white space""",
    regex.VERBOSE,
)
_NO_END = regex.compile(
    r"(?:^|[\s(])(?:Mr|Mrs|Ms|Dr|Prof|St|Fig|Figs|Eq|Sec|No|vs|cf|approx|e\.g|i\.e|et al|\p{Lu})\.$"
)
WORD = rf"[{UNSPACED}]{{1,2}}\p{{P}}*|[^\s{UNSPACED}]+"
"""A word, for regex and for RE2."""
_WORD = regex.compile(WORD)

_LONGEST = 16
"""More characters than an abbreviation has with what stands before it."""


def sentences(text: str) -> list[str]:
    """The sentences of a text in their order, white space at their ends removed; together they are all of it.

    A sentence ends at `.`, `!`, `?` or `…` before a capital, a digit or a letter without case, at marks like `。` and
    `।`, at a blank between Thai or Lao letters, and at a blank line. Initials and abbreviations (`Dr.`) end none.
    """
    parts: list[str] = []
    start = 0
    for match in _END.finditer(text):
        end = match.start()
        if _NO_END.search(text[max(start, end - _LONGEST) : end]):
            continue
        if part := text[start:end].strip():
            parts.append(part)
            start = match.end()
    rest = text[start:].strip()
    return [*parts, rest] if rest else parts


def word_spans(text: str) -> list[tuple[int, int]]:
    """Where each word of a text begins and ends, in characters.

    Words are what white space separates; in scripts without blanks between words, every two characters.
    """
    return [match.span() for match in _WORD.finditer(text)]


_BLOCKS = ("body", "handlers", "cases", "orelse", "finalbody")
_PARAGRAPH = re.compile(r"\n[ \t]*\n")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`'\"(])")

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class SourceFile:
    """The bytes of a Python file."""

    content: bytes

    @cached_property
    def lines(self) -> list[bytes]:
        """Its lines in UTF-8, without their ends: a node's `lineno` counts them from 1, its `col_offset` bytes."""
        return [line.encode() for line in importlib.util.decode_source(self.content).split("\n")]

    @cached_property
    def text(self) -> bytes:
        """All of them in one."""
        return b"\n".join(self.lines)

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *accumulate(len(line) + 1 for line in self.lines)]

    def at(self, line: int, column: int) -> int:
        """Where a position stands in `text`."""
        return self._starts[line - 1] + column

    def end(self, node: ast.stmt) -> int:
        """Where a node ends in `text`."""
        return self.at(node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)


def parsed(source: str | bytes) -> ast.Module | SyntaxError:
    """The tree of a module's source; an error for what is none, whatever the parser raises for it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except SyntaxError as error:
        return error
    except (ValueError, RecursionError, MemoryError) as error:
        return SyntaxError(type(error).__name__)


def first_sentence(docstring: str) -> str:
    """The first sentence of a docstring, as it is there."""
    return _SENTENCE.split(_PARAGRAPH.split(docstring.strip(), maxsplit=1)[0], maxsplit=1)[0]


def definitions(tree: ast.Module) -> Iterator[tuple[str, Definition]]:
    """The functions and classes that are documented, or stand within none, with their dotted names, in their order."""
    waiting: list[tuple[ast.AST, str]] = [(tree, "")]
    while waiting:
        node, name = waiting.pop()
        if isinstance(node, Definition):
            within, name = bool(name), f"{name}.{node.name}".lstrip(".")
            if not within or ast.get_docstring(node):
                yield name, node
        waiting.extend((child, name) for child in reversed(children(node)))


def children(node: ast.AST) -> list[ast.AST]:
    """The statements, handlers and cases within a node, in the order of the source."""
    return [child for block in _BLOCKS for child in getattr(node, block, ())]


def code_of(node: Definition, file: SourceFile, docstring: bool = False) -> str:
    """The code from `def` or `class` on, as it is in the file, with or without its docstring.

    What is documented within it is code of its own: its body is `...` here, so that no passage holds another, nor
    another's docstring. Decorators, empty lines and the indentation of the whole are left out.
    """
    own, position, parts = node.body[0], file.at(node.lineno, 0), []
    cuts = [(file.at(each.body[0].lineno, each.body[0].col_offset), file.end(each), b"...") for each in _inner(node)]
    if not docstring:
        cuts.append((file.at(own.lineno, own.col_offset), file.end(own), b""))
    for start, end, put in sorted(cuts):
        parts += [file.text[position:start], put]
        position = end
    parts.append(file.text[position : file.end(node)])
    indentation = file.lines[node.lineno - 1][: node.col_offset]
    lines = (line.removeprefix(indentation).rstrip() for line in b"".join(parts).split(b"\n"))
    return b"\n".join(line for line in lines if line).decode()


def _inner(node: ast.AST) -> Iterator[Definition]:
    """The outermost documented definitions within a node."""
    waiting = children(node)
    while waiting:
        child = waiting.pop()
        if isinstance(child, Definition) and ast.get_docstring(child, clean=False):
            yield child
        else:
            waiting += children(child)
