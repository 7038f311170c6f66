"""A folder of documents (text, Markdown, HTML, JSON Lines, CSV, PDF, Python), cut into passages; it has no queries."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, NamedTuple
from urllib.parse import quote

from hardneg import records, store
from hardneg.datasets.document_files import FORMS, ROWS, USUAL_FORMS, Block, Text, read_file, reader_of
from hardneg.formats import source_files, text_lines, texts
from hardneg.records import DataError, Document, Judgement, Membership, Query, Side, UsageError, counted

_NOT_IN_IDS = re.compile(r"[\s%:\x00-\x1f\x7f-\x9f\ufeff]")
_UNDECODED = re.compile("[\ud800-\udfff]")
_BYTES_A_WORD = 7
_SHOWN = 20


class Passage(NamedTuple):
    """A piece of a document: the number of its first line, the headings above it joined in one line, and its text."""

    line: int
    title: str
    text: str


class _Piece(NamedTuple):
    """A sentence, or a part of a long one. first: whether it starts a paragraph. words: its number of words."""

    line: int
    text: str
    first: bool
    words: int


def _words(pieces: Iterable[_Piece]) -> int:
    return sum(piece.words for piece in pieces)


@dataclass(frozen=True)
class Cutting:
    """Limits for passages, in words: `least` and `most` per passage, and up to `overlap` shared with the next one.

    Words are counted as in `word_spans`. A section with fewer than `least` words is joined with the next one.
    """

    most: int
    least: int
    overlap: int

    def passages(self, text: Text) -> Iterator[Passage]:
        """Yield the passages of a document, in order, cut at headings and sentences to about `most` words or fewer."""
        if text.whole:
            yield from (Passage(block.line, text.title, block.text) for block in text.blocks)
            return
        for title, pieces in self._sections(text):
            for first, *others in self._packed(pieces):
                joined = first.text + "".join(("\n\n" if each.first else " ") + each.text for each in others)
                yield Passage(first.line, title, joined)

    def _sections(self, text: Text) -> Iterator[tuple[str, list[_Piece]]]:
        """The text of each section with its path of headings; short sections are joined with the next one."""
        sections: list[tuple[str, list[_Piece], list[_Piece]]] = []  # title, pieces of the heading and of the text
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
            sections[-1][2].extend(pieces)  # the heading too, if the section before is short and keeps its title
        filled = [section for section in sections if section[2]]
        if len(filled) > 1 and _words(filled[-1][2]) < self.least:
            _, heading, rest = filled.pop()
            filled[-1][2].extend(heading + rest)
        yield from ((title, pieces) for title, _, pieces in filled)

    def _pieces(self, block: Block) -> Iterator[_Piece]:
        line, counted, end = block.line, 0, 0
        for number, sentence in enumerate(texts.sentences(block.text)):
            at = block.text.index(sentence, end)
            end, words = at + len(sentence), texts.word_spans(sentence)
            for begin in range(0, len(words), self.most):
                part = words[begin : begin + self.most]
                start, stop = at + part[0][0], at + part[-1][1]
                line, counted = line + block.lines * block.text.count("\n", counted, start), start
                text = sentence if len(words) <= self.most else " ".join(block.text[start:stop].split())
                yield _Piece(line, text, not number and not begin, len(part))

    def _packed(self, pieces: Sequence[_Piece]) -> Iterator[list[_Piece]]:
        """Group pieces into runs of at most `most` words; a short last run is joined with the previous one."""
        runs: list[list[_Piece]] = [[]]
        shared: list[_Piece] = []
        for piece in pieces:
            if runs[-1] and _words(runs[-1]) + piece.words > self.most:
                shared = []  # the last pieces of a passage, repeated in the next one
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

    A passage's id is `FILE:LINE` of its start (in a PDF, the page); its title consists of the headings above it. All
    passages of a file form one group. In JSON Lines and CSV, a row is a document with `text` and optionally `title`.

    Args:
        source: the folder to read.
        glob: the pattern of files to read, such as `guide/**/*.md`; hidden files are ignored.
        forms: suffixes to read, such as `[md, html]`; by default txt, md, html, jsonl, csv and pdf. `py` must be
            listed explicitly; each function and class is then one passage.
        words: the maximum passage length in words separated by white space (1.3 to 1.5 tokens each in most models); in
            scripts without spaces, such as Chinese, Japanese or Thai, every two characters are a word.
        min_words: the minimum length in words; a shorter section or last passage is joined with a neighbouring one.
        overlap: the maximum number of words, in whole sentences, that a passage shares with the next one.
        without: names of files to skip, such as files of queries.
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
        """Open the folder for streaming.

        Raises:
            UsageError: forms are unknown or sizes invalid (the message lists all problems), or the glob is invalid.
            DataError: the folder does not exist or has no file to read, or a file name is not UTF-8.
            MissingDependency: `forms` includes pdf, but pypdf is not installed.
        """
        suffixes = self._suffixes()
        if not self.source:
            raise DataError("documents needs a folder, as in documents:FOLDER")
        folder = Path(self.source).expanduser()
        if not folder.is_dir():
            raise text_lines.no_folder(folder)
        files, links, left_out = list[Path](), list[Path](), Counter[str]()
        for path in self._paths(folder):
            leads_out = path.is_symlink() and not path.resolve().is_relative_to(folder.resolve())
            if leads_out or not path.is_file():
                links += [path] if path.is_symlink() else []
            elif path.suffix.lower() in suffixes:
                files.append(path)
            else:
                left_out[path.suffix.lower() or "suffixless"] += 1
        if not files:
            others = f", only {_suffix_counts(left_out)}" if left_out else ""
            wanted = ", ".join(sorted(suffix[1:] for suffix in suffixes))
            raise DataError(f"{folder}: no files to read; {self.glob} matches no {wanted} files{others}")
        return DocumentFolder(folder, files, Cutting(self.words, self.min_words, self.overlap), left_out, links)

    def _paths(self, folder: Path) -> list[Path]:
        """Return the sorted files in a folder that match `glob`, except hidden files. Raises UsageError, DataError."""
        try:
            paths = sorted(folder.glob(self.glob))
        except (ValueError, NotImplementedError) as error:
            advice = "use a pattern within the folder, such as `guide/**/*.md`"
            raise UsageError(f"documents: invalid glob ({error}); {advice}") from error
        names = [(path, path.relative_to(folder)) for path in paths if path.name not in self.without]
        seen = [(path, name) for path, name in names if not any(part.startswith(".") for part in name.parts)]
        if bad := [str(name).encode(errors="surrogateescape") for _, name in seen if _UNDECODED.search(str(name))]:
            raise DataError(f"{folder}: file name {bad[0]!r} is not UTF-8; rename it, or exclude it with `glob`")
        return [path for path, _ in seen]

    def fingerprint(self) -> str:
        """Return a digest of the names and bytes of the files, and of the versions of the libraries that read them."""
        opened = self.load()
        names = [path.relative_to(opened.folder).as_posix() for path in opened.files]
        readers = sorted({reader_of(path) for path in opened.files} - {*FORMS})
        return store.digest(["documents", self.version, store.tree_digest(opened.folder, names), *readers])

    def size_hint(self) -> int:
        """Estimate the number of passages from the sizes of the files."""
        total = sum(path.stat().st_size for path in self.load().files)
        return max(1, total // (_BYTES_A_WORD * self.words))

    def _suffixes(self) -> frozenset[str]:
        """The suffixes to read. Raises UsageError, MissingDependency."""
        chosen, known = [form.lstrip(".").lower() for form in self.forms], [suffix[1:] for suffix in FORMS]
        unknown = [f"unknown form {form!r}{records.suggestion(form, known)}" for form in chosen if form not in known]
        problems = [f"{form}; available: {', '.join(known)}" for form in unknown]
        if self.words < 1 or not 0 <= self.min_words <= self.words:
            problems.append("words must be at least 1, and min_words between 0 and words")
        if not 0 <= self.overlap < max(1, self.words):
            problems.append("overlap must be at least 0 and less than words")
        if problems:
            raise UsageError(f"documents: {'; '.join(problems)}")
        pdf = find_spec("pypdf") is not None
        if "pdf" in chosen and not pdf:
            raise records.MissingDependency('documents: PDF files need pypdf: pip install "hardneg[pdf]"')
        return frozenset(f".{form}" for form in chosen) or (USUAL_FORMS if pdf else USUAL_FORMS - {".pdf"})


@dataclass(frozen=True)
class DocumentFolder:
    """The passages of the files in a folder, ordered by file name.

    files: the files to read. left_out: numbers of other files, by suffix. links: links that are not followed.
    """

    folder: Path
    files: Sequence[Path]
    cutting: Cutting
    left_out: Mapping[str, int]
    links: Sequence[Path] = ()
    _empty: set[Path] = field(default_factory=set)
    _members: dict[Path, list[Membership]] = field(default_factory=dict)

    def documents(self) -> Iterator[Document]:
        """Yield the passages of all files, up to the first problem.

        Raises:
            DataError: files or rows cannot be read; raised after the last file, with the first problems, one per line.
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
            more = f"\n  and {len(errors) - _SHOWN} more; `hardneg data check` lists all" if errors[_SHOWN:] else ""
            raise DataError(f"{self.folder}: {counted(len(errors), 'problem')}\n{lines}{more}")

    def splits(self) -> Sequence[str]:
        """Return no splits, since documents have no queries."""
        return ()

    def queries(self, split: str) -> Iterator[Query]:
        """Return no queries."""
        return iter(())

    def qrels(self, split: str) -> Iterator[Judgement]:
        """Return no judgements."""
        return iter(())

    def groups(self, side: Side) -> Iterator[Membership]:
        """Yield each passage's id and group: its file, or its row as `FILE:LINE`; nothing for side `query`."""
        for path in self.files if side == "document" else ():
            if path in self._members:
                yield from self._members[path]
                continue
            for _, group, passage in self._passages(path):
                if isinstance(passage, Document):
                    yield Membership(passage.doc_id, group)

    def notes(self) -> Sequence[str]:
        """Return notes on files that are not read, links that are not followed, and files without text."""
        notes = [f"left out: {_suffix_counts(self.left_out)}, not included in `forms`"] if self.left_out else []
        if self.links:
            links = counted(len(self.links), "link")
            notes.append(f"left out: {links} without a target file in the folder, such as {self.links[0].name}")
        if self.left_out.get(".pdf") and find_spec("pypdf") is None:
            notes.append('reading PDF files requires pypdf: pip install "hardneg[pdf]"')
        if self._empty:
            notes.append(f"left out: {counted(len(self._empty), 'file')} without text, such as {min(self._empty).name}")
        return notes

    def parts(self) -> Iterator[source_files.Part]:
        """Yield one part per file, with its passages as records."""
        for path in self.files:
            yield source_files.Part(str(path), partial(self._records, path))

    def _records(self, path: Path) -> Iterator[tuple[int, Document | DataError]]:
        return ((line, record) for line, _, record in self._passages(path))

    def _passages(self, path: Path) -> Iterator[tuple[int, str, Document | DataError]]:
        """Each passage of a file, or an error, with its line and the name of its document."""
        name = _NOT_IN_IDS.sub(lambda match: quote(match[0], safe=""), path.relative_to(self.folder).as_posix())
        starts, members, empty = Counter[int](), list[Membership](), True
        for number, text in read_file(path):
            if isinstance(text, DataError):
                empty = False
                yield number, name, text
                continue
            for line, title, words in self.cutting.passages(text):
                empty = False
                starts[line] += 1
                doc_id = f"{name}:{line}.{starts[line]}" if starts[line] > 1 else f"{name}:{line}"
                group = f"{name}:{text.row}" if text.row else name
                members += [] if text.row else [Membership(doc_id, group)]
                yield line, group, Document(doc_id, words, title)
        if path.suffix.lower() not in ROWS:
            self._members[path] = members  # saves parsing the file again for its groups
        if empty:
            self._empty.add(path)


def _suffix_counts(suffixes: Mapping[str, int]) -> str:
    return ", ".join(counted(count, f"{suffix} file") for suffix, count in sorted(suffixes.items()))
