"""Readers that parse text, Markdown, HTML, JSON Lines, CSV, PDF and Python files into headings and paragraphs."""

import csv
import io
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from html.parser import HTMLParser
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from hardneg.datasets import pydocs
from hardneg.formats import text_lines
from hardneg.records import DataError

_FRONT_MATTER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_UNSEEN = frozenset({"head", "script", "style", "template", "noscript", "svg", "nav"})
_IN_HEAD = frozenset({"title", "meta", "link", "base", *_UNSEEN})
_WITHIN_LINES = re.compile(
    "a|abbr|b|bd[io]|cite|code|del|dfn|em|font|i|ins|kbd|label|mark|q|s|samp|small|span|strong|su[bp]|time|u|var"
)

_FENCE = re.compile(r"[ \t>]*(`{3,}|~{3,})")
_ADMONITION = re.compile(
    r"[ \t]*(?:/{3,}[ \t]*(?:[\w-]+[ \t]*(?:\|(.*))?)?|:{3,}[ \t]*(?:\{?[\w-]+\}?(?:\[(.*)\])?(.*))?"
    r'|(?:!!!|\?\?\?\+?|===)[ \t]+(?=[\w"])[\w -]*(?:"(.*)")?)[ \t]*'
)
"""A line that starts or ends a block of Python-Markdown, Docusaurus, MyST or MkDocs, with the block's title."""
_INCLUDED = re.compile(r"[ \t]*(?:\{\*.*\*\}|\{!.*!\}|-+8<-+.*|\{%.*%\}|\{\{[<%].*[>%]\}\})[ \t]*")
_ATTRIBUTES = re.compile(r"(?:(?<=\))|[ \t]+(?=\{[^{}]*\}[ \t]*$))\{(?::|[ \t]*[#.])[^{}]*\}")
"""Attributes at the end of a heading or paragraph, or after a link."""


class Block(NamedTuple):
    """A heading or a paragraph.

    line: the number of the first line, from 1; in a PDF, the page number. level: the heading level, 1 for the highest;
    0 for text. lines: true if the text keeps the line breaks of the file.
    """

    line: int
    text: str
    level: int = 0
    lines: bool = True


class Text(NamedTuple):
    """A document: a whole file, or one row of a JSON Lines or CSV file.

    row: the line number of the row, 0 for a whole file. whole: true if blocks are passages that must not be cut.
    """

    blocks: Sequence[Block]
    title: str = ""
    row: int = 0
    whole: bool = False


def read_file(path: Path) -> Iterator[tuple[int, Text | DataError]]:
    """Yield the line number and content of each document in a file, or an error; the suffix selects the parser."""
    try:
        yield from FORMS[path.suffix.lower()](path)
    except DataError as error:
        yield 0, error


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be opened ({error.strerror})") from error


def _decoded(path: Path) -> str:
    data = _bytes(path)
    if data.startswith(text_lines.GZIP):
        raise DataError(f"{path}: compressed with gzip; decompress it, or exclude it with `glob`")
    text_lines.check_text(path, data, "a web page")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        reason = f"not UTF-8 ({error.reason}); save it as UTF-8, or exclude it with `glob`"
        raise DataError.at(path, line, reason) from error


def _plain(path: Path) -> Iterator[tuple[int, Text]]:
    blocks, lines = list[Block](), list[str]()
    for number, line in enumerate([*_decoded(path).split("\n"), ""], 1):
        if line.strip():
            lines.append(line.strip())
        elif lines:
            blocks.append(Block(number - len(lines), "\n".join(lines)))
            lines = []
    yield 1, Text(blocks)


def _markdown(path: Path) -> Iterator[tuple[int, Text]]:
    """Headings, paragraphs, table rows and code, without the markup of Markdown and of site generators."""
    from markdown_it import MarkdownIt

    text = "\n".join(_without_site_marks(_FRONT_MATTER.sub(lambda match: "\n" * match[0].count("\n"), _decoded(path))))
    blocks, line, level, cells = list[Block](), 1, 0, list[str]()
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        line = token.map[0] + 1 if token.map else line
        if token.type == "heading_open":
            level = int(token.tag[1:])
        elif token.type in ("th_open", "td_open"):
            cells.append("")
        elif token.type == "inline" and cells:
            cells[-1] = _words(token)
        elif token.type == "tr_close":
            blocks.append(Block(line, " ".join(filter(None, cells))))
            cells = []
        elif token.type == "inline":
            blocks.append(Block(line, _words(token), level))
            level = 0
        elif token.type in ("fence", "code_block"):
            blocks.append(Block(line, token.content.strip()))
        elif token.type == "html_block":
            blocks += (Block(line + each.line - 1, each.text, each.level) for each in _html_blocks(token.content))
    yield 1, Text([block for block in blocks if block.text])


def _without_site_marks(text: str) -> Iterator[str]:
    """Remove attributes, includes and the fences of admonitions, but not their titles, from lines outside code."""
    fence, indented = "", False
    for line in text.split("\n"):
        if indented := indented and (line.startswith("    ") or not line.strip()):
            line = line[4:]
        if mark := _FENCE.match(line):
            fence = "" if fence and mark[1].startswith(fence) else fence or mark[1]
        elif not fence and _INCLUDED.fullmatch(line):
            line = ""
        elif not fence and (admonition := _ADMONITION.fullmatch(line)):
            indented = line.lstrip()[:1] in "!?="
            line = next(filter(None, admonition.groups()), "").strip()
        elif not fence:
            line = _ATTRIBUTES.sub("", line)
        yield line


def _words(token: Any) -> str:
    """The text of inline Markdown, without markup and tags."""
    parts = (part for part in token.children or () if part.type != "html_inline")
    return " ".join("".join(" " if part.type.endswith("break") else part.content for part in parts).split())


_NO_SECTION = re.compile(r"<!\[(?!(?:temp|cdata|ignore|include|rcdata|if|else|endif)(?![-\w.]))", re.IGNORECASE)
"""The start of a section that html.parser does not support and that makes it fail."""


class _Html(HTMLParser):
    """Collects the headings and paragraphs of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[Block] = []
        self._words: list[str] = []
        self._line, self._level, self._unseen = 1, 0, 0
        self._in_head = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if not _WITHIN_LINES.fullmatch(tag):
            self.end_block()
        if self._in_head and tag not in _IN_HEAD:  # no `</head>` is needed
            self.handle_endtag("head")
        self._in_head |= tag == "head"
        self._unseen += tag in _UNSEEN
        if len(tag) == 2 and tag[0] == "h" and tag[1].isdigit():
            self._level = int(tag[1])

    def handle_endtag(self, tag: str) -> None:
        if not _WITHIN_LINES.fullmatch(tag):
            self.end_block()
        if tag != "head" or self._in_head:
            self._unseen = max(0, self._unseen - (tag in _UNSEEN))
        self._in_head &= tag != "head"

    def handle_data(self, data: str) -> None:
        if self._unseen:
            return
        if not self._words and data.strip():
            self._line = self.getpos()[0] + data[: len(data) - len(data.lstrip())].count("\n")
        self._words += [data] if self._words or data.strip() else []

    def end_block(self) -> None:
        if self._words:
            self.blocks.append(Block(self._line, " ".join("".join(self._words).split()), self._level))
        self._words, self._level = [], 0


def _html_blocks(text: str) -> list[Block]:
    """The blocks of a page. Unclosed markup becomes text, because the parser would search to the end each time."""
    for mark, end in (("<!--", "-->"), ("<", ">")):
        closed = text.rfind(end) + 1
        text = text[:closed] + text[closed:].replace(mark, f"&lt;{mark[1:]}")
    page = _Html()
    page.feed(_NO_SECTION.sub("&lt;![", text))
    page.close()
    page.end_block()
    return page.blocks


def _json_lines(path: Path) -> Iterator[tuple[int, Text | DataError]]:
    for number, line in text_lines.lines_or_errors(path):
        try:
            if isinstance(line, DataError):
                raise line
            fields = text_lines.json_row(path, number, line)
            text = text_lines.text_field(path, number, fields, "text")
            title = text_lines.title_field(path, number, fields)
            yield number, _row(path, number, text, title, lines=False)
        except DataError as error:
            yield number, error


def _csv(path: Path) -> Iterator[tuple[int, Text | DataError]]:
    text = _decoded(path)
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    rows, columns, number = csv.reader(io.StringIO(text, newline=""), strict=True), list[str](), 1
    try:
        for fields in rows:
            if not columns and fields:
                columns = fields
                if "text" not in columns:
                    reason = f"missing column `text`; the first line has {', '.join(columns):.80}"
                    raise DataError.at(path, number, reason)
                if twice := [name for name in ("text", "title") if columns.count(name) > 1]:
                    raise DataError.at(path, number, f"column `{twice[0]}` appears twice; rename one of them")
            elif fields:
                try:
                    if len(fields) > len(columns):
                        reason = f"expected {len(columns)} columns, found {len(fields)}"
                        raise DataError.at(path, number, f"{reason}; quote texts that contain commas")
                    row = dict(zip(columns, fields, strict=False))
                    yield number, _row(path, number, row.get("text", ""), row.get("title", ""))
                except DataError as error:
                    yield number, error
            number = rows.line_num + 1
    except csv.Error as error:
        raise DataError.at(path, number, f"not valid CSV ({error})") from error


def _row(path: Path, number: int, text: str, title: str, lines: bool = True) -> Text:
    if not text.strip():
        raise DataError.at(path, number, "`text` is empty; fill it in, or remove the row")
    return Text([Block(number, text.strip(), lines=lines)], " ".join(title.split()), number)


def _pdf(path: Path) -> Iterator[tuple[int, Text]]:
    from pypdf import PdfReader

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # its warnings are repaired, or repeated in the error
    try:
        pages = [page.extract_text() for page in PdfReader(path).pages]
    except Exception as error:  # pypdf raises any error for a damaged file, such as TypeError
        raise DataError(f"{path}: not a readable PDF ({type(error).__name__}: {error})") from error
    blocks = [Block(number, text.strip(), lines=False) for number, text in enumerate(pages, 1) if text.strip()]
    if not blocks:
        raise DataError(f"{path}: contains no text, possibly only scanned pages; exclude it with `glob`")
    yield 1, Text(blocks)


def _python(path: Path) -> Iterator[tuple[int, Text]]:
    """Functions and classes with their docstrings, without the other statements of a module."""
    content = _bytes(path)
    if isinstance(tree := pydocs.parsed(content), SyntaxError):
        raise DataError.at(path, tree.lineno or 1, f"not Python ({tree.msg}); fix it, or exclude it with `glob`")
    file = pydocs.SourceFile(content)
    for name, node in pydocs.definitions(tree):
        code = pydocs.code_of(node, file, docstring=True)
        yield node.lineno, Text([Block(node.lineno, code)], name, whole=True)


def _html(path: Path) -> Iterator[tuple[int, Text]]:
    yield 1, Text(_html_blocks(_decoded(path)))


FORMS: Mapping[str, Callable[[Path], Iterator[tuple[int, Text | DataError]]]] = {
    ".txt": _plain,
    ".md": _markdown,
    ".markdown": _markdown,
    ".html": _html,
    ".htm": _html,
    ".jsonl": _json_lines,
    ".csv": _csv,
    ".pdf": _pdf,
    ".py": _python,
}
"""The functions that read files, by file suffix."""
ROWS = frozenset({".jsonl", ".csv"})
"""The suffixes of files in which each row is a document."""
USUAL_FORMS = frozenset(FORMS) - {".py"}
"""The file suffixes that are read by default."""
_LIBRARIES = {".md": "markdown-it-py", ".markdown": "markdown-it-py", ".pdf": "pypdf"}


def reader_of(path: Path) -> str:
    """Return the identity of a file's reader: the suffix and, if it uses a parsing library, the library's version."""
    suffix = path.suffix.lower()
    return f"{suffix} {version(_LIBRARIES[suffix])}" if suffix in _LIBRARIES else suffix
