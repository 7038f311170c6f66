"""Python source as it is in its file: the code of definitions, their docstrings, and the sentences of these."""

import ast
import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

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
