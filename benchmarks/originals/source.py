"""Single functions and lines of the authors' programs, taken out of their files by name; the files stay as they are.

A file is read, not imported: what it imports may be gone, or may need what no machine has any more. Only what is named
is compiled, and it sees the names that it is given.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType
from typing import Any


class NotFound(Exception):
    """A program has no such function or lines: another commit than the one that the comparison was written for."""


def take(file: Path, names: Sequence[str], known: Mapping[str, Any]) -> list[Any]:
    """Functions, classes and methods (`Class.method`, unbound) of a file.

    Args:
        file: a Python file of a program.
        names: what to take; each sees the others, too.
        known: the names that they use, by what they stand for.

    Raises:
        NotFound: the file, or one of the names, is not there.
    """
    tree = _parsed(file)
    space = dict(known)
    found = [_definition(tree, name, file) for name in names]
    exec(compile(ast.Module(found, []), str(file), "exec"), space)
    return [space[name.rpartition(".")[2]] for name in names]


def lines(file: Path, first: str, last: str) -> CodeType:
    """The statements from one that begins like `first` to the next beside it that begins like `last`.

    Raises:
        NotFound: the file or such statements are not there.
    """
    for block in _blocks(_parsed(file)):
        written = [ast.unparse(statement) for statement in block]
        for start, text in enumerate(written):
            ends = [end for end in range(start, len(block)) if written[end].startswith(last)]
            if text.startswith(first) and ends:
                return compile(ast.Module(block[start : ends[0] + 1], []), str(file), "exec")
    raise NotFound(f"{file}: no lines from {first!r} to {last!r}")


def _parsed(file: Path) -> ast.Module:
    try:
        return ast.parse(file.read_text(encoding="utf-8"), str(file))
    except (OSError, SyntaxError) as error:
        raise NotFound(f"{file}: {error}") from None


def _definition(tree: ast.Module, name: str, file: Path) -> ast.stmt:
    body: Sequence[ast.stmt] = tree.body
    for part in name.split("."):
        kinds = (ast.FunctionDef, ast.ClassDef)
        chosen = [statement for statement in body if isinstance(statement, kinds) and statement.name == part]
        if not chosen:
            raise NotFound(f"{file}: no {name}")
        body = chosen[0].body
    return chosen[0]


def _blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        for field in ("body", "orelse"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                yield block
