"""The queries of one split, as an Arrow file, and their answers, as JSON Lines; queries of topic files.

Topics of TREC and of Anserini are `<top>` or `<topic>` blocks, lines of an id, a tab and a text, or JSON Lines; the
content decides.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from itertools import chain, islice
from pathlib import Path

import pyarrow as pa

from hardneg.formats import text_lines
from hardneg.formats.source_files import Part, Record, parsed
from hardneg.formats.vectors.mmap import AGAIN
from hardneg.records.errors import ArtifactError, DataError
from hardneg.records.types import Answers, Query
from hardneg.records.wording import counted
from hardneg.store.atomic_write import replacing

_SCHEMA = pa.schema([("query_id", pa.string()), ("text", pa.string())])
_ROWS = 8192
_IDS = ("qid", "query_id", "id", "_id")
_TEXTS = ("title", "query", "text", "contents")
_FIELDS = {"num": ("num", "number"), "title": ("title", "query"), "desc": ("desc", "description")}
_FIELDS["narr"] = ("narr", "narrative")
_KNOWN = "|".join(("top", "topic", *chain(*_FIELDS.values())))
_TAG = re.compile(
    rf"(?:^[ \t]*|(?=<\s*/?\s*(?:{_KNOWN})\b))<\s*(/?)\s*([a-z]\w*)\b([^>]*)>", re.IGNORECASE | re.MULTILINE
)
_NUMBER = re.compile(r"\b(?:number|id)\s*=\s*[\"']([^\"']*)")
_LABEL = re.compile(r"^\s*(number|domain|topic|description|summary|narrative|concept\(?s?\)?)\s*:", re.IGNORECASE)
_BLOCK = re.compile(r"<\s*top(?:ic)?\b.*?(?:(</\s*top(?:ic)?\s*>)|(?=<\s*top(?:ic)?\b)|\Z)", re.IGNORECASE | re.DOTALL)
_SHOWN = 10
OWN = "queries of the file left out: the dataset has them"
SAME_TEXT = "queries of the file with the text of one of the dataset's"


@dataclass(frozen=True)
class Queries:
    """The queries of one split, in the source's order: ids, and texts beside them."""

    query_ids: list[str]
    texts: Sequence[str]

    def __len__(self) -> int:
        return len(self.query_ids)

    def __iter__(self) -> Iterator[Query]:
        return map(Query, self.query_ids, self.texts)

    @classmethod
    def open(cls, path: Path) -> "Queries":
        """Reads the file that `write_queries` wrote. Raises ArtifactError where it is missing or damaged."""
        try:
            with pa.memory_map(str(path)) as file:
                table = pa.ipc.open_file(file).read_all()
                return cls(table.column("query_id").to_pylist(), table.column("text").to_pylist())
        except (OSError, pa.ArrowException, KeyError, UnicodeDecodeError) as error:
            reason = str(error).split("\n")[0]
            raise ArtifactError(f"{path}: queries cannot be read ({reason}); {AGAIN}") from error


def write_queries(path: Path, queries: Iterable[Query]) -> list[str]:
    """Writes the queries of one split, whole or not at all, in the order given; returns their ids.

    Raises:
        DataError: a query id occurs twice, is empty or has white space; or a query has no text.
    """
    known: dict[str, None] = {}
    rows, block = iter(queries), [Query("", "")] * _ROWS
    with replacing(path) as file, pa.ipc.new_file(file, _SCHEMA) as writer:
        while len(block) == _ROWS:
            block = list(islice(rows, _ROWS))
            for query in block:
                _check(query, known)
            try:
                columns = [pa.array([query[i] for query in block], pa.string()) for i in (0, 1)]
            except (UnicodeEncodeError, pa.ArrowException) as error:
                raise DataError(f"queries from {block[0].query_id!r} on: not Unicode text: {error}") from error
            writer.write_batch(pa.record_batch(columns, schema=_SCHEMA))
    return list(known)


def _check(query: Query, known: dict[str, None]) -> None:
    if not (isinstance(query.query_id, str) and isinstance(query.text, str)):
        raise DataError(f"query {query.query_id!r}: id and text must be strings")
    if not text_lines.one_word(query.query_id):
        raise DataError(f"query {text_lines.id_problem(query.query_id)}")
    if not query.text.strip():
        raise text_lines.Unplaced(query, f"query {query.query_id!r} has no text")
    if query.query_id in known:
        reason = f"query id {query.query_id!r} occurs twice in one split; query ids must be unique"
        raise text_lines.Unplaced(query, reason, again=True)
    known[query.query_id] = None


def write_answers(path: Path, answers: Iterable[Answers]) -> int:
    """Writes `{"query_id", "answers"}` for each query that has answers, and returns how many there are.

    Where there is none, nothing is written.
    """
    rows = ({"query_id": query_id, "answers": list(texts)} for query_id, texts in answers if texts)
    first = next(rows, None)
    if first is None:
        return 0
    with replacing(path) as file:
        lines = (json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in chain([first], rows))
        return sum(bool(file.write(line)) for line in lines)


def read_answers(path: Path) -> dict[str, tuple[str, ...]]:
    """The answers by query id; none where there is no such file. Raises DataError where a line is malformed."""
    if not path.exists():
        return {}
    rows = ((number, text_lines.json_row(path, number, line)) for number, line in text_lines.read_lines(path))
    return {
        text_lines.id_field(path, number, row, "query_id"): text_lines.texts_field(path, number, row, "answers")
        for number, row in rows
    }


def topics_part(path: Path, split: str | None = None, field: str = "title") -> Part:
    """The queries of a topic file, plain or gzip.

    Args:
        path: `<top>` blocks with `<num>` and `<title>`, or `<topic>` elements of XML; lines of an id, a tab and a text;
            or JSON Lines with `qid`, `query_id`, `id` or `_id`, and `title`, `query`, `text` or `contents`.
        split: whose queries these are.
        field: which part of a block is the text: title, or else query; desc, narr, or any other tag.
    """
    return Part(str(path), lambda: _read(path, field), split)


def _read(path: Path, field: str) -> Iterator[tuple[int, Record | DataError]]:
    lines = text_lines.lines_or_errors(path)
    first = list[tuple[int, str | DataError]]()
    for item in lines:
        first.append(item)
        if not isinstance(item[1], DataError):
            break
    start, whole = first[-1][1] if first else "", chain(first, lines)
    begins = start.lstrip()[:1] if isinstance(start, str) else ""
    if begins == "<":
        return _blocks(path, whole, field)
    return parsed(path, whole, _json_query if begins and begins in "{[" else query_line)


def query_line(path: Path, number: int, line: str) -> Query:
    """The query of a line that holds an id, a tab and a text. Raises DataError where it does not."""
    cells = line.split("\t")
    if len(cells) != 2:
        raise DataError.at(path, number, f"{counted(len(cells), 'column')}; an id, a tab and a text are expected")
    return Query(text_lines.checked_id(path, number, cells[0]), cells[1])


def _json_query(path: Path, number: int, line: str) -> Query:
    row = text_lines.json_row(path, number, line)
    key = next((key for key in _TEXTS if key in row), _TEXTS[0])
    return Query(text_lines.id_field(path, number, row, *_IDS), text_lines.text_field(path, number, row, key))


def _blocks(
    path: Path, lines: Iterable[tuple[int, str | DataError]], field: str
) -> Iterator[tuple[int, Record | DataError]]:
    texts, last = dict[int, str](), 0
    for last, line in lines:
        if isinstance(line, DataError):
            yield last, line
        else:
            texts[last] = line
    text = "\n".join(texts.get(number, "") for number in range(1, last + 1))
    for block in _BLOCK.finditer(text):
        number = text.count("\n", 0, block.start()) + 1
        try:
            if not block[1]:
                raise DataError.at(path, number, "this <top> has no </top>")
            yield number, _block_query(path, number, block[0], field)
        except DataError as error:
            yield number, error
    if not _BLOCK.search(text):
        yield 1, DataError.at(path, 1, "no query in this file: `<top>` blocks and `<topic>` elements are read")


def _block_query(path: Path, number: int, block: str, field: str) -> Query:
    tags = [tag for tag in _TAG.finditer(block) if not tag[1]]
    ends = [tag.start() for tag in _TAG.finditer(block)]
    named = _NUMBER.search(tags[0][3])
    fields = {"num": named[1]} if named else {}
    for tag in tags:
        end = next((end for end in ends if end > tag.start()), len(block))
        text = block[tag.end() : end]
        text = unescape(text) if tags[0][2].lower() == "topic" else _LABEL.sub("", text)
        fields.setdefault(tag[2].lower(), " ".join(text.split()))
    query_id, text = (
        next((fields[each] for each in _FIELDS.get(name, (name,)) if fields.get(each)), "") for name in ("num", field)
    )
    missing = [f"<{name}>" for name, value in (("num", query_id), (field, text)) if not value]
    if missing:
        raise DataError.at(path, number, f"this <{tags[0][2]}> has no {' and no '.join(missing)}")
    return Query(text_lines.checked_id(path, number, query_id), text)


def read_query_file(path: Path, known: Mapping[str, str], facts: Counter[str]) -> Iterator[Query]:
    """The queries of a file in its order; those of `known`, texts by id, are left out and counted in `facts`.

    Args:
        path: lines of an id, a tab and a text, JSON Lines, or TREC's topics; plain or gzip.
        known: the collection's own queries.
        facts: counts, which grow while the queries are gone through.

    Raises:
        DataError: at the end, all mistakes with their lines: lines that are no query, no text, an id that stands
            twice, or one that the collection has with another text.
    """
    problems: list[str] = []
    lines: dict[str, int] = {}
    texts = frozenset(known.values())
    for number, record in topics_part(path).read():
        if not isinstance(record, Query):
            problems.append(str(record))
            continue
        query_id, problem = record.query_id, ""
        if not record.text.strip():
            problem = "has no text"
        elif query_id in lines:
            problem = f"stands in line {lines[query_id]} already; make ids unique"
        elif known.get(query_id, record.text) != record.text:
            problem = "is one of the dataset's, with another text; give it another id"
        if problem:
            problems.append(f"{path}:{number}: query {query_id!r} {problem}")
        elif query_id in known:
            facts[OWN] += 1
        else:
            lines[query_id] = number
            facts[SAME_TEXT] += record.text in texts
            yield record
    if problems:
        more = [f"and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
        raise DataError("\n".join([*problems[:_SHOWN], *more]))
