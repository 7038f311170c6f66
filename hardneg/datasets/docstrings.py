"""The docstrings of installed packages, read from their source files; nothing is imported."""

import ast
import hashlib
import importlib.util
import sysconfig
import warnings
from collections import Counter
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from hardneg.formats.python_code import Definition, SourceFile, children
from hardneg.records.errors import MissingDependency, UsageError
from hardneg.store.digest import file_digest, tree_digest

_TESTS = frozenset({"test", "tests", "_test", "_tests", "testing", "_testing", "conftest.py"})
_DISTRIBUTIONS = {"sklearn": "scikit-learn", "PIL": "pillow", "yaml": "PyYAML"}


class Docstring(NamedTuple):
    """A docstring, the dotted name of what it describes, such as `numpy.ma.core.MaskedArray.mean`, and where that is.

    scope: the name of the nearest class around it, of itself where it is a class, else of its module.
    """

    name: str
    text: str
    scope: str
    node: Definition | ast.Module
    file: SourceFile


def find_package(package: str) -> Path:
    """The folder of an installed package, or the file of a single module.

    Raises:
        UsageError: a name with dots: finding it would import its parent.
        MissingDependency: the package is not installed, or has no Python source.
    """
    if not package.isidentifier():
        raise UsageError(f"package {package!r}: give the top-level name alone, such as numpy")
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        spec = None
    if spec is not None and spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    if spec is not None and (spec.origin or "").endswith(".py"):
        return Path(str(spec.origin))
    install = f"pip install {_DISTRIBUTIONS.get(package, package)}"
    raise MissingDependency(f"package {package!r} is not installed: {install}, or leave it out of `packages`")


def installed_packages() -> list[str]:
    """The names of the packages of this environment that have Python source; not of those installed as editable."""
    roots = [Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")]
    names = []
    for name in sorted(metadata.packages_distributions()):
        try:
            folder = find_package(name).parent
        except (UsageError, MissingDependency):  # not a name, or compiled
            continue
        if folder in roots:
            names.append(name)
    return names


def package_version(package: str) -> str:
    """What changes with the sources of a package: its version, or a digest of the files where it has none.

    Raises:
        UsageError, MissingDependency: as `find_package`.
    """
    try:
        return metadata.version(_DISTRIBUTIONS.get(package, package))
    except metadata.PackageNotFoundError:
        root = find_package(package)
        return file_digest(root) if root.is_file() else tree_digest(root, _source_files(root))


def _source_files(root: Path) -> list[str]:
    """The Python files of a package, relative to `root` with `/`, in an order that no file system changes."""
    found = (path.relative_to(root).as_posix() for path in root.rglob("*.py") if path.is_file())
    return ["."] if root.is_file() else sorted(found)


def read_docstrings(package: str, left_out: Counter[str], seen: set[bytes]) -> Iterator[Docstring]:
    """All docstrings of a package: modules, classes, functions and methods, but not those of its tests.

    Args:
        package: a top-level name.
        left_out: counts what is not read, by reason.
        seen: digests of the files read so far; a file with the same bytes as one of them is passed over.
    """
    root = find_package(package)
    for path in _source_files(root):
        parts = [] if path == "." else path.removesuffix(".py").split("/")
        module = ".".join([package, *(parts[:-1] if parts and parts[-1] == "__init__" else parts)])
        if not _TESTS.isdisjoint(path.split("/")):
            left_out["files of tests"] += 1
        elif not all(part.isidentifier() for part in module.split(".")):
            left_out["files that are not modules"] += 1
        else:
            source = (root / path).read_bytes()
            state = hashlib.blake2b(source, digest_size=16).digest()
            if state in seen and source.strip():
                left_out["copies of another file"] += 1
                continue
            seen.add(state)
            yield from _parsed(module, source, left_out)


def _parsed(module: str, source: bytes, left_out: Counter[str]) -> Iterator[Docstring]:
    if b'"""' not in source and b"'''" not in source:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        left_out["files that do not parse"] += 1
        return
    file, names = SourceFile(source), set[str]()
    waiting: list[tuple[ast.AST, str, str]] = [(tree, module, module)]
    while waiting:
        node, name, scope = waiting.pop()
        if isinstance(node, Definition | ast.Module):
            name = f"{name}.{node.name}" if not isinstance(node, ast.Module) else name
            scope = name if isinstance(node, ast.ClassDef) else scope
            text = ast.get_docstring(node)
            if text and name in names:
                left_out["further docstrings of one name"] += 1
            elif text:
                names.add(name)
                yield Docstring(name, text, scope, node, file)
        waiting.extend((child, name, scope) for child in reversed(children(node)))
