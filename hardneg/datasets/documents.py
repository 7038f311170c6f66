"""A folder of documents: text, Markdown, HTML, JSON Lines, CSV, PDF, Python, cut into passages; without queries."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, NamedTuple
from urllib.parse import quote

from hardneg.datasets.document_files import FORMS, ROWS, USUAL_FORMS, Block, Text, read_file, reader_of
from hardneg.formats.source_files import Part
from hardneg.formats.text_lines import no_folder
from hardneg.formats.texts import sentences, word_spans
from hardneg.records import Document, Judgement, Membership, Query, Side, counted, suggestion
from hardneg.records.errors import DataError, MissingDependency, UsageError
from hardneg.store import digest, tree_digest

_NOT_IN_IDS = re.compile(r"[\s%:\x00-\x1f\x7f-\x9f\ufeff]")
_UNDECODED = re.compile("[\ud800-\udfff]")
_BYTES_A_WORD = 7
_SHOWN = 20


class Passage(NamedTuple):
    """A piece of a document: the line where it begins, its headings in one line, and its text."""

    line: int
    title: str
    text: str


class _Piece(NamedTuple):
    """A sentence, or a part of a long one; `first`: it begins a paragraph. words: how many it has."""

    line: int
    text: str
    first: bool
    words: int


def _words(pieces: Iterable[_Piece]) -> int:
    return sum(piece.words for piece in pieces)


@dataclass(frozen=True)
class Cutting:
    """How documents are cut: the most words of a passage, the fewest, and those that two neighbours share at most.

    Words are those of `word_spans`; a section with fewer than `least` is joined with the next one.
    """

    most: int
    least: int
    overlap: int

    def passages(self, text: Text) -> Iterator[Passage]:
        """The passages of a document in their order, each within one section, and near `most` words long."""
        if text.whole:
            yield from (Passage(block.line, text.title, block.text) for block in text.blocks)
            return
        for title, pieces in self._sections(text):
            for first, *others in self._packed(pieces):
                joined = first.text + "".join(("\n\n" if each.first else " ") + each.text for each in others)
                yield Passage(first.line, title, joined)

    def _sections(self, text: Text) -> Iterator[tuple[str, list[_Piece]]]:
        """What stands under each heading, with the headings above it; short sections go with the next one's text."""
        sections: list[tuple[str, list[_Piece], list[_Piece]]] = []  # titles, pieces of the heading, and of the text
        path: list[tuple[int, str]] = []
        for block in text.blocks:
            if block.level:
                path = [*((level, words) for level, words in path if level < block.level), (block.level, block.text)]
            title = ": ".join([text.title] * bool(text.title) + [words for _, words in path])
            pieces = list(self._pieces(block))
            if block.level and (not sections or not sections[-1][2] or _words(sections[-1][2]) >= self.least):
                sections.append((title, pieces, []))
                continue
            if not sections:
                sections.append((title, [], []))
            sections[-1][2].extend(pieces)  # of a heading too, where the section before is short: its title stays
        kept = [section for section in sections if section[2]]
        if len(kept) > 1 and _words(kept[-1][2]) < self.least:
            _, heading, rest = kept.pop()
            kept[-1][2].extend(heading + rest)
        yield from ((title, pieces) for title, _, pieces in kept)

    def _pieces(self, block: Block) -> Iterator[_Piece]:
        line, counted, end = block.line, 0, 0
        for number, sentence in enumerate(sentences(block.text)):
            at = block.text.index(sentence, end)
            end, words = at + len(sentence), word_spans(sentence)
            for begin in range(0, len(words), self.most):
                part = words[begin : begin + self.most]
                start, stop = at + part[0][0], at + part[-1][1]
                line, counted = line + block.lines * block.text.count("\n", counted, start), start
                text = sentence if len(words) <= self.most else " ".join(block.text[start:stop].split())
                yield _Piece(line, text, not number and not begin, len(part))

    def _packed(self, pieces: Sequence[_Piece]) -> Iterator[list[_Piece]]:
        """Pieces in runs of at most `most` words; a last run that is short goes with the one before."""
        runs: list[list[_Piece]] = [[]]
        shared: list[_Piece] = []
        for piece in pieces:
            if runs[-1] and _words(runs[-1]) + piece.words > self.most:
                shared = []  # the last pieces of a passage that the next one begins with
                for each in reversed(runs[-1]):
                    words = _words(shared) + each.words
                    if words > self.overlap or words + piece.words > self.most:
                        break
                    shared.insert(0, each)
                runs.append([*shared])
            runs[-1].append(piece)
        if len(runs) > 1 and _words(runs[-1]) < self.least:
            last = runs.pop()
            runs[-1] += last[len(shared) :]
        yield from runs


@dataclass(frozen=True)
class Documents:
    """A folder of documents, cut into passages by headings and sentences. It has no queries.

    A passage's id is `FILE:LINE`, where it begins (in a PDF the page); its title is the headings above it. All passages
    of a file are one group; in JSON Lines and CSV each row is a document of its own, with `text` and maybe `title`.

    Args:
        source: the folder.
        glob: which files are read, such as `guide/**/*.md`; hidden ones are not.
        forms: only these, such as `[md, html]`; by default all of txt, md, html, jsonl, csv, pdf. `py` is read where it
            is named: each function and class is a passage, as it is.
        words: how long a passage gets, in words: what white space separates, 1.3 to 1.5 tokens of most models; every
            two characters of a script without blanks, such as Chinese, Japanese or Thai.
        min_words: a section, or the last passage of one, that has fewer is joined with its neighbour in the file.
        overlap: so many words at most end a passage and begin the next one too, in whole sentences.
        without: names of files that are not read, such as those of queries.
    """

    source: str
    glob: str = "**/*"
    forms: tuple[str, ...] = ()
    words: int = 150
    min_words: int = 20
    overlap: int = 0
    without: tuple[str, ...] = ()
    version: ClassVar[int] = 4
    later: ClassVar[frozenset[str]] = frozenset({"without"})

    def load(self) -> "DocumentFolder":
        """The folder, opened for streaming.

        Raises:
            UsageError: unknown forms, or sizes that do not go together; all in one line.
            DataError: there is no such folder, or no file in it that is read.
            MissingDependency: `forms` has pdf, and pypdf is not installed.
        """
        suffixes = self._suffixes()
        if not self.source:
            raise DataError("documents needs a folder: documents:FOLDER")
        folder = Path(self.source).expanduser()
        if not folder.is_dir():
            raise no_folder(folder)
        files, links, left_out = list[Path](), list[Path](), Counter[str]()
        for path in self._paths(folder):
            leads_out = path.is_symlink() and not path.resolve().is_relative_to(folder.resolve())
            if leads_out or not path.is_file():
                links += [path] if path.is_symlink() else []
            elif path.suffix.lower() in suffixes:
                files.append(path)
            else:
                left_out[path.suffix.lower() or "without a suffix"] += 1
        if not files:
            others = f"; there are {_listed(left_out)}" if left_out else ""
            wanted = ", ".join(sorted(suffix[1:] for suffix in suffixes))
            raise DataError(f"{folder}: no file to read: none of {wanted} among {self.glob}{others}")
        return DocumentFolder(folder, files, Cutting(self.words, self.min_words, self.overlap), left_out, links)

    def _paths(self, folder: Path) -> list[Path]:
        """What `glob` names in a folder, in order, but for what is hidden. Raises UsageError, DataError."""
        try:
            paths = sorted(folder.glob(self.glob))
        except (ValueError, NotImplementedError) as error:
            raise UsageError(f"documents: glob: {error}; give one within the folder, as `guide/**/*.md`") from error
        names = [(path, path.relative_to(folder)) for path in paths if path.name not in self.without]
        seen = [(path, name) for path, name in names if not any(part.startswith(".") for part in name.parts)]
        if bad := [os.fsencode(name) for _, name in seen if _UNDECODED.search(str(name))]:
            raise DataError(f"{folder}: {bad[0]!r}: a name that is not UTF-8; rename it, or leave it out by `glob`")
        return [path for path, _ in seen]

    def fingerprint(self) -> str:
        """A digest of the names and bytes of the files that are read, and of the libraries that read them."""
        opened = self.load()
        names = [path.relative_to(opened.folder).as_posix() for path in opened.files]
        readers = sorted({reader_of(path) for path in opened.files} - {*FORMS})
        return digest(["documents", self.version, tree_digest(opened.folder, names), *readers])

    def size_hint(self) -> int:
        """About how many passages there are, from the sizes of the files."""
        total = sum(path.stat().st_size for path in self.load().files)
        return max(1, total // (_BYTES_A_WORD * self.words))

    def _suffixes(self) -> frozenset[str]:
        """Those of the forms that are read. Raises UsageError, MissingDependency."""
        chosen, known = [form.lstrip(".").lower() for form in self.forms], [suffix[1:] for suffix in FORMS]
        unknown = [f"no form {form!r}{suggestion(form, known)}" for form in chosen if form not in known]
        problems = [f"forms: {form}; there are: {', '.join(known)}" for form in unknown]
        if self.words < 1 or not 0 <= self.min_words <= self.words:
            problems.append("words and min_words: give 1 or more words, and a min_words of 0 to that many")
        if not 0 <= self.overlap < max(1, self.words):
            problems.append("overlap: give 0 or more words, and fewer than `words`")
        if problems:
            raise UsageError(f"documents: {'; '.join(problems)}")
        pdf = find_spec("pypdf") is not None
        if "pdf" in chosen and not pdf:
            raise MissingDependency('documents: PDF files need pypdf: pip install "hardneg[pdf]"')
        return frozenset(f".{form}" for form in chosen) or (USUAL_FORMS if pdf else USUAL_FORMS - {".pdf"})


@dataclass(frozen=True)
class DocumentFolder:
    """The passages of the files of a folder, in the order of their names.

    left_out: how many files are not read, by suffix. links: those that are not followed.
    """

    folder: Path
    files: Sequence[Path]
    cutting: Cutting
    left_out: Mapping[str, int]
    links: Sequence[Path] = ()
    _empty: set[Path] = field(default_factory=set)
    _members: dict[Path, list[Membership]] = field(default_factory=dict)

    def documents(self) -> Iterator[Document]:
        """The passages.

        Raises:
            DataError: files or rows that cannot be read, after all of them were tried; a line for each of the first.
        """
        errors: list[DataError] = []
        for part in self.parts():
            for _, record in part.read():
                if isinstance(record, DataError):
                    errors.append(record)
                elif isinstance(record, Document) and not errors:
                    yield record
        if len(errors) == 1:
            raise errors[0]
        if errors:
            lines = "\n".join(f"  {error}" for error in errors[:_SHOWN])
            more = f"\n  and {len(errors) - _SHOWN} more: `hardneg data check` shows all" if errors[_SHOWN:] else ""
            raise DataError(f"{self.folder}: {counted(len(errors), 'problem')}\n{lines}{more}")

    def splits(self) -> Sequence[str]:
        """None: documents have no queries."""
        return ()

    def queries(self, split: str) -> Iterator[Query]:
        """None."""
        return iter(())

    def qrels(self, split: str) -> Iterator[Judgement]:
        """None."""
        return iter(())

    def groups(self, side: Side) -> Iterator[Membership]:
        """The document of each passage: its file, or its row as `FILE:LINE`."""
        for path in self.files if side == "document" else ():
            if path in self._members:
                yield from self._members[path]
                continue
            for _, group, passage in self._passages(path):
                if isinstance(passage, Document):
                    yield Membership(passage.doc_id, group)

    def notes(self) -> Sequence[str]:
        """Files that are not read, by suffix, links that are not followed, and files without text."""
        notes = [f"left out: {_listed(self.left_out)}, of no form that is read"] if self.left_out else []
        if self.links:
            which = f"{counted(len(self.links), 'link')} to no file of the folder, such as {self.links[0].name}"
            notes.append(f"left out: {which}")
        if self.left_out.get(".pdf") and find_spec("pypdf") is None:
            notes.append('PDF files are read with pypdf: pip install "hardneg[pdf]"')
        if self._empty:
            notes.append(f"left out: {counted(len(self._empty), 'file')} without text, such as {min(self._empty).name}")
        return notes

    def parts(self) -> Iterator[Part]:
        """The files."""
        for path in self.files:
            yield Part(str(path), lambda path=path: ((line, record) for line, _, record in self._passages(path)))  # type: ignore[misc]

    def _passages(self, path: Path) -> Iterator[tuple[int, str, Document | DataError]]:
        """Each passage of a file with its line and the name of its document, or what cannot be read."""
        name = _NOT_IN_IDS.sub(lambda match: quote(match[0], safe=""), path.relative_to(self.folder).as_posix())
        begun, members, empty = Counter[int](), list[Membership](), True
        for number, text in read_file(path):
            if isinstance(text, DataError):
                empty = False
                yield number, name, text
                continue
            for line, title, words in self.cutting.passages(text):
                empty = False
                begun[line] += 1
                doc_id = f"{name}:{line}.{begun[line]}" if begun[line] > 1 else f"{name}:{line}"
                group = f"{name}:{text.row}" if text.row else name
                members += [] if text.row else [Membership(doc_id, group)]
                yield line, group, Document(doc_id, words, title)
        if path.suffix.lower() not in ROWS:
            self._members[path] = members  # so that a file that is one document is parsed once
        if empty:
            self._empty.add(path)


def _listed(suffixes: Mapping[str, int]) -> str:
    return ", ".join(f"{counted(count, 'file')} {suffix}" for suffix, count in sorted(suffixes.items()))
