"""The code of a documented function or class, without what documents it."""

import ast
from collections.abc import Iterator
from typing import NamedTuple

from hardneg.datasets.docstrings import Definition, Docstring, children


class _Cut(NamedTuple):
    start: tuple[int, int]  # line, counted from 1, and byte
    end: tuple[int, int]
    put: bytes


def code_of(docstring: Docstring) -> str | None:
    """The code from `def` or `class` on, as it is in the file, without its docstring; None of a module.

    What is documented within it is code of its own: its body is `...` here, so that no passage holds another, nor
    another's docstring. Decorators, empty lines and the indentation of the whole are left out.
    """
    node = docstring.node
    if not isinstance(node, Definition):
        return None
    own = node.body[0]
    cuts = [_Cut((own.lineno, own.col_offset), _end(own), b""), *_documented_within(node)]
    position, parts = (node.lineno, 0), []
    for cut in sorted(cuts):
        parts += [_between(docstring.file.lines, position, cut.start), cut.put]
        position = cut.end
    parts.append(_between(docstring.file.lines, position, _end(node)))
    indentation = docstring.file.lines[node.lineno - 1][: node.col_offset]
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
