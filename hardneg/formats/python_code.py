"""Python source as it is in its file: the code of definitions, their docstrings, and the sentences of these."""

import ast
import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

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


class _Cut(NamedTuple):
    start: tuple[int, int]  # line, counted from 1, and byte
    end: tuple[int, int]
    put: bytes


def code_of(node: Definition, file: SourceFile, docstring: bool = False) -> str:
    """The code from `def` or `class` on, as it is in the file, with or without its docstring.

    What is documented within it is code of its own: its body is `...` here, so that no passage holds another, nor
    another's docstring. Decorators, empty lines and the indentation of the whole are left out.
    """
    own, cuts = node.body[0], list(_documented_within(node))
    if not docstring:
        cuts.append(_Cut((own.lineno, own.col_offset), _end(own), b""))
    position, parts = (node.lineno, 0), []
    for cut in sorted(cuts):
        parts += [_between(file.lines, position, cut.start), cut.put]
        position = cut.end
    parts.append(_between(file.lines, position, _end(node)))
    indentation = file.lines[node.lineno - 1][: node.col_offset]
    lines = (line.removeprefix(indentation).rstrip() for line in b"".join(parts).split(b"\n"))
    return b"\n".join(line for line in lines if line).decode()


def _documented_within(node: ast.AST) -> Iterator[_Cut]:
    """The bodies of the outermost documented definitions within a node."""
    waiting = children(node)
    while waiting:
        child = waiting.pop()
        if isinstance(child, Definition) and ast.get_docstring(child, clean=False):
            yield _Cut((child.body[0].lineno, child.body[0].col_offset), _end(child), b"...")
        else:
            waiting += children(child)


def _between(lines: list[bytes], start: tuple[int, int], end: tuple[int, int]) -> bytes:
    if start[0] == end[0]:
        return lines[start[0] - 1][start[1] : end[1]]
    first, last = lines[start[0] - 1][start[1] :], lines[end[0] - 1][: end[1]]
    return b"\n".join([first, *lines[start[0] : end[0] - 1], last])


def _end(node: ast.stmt) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
