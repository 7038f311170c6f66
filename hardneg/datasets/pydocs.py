"""The dataset `pydocs`, available on every machine: docstring summaries of installed packages as queries."""

import ast
import hashlib
import re
import sys
import sysconfig
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata, util
from itertools import accumulate
from pathlib import Path
from typing import ClassVar, NamedTuple

from hardneg import runtime, store
from hardneg.records import Document, Judgement, MissingDependency, Query, UsageError

_BLOCKS = ("body", "handlers", "cases", "orelse", "finalbody")
_PARAGRAPH = re.compile(r"\n[ \t]*\n")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`'\"(])")
_UNDERLINE = re.compile(r"^[-=~^*]{3,}$", re.MULTILINE)
_SIGNATURE = re.compile(r"^[\w.]+ ?\(.*\)( ?->.*)?$|->")
_TESTS = frozenset({"test", "tests", "_test", "_tests", "testing", "_testing", "conftest.py"})
_DISTRIBUTIONS = {"sklearn": "scikit-learn", "PIL": "pillow", "yaml": "PyYAML"}

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class SourceFile:
    """The bytes of a Python file, addressed by line and column as in the nodes of `ast`."""

    content: bytes

    @cached_property
    def lines(self) -> list[bytes]:
        """UTF-8 lines without line endings; a node's `lineno` counts lines from 1, and `col_offset` counts bytes."""
        return [line.encode() for line in util.decode_source(self.content).split("\n")]

    @cached_property
    def text(self) -> bytes:
        """The UTF-8 source with line feeds as line endings."""
        return b"\n".join(self.lines)

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *accumulate(len(line) + 1 for line in self.lines)]

    def at(self, line: int, column: int) -> int:
        """Return the byte offset in `text` of a position: the line, from 1, and the column in bytes."""
        return self._starts[line - 1] + column

    def end(self, node: ast.stmt) -> int:
        """Return the byte offset in `text` at which a node ends."""
        return self.at(node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)


def parsed(source: str | bytes) -> ast.Module | SyntaxError:
    """Parse a module's source; return the syntax tree, or any exception of the parser as a SyntaxError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except SyntaxError as error:
        return error
    except (ValueError, RecursionError, MemoryError) as error:
        return SyntaxError(type(error).__name__)


def first_sentence(docstring: str) -> str:
    """Return the first sentence of a docstring, verbatim."""
    return _SENTENCE.split(_PARAGRAPH.split(docstring.strip(), maxsplit=1)[0], maxsplit=1)[0]


def definitions(tree: ast.Module) -> Iterator[tuple[str, Definition]]:
    """Yield the dotted name and node of each function or class that is outermost or documented, in source order."""
    waiting: list[tuple[ast.AST, str]] = [(tree, "")]
    while waiting:
        node, name = waiting.pop()
        if isinstance(node, Definition):
            within, name = bool(name), f"{name}.{node.name}".lstrip(".")
            if not within or ast.get_docstring(node):
                yield name, node
        waiting.extend((child, name) for child in reversed(_children(node)))


def _children(node: ast.AST) -> list[ast.AST]:
    """The statements, handlers and cases within a node, in source order."""
    return [child for block in _BLOCKS for child in getattr(node, block, ())]


def code_of(node: Definition, file: SourceFile, docstring: bool = False) -> str:
    """Return a definition's source code, from `def` or `class` on. docstring: whether to keep the docstring.

    The bodies of nested definitions with docstrings become `...`, so that no passage contains the body or docstring
    of another. Decorators, empty lines and common indentation are removed.
    """
    own, position, parts = node.body[0], file.at(node.lineno, 0), []
    inner, waiting = list[Definition](), _children(node)
    while waiting:
        child = waiting.pop()
        if isinstance(child, Definition) and ast.get_docstring(child, clean=False):
            inner.append(child)
        else:
            waiting += _children(child)
    cuts = [(file.at(each.body[0].lineno, each.body[0].col_offset), file.end(each), b"...") for each in inner]
    if not docstring:
        cuts.append((file.at(own.lineno, own.col_offset), file.end(own), b""))
    for start, end, put in sorted(cuts):
        parts += [file.text[position:start], put]
        position = end
    parts.append(file.text[position : file.end(node)])
    indentation = file.lines[node.lineno - 1][: node.col_offset]
    lines = (line.removeprefix(indentation).rstrip() for line in b"".join(parts).split(b"\n"))
    return b"\n".join(line for line in lines if line).decode()


class Docstring(NamedTuple):
    """A docstring with the dotted name of its object, such as `numpy.ma.core.MaskedArray.mean`, and its location.

    scope: the name of the enclosing class (a class is its own scope), or of the module if there is no class.
    """

    name: str
    text: str
    scope: str
    node: Definition | ast.Module
    file: SourceFile


def find_package(package: str) -> Path:
    """Return the folder of an installed package, or the file if it is a single module.

    Raises:
        UsageError: the name is dotted; finding that package would import its parent.
        MissingDependency: the package is not installed, or has no Python source.
    """
    if not package.isidentifier():
        raise UsageError(f"package {package!r}: use only the top-level name, such as numpy")
    try:
        spec = util.find_spec(package)
    except (ImportError, ValueError):
        spec = None
    if spec is not None and spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    if spec is not None and (spec.origin or "").endswith(".py"):
        return Path(str(spec.origin))
    install = f"pip install {_DISTRIBUTIONS.get(package, package)}"
    raise MissingDependency(f"package {package!r} is not installed; run `{install}`, or remove it from `packages`")


def installed_packages() -> list[str]:
    """Return the names of this environment's packages with Python source, except editable installs."""
    roots = [Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")]
    names = []
    for name in sorted(metadata.packages_distributions()):
        try:
            folder = find_package(name).parent
        except (UsageError, MissingDependency):  # no identifier, or compiled
            continue
        if folder in roots:
            names.append(name)
    return names


def package_version(package: str) -> str:
    """Return the version of a package, or a digest of its files if it has none.

    Raises the errors of `find_package`.
    """
    try:
        return metadata.version(_DISTRIBUTIONS.get(package, package))
    except metadata.PackageNotFoundError:
        root = find_package(package)
        return store.file_digest(root) if root.is_file() else store.tree_digest(root, _source_files(root))


def _source_files(root: Path) -> list[str]:
    """The Python files of a package, relative to `root` with `/`, sorted."""
    found = (path.relative_to(root).as_posix() for path in root.rglob("*.py") if path.is_file())
    return ["."] if root.is_file() else sorted(found)


def read_docstrings(package: str, left_out: Counter[str], seen: set[bytes]) -> Iterator[Docstring]:
    """Yield all docstrings of a package's modules, classes, functions and methods, except in test files.

    Args:
        package: the top-level name of a package.
        left_out: a counter of skipped items by reason, updated here.
        seen: digests of the files read so far, updated here; copies of these files are skipped.
    """
    root = find_package(package)
    for path in _source_files(root):
        parts = [] if path == "." else path.removesuffix(".py").split("/")
        module = ".".join([package, *(parts[:-1] if parts and parts[-1] == "__init__" else parts)])
        if not _TESTS.isdisjoint(path.split("/")):
            left_out["test files"] += 1
        elif not all(part.isidentifier() for part in module.split(".")):
            left_out["files that are not modules"] += 1
        else:
            source = (root / path).read_bytes()
            state = hashlib.blake2b(source, digest_size=16).digest()
            if state in seen and source.strip():
                left_out["copies of another file"] += 1
                continue
            seen.add(state)
            yield from _docstrings(module, source, left_out)


def _docstrings(module: str, source: bytes, left_out: Counter[str]) -> Iterator[Docstring]:
    if b'"""' not in source and b"'''" not in source:
        return
    if isinstance(tree := parsed(source), SyntaxError):
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
                left_out["docstrings with a duplicate name"] += 1
            elif text:
                names.add(name)
                yield Docstring(name, text, scope, node, file)
        waiting.extend((child, name, scope) for child in reversed(_children(node)))


class SplitShares(NamedTuple):
    """The shares of queries for development and testing; the rest are for training."""

    dev: float
    test: float
    seed: int

    @property
    def by_split(self) -> dict[str, float]:
        """The share of queries in each split, by split name."""
        return {"train": 1 - self.dev - self.test, "dev": self.dev, "test": self.test}

    def split(self, item_id: str) -> str:
        """Return the split of an id, drawn with the seed; a larger test share only adds ids to `test`."""
        share = runtime.derive_seed(self.seed, "split", item_id) / 2**64
        if share < self.test:
            return "test"
        return "dev" if share < self.test + self.dev else "train"


class Entry(NamedTuple):
    """A docstring's summary, which is the query, and its passage; all queries of a group are in the same split."""

    doc_id: str
    query: str
    passage: str
    group: str


@dataclass(frozen=True)
class PyDocs:
    """A retrieval task on installed packages, without a download: find the docstring that a summary belongs to.

    A docstring's first paragraph is the query, and the rest is its passage, with relevance 1. Passages with equal
    summaries are all relevant to one query. Near-duplicates (`numpy.mean`, `DataFrame.mean`) stay: they are the hard
    negatives. Source files are parsed, never imported.

    Args:
        packages: top-level names of installed packages; `*` means all installed packages except editable ones.
        max_passages: the cap on passages; the sample depends only on ids and seed, and a higher cap only adds passages.
        min_passage_words: the minimum number of words in a passage; shorter passages are left out.
        query_words: the minimum and maximum number of words in a query.
        seed: the random seed for the sample and the splits.
        dev_share: the share of queries for development.
        test_share: the share of queries for testing; the rest are for training.
    """

    packages: tuple[str, ...] = ("numpy", "scipy", "pandas", "sklearn", "matplotlib", "networkx")
    max_passages: int = 6000
    min_passage_words: int = 20
    query_words: tuple[int, int] = (3, 40)
    seed: int = runtime.FIXED
    dev_share: float = 0.055
    test_share: float = 0.12
    name: ClassVar[str] = "pydocs"
    version: ClassVar[int] = 1
    later: ClassVar[frozenset[str]] = frozenset({"dev_share", "test_share"})

    def load(self) -> "PyDocsCollection":
        """Read the collection from the sources into memory, which takes a few seconds.

        Raises:
            MissingDependency: a package is not installed.
            UsageError: no package is given, a name is dotted, the cap is below 1, or the shares leave a split empty.
        """
        return PyDocsCollection(*self._parts())

    def fingerprint(self) -> str:
        """Return a digest of the packages' versions (or their sources), the options and Python's version."""
        versions = [[package, package_version(package)] for package in self._names]
        options = store.options_in_key(self)
        return store.digest([self.name, self.version, options, versions, list(sys.version_info[:2])])

    def size_hint(self) -> int:
        """Return the maximum number of passages, which the default packages reach."""
        return self.max_passages

    def query_hint(self) -> Mapping[str, int]:
        """Estimate the number of queries of each split as its share of `max_passages`."""
        return {split: round(share * self.max_passages) for split, share in self._shares.by_split.items()}

    @property
    def _names(self) -> list[str]:
        chosen = set(self.packages)
        return sorted(chosen.difference("*").union(installed_packages()) if "*" in chosen else chosen)

    @property
    def _shares(self) -> SplitShares:
        return SplitShares(self.dev_share, self.test_share, self.seed)

    def _parts(self) -> tuple[list[Document], dict[str, list[tuple[Query, list[str]]]], dict[str, int], dict[str, str]]:
        """Passages by id, queries with the ids of their passages by split, counts of what is left out, and groups."""
        if not self.packages or self.max_passages < 1:
            raise UsageError(f"{self.name}: packages must not be empty, and max_passages must be at least 1")
        if min(self._shares.by_split.values()) <= 0:
            raise UsageError(f"{self.name}: dev_share and test_share must be above 0, with a sum below 1")
        left_out: Counter[str] = Counter()
        entries = list(self._entries(left_out))
        sample = self._sample(entries)
        left_out[f"passages above the cap of {self.max_passages}"] = len(entries) - len(sample)
        same: defaultdict[str, list[Entry]] = defaultdict(list)
        for entry in self._clear(entries, sample, left_out):
            same[text_key(entry.query)].append(entry)
        by_split: dict[str, list[tuple[Query, list[str]]]] = {split: [] for split in self._shares.by_split}
        for first, *others in sorted(same.values(), key=lambda alike: alike[0].doc_id):
            doc_ids = sorted([first.doc_id, *(entry.doc_id for entry in others)])
            by_split[self._shares.split(first.group)].append((Query(first.doc_id, first.query), doc_ids))
        passages = sorted(Document(entry.doc_id, entry.passage) for entry in sample)
        return passages, by_split, dict(left_out), {entry.doc_id: entry.group for entry in sample}

    def _entries(self, left_out: Counter[str]) -> Iterator[Entry]:
        files: set[bytes] = set()
        known: set[tuple[str, str]] = set()
        short = f"docstrings with fewer than {self.min_passage_words} words after the first paragraph"
        for package in self._names:
            for docstring in read_docstrings(package, left_out, files):
                first, *rest = re.split(r"\n[ \t]*\n", docstring.text.strip(), maxsplit=1)
                query, passage = " ".join(first.split()), " ".join("".join(rest).split())
                reason = self._unfit("paragraph", first, passage, short)
                if not reason and (text_key(query), passage) in known:
                    reason = "duplicate docstrings"
                if reason:
                    left_out[reason] += 1
                else:
                    known.add((text_key(query), passage))
                    yield Entry(docstring.name, query, passage, docstring.name)

    def _unfit(self, part: str, source: str, passage: str, short: str) -> str | None:
        """The reason why the first `part` of a docstring cannot be the query of a passage; None if it can."""
        query, (least, most) = " ".join(source.split()), self.query_words
        if len(passage.split()) < self.min_passage_words:
            return short
        if not least <= len(query.split()) <= most:
            return f"docstrings whose first {part} is not {least} to {most} words long"
        if source.startswith("..") or _UNDERLINE.search(source) or _SIGNATURE.search(query):
            return "docstrings that start with a heading, a directive or a signature"
        if text_key(query) in " ".join(passage.split()).casefold():
            return f"docstrings that repeat their first {part}"
        return None

    def _sample(self, entries: list[Entry]) -> list[Entry]:
        return sorted(entries, key=lambda entry: self._drawn(entry.doc_id))[: self.max_passages]

    def _drawn(self, name: str) -> int:
        return runtime.derive_seed(self.seed, "sample", name)

    def _clear(self, entries: list[Entry], sample: list[Entry], left_out: Counter[str]) -> list[Entry]:
        """The entries whose summaries can be queries."""
        return sample


@dataclass(frozen=True)
class PyDocsCollection:
    """A collection in memory: passages ordered by id, and each split's queries and judgements ordered by query id."""

    passages: Sequence[Document]
    by_split: dict[str, list[tuple[Query, list[str]]]]
    left_out: dict[str, int]
    group_of: Mapping[str, str]

    def documents(self) -> Iterator[Document]:
        """Yield the passages, without titles, since an object's name would give the query away."""
        return iter(self.passages)

    def splits(self) -> Sequence[str]:
        """Return the names of the splits: `train`, `dev` and `test`."""
        return list(self.by_split)

    def queries(self, split: str) -> Iterator[Query]:
        """Yield a split's summaries; the id of a query is the name of one object that the summary describes."""
        return (query for query, _ in self.by_split[split])

    def qrels(self, split: str) -> Iterator[Judgement]:
        """Yield a judgement with relevance 1 for each query of a split and each passage that it summarises."""
        return (Judgement(query.query_id, doc_id, 1) for query, doc_ids in self.by_split[split] for doc_id in doc_ids)

    def notes(self) -> Sequence[str]:
        """Return one note per reason, with the number of files, docstrings or passages that were left out."""
        return [f"left out: {count} {reason}" for reason, count in sorted(self.left_out.items()) if count]


def text_key(text: str) -> str:
    """Return a key that equal queries share: the case-folded text without final spaces, full stops and colons."""
    return text.casefold().rstrip(" .:")
