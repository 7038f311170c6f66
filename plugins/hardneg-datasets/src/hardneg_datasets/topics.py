"""TREC's topics: `<top>` blocks and `<topic>` elements; other files of queries are read by their lines."""

import re
from collections.abc import Iterator
from html import unescape
from itertools import chain
from pathlib import Path

from hardneg.plugin import DataError, Query, queries, source_files, text_lines

_FIELDS = {"num": ("num", "number"), "title": ("title", "query"), "desc": ("desc", "description")}
_FIELDS["narr"] = ("narr", "narrative")
_KNOWN = "|".join(("top", "topic", *chain(*_FIELDS.values())))
_TAG = re.compile(
    rf"(?:^[ \t]*|(?=<\s*/?\s*(?:{_KNOWN})\b))<\s*(/?)\s*([a-z]\w*)\b([^>]*)>", re.IGNORECASE | re.MULTILINE
)
_NUMBER = re.compile(r"\b(?:number|id)\s*=\s*[\"']([^\"']*)")
_LABEL = re.compile(r"^\s*(number|domain|topic|description|summary|narrative|concept\(?s?\)?)\s*:", re.IGNORECASE)
_BLOCK = re.compile(r"<\s*top(?:ic)?\b.*?(?:(</\s*top(?:ic)?\s*>)|(?=<\s*top(?:ic)?\b)|\Z)", re.IGNORECASE | re.DOTALL)


def topics_part(path: Path, split: str | None = None, field: str = "title") -> source_files.Part:
    """The queries of a topic file, plain or gzip; the content decides its form.

    Args:
        path: `<top>` blocks with `<num>` and `<title>`, or `<topic>` elements of XML; lines of an id, a tab and a text;
            or JSON Lines with `qid`, `query_id`, `id` or `_id`, and `title`, `query`, `text` or `contents`.
        split: whose queries these are.
        field: which part of a block is the text: title, or else query; desc, narr, or any other tag.
    """

    def read() -> Iterator[tuple[int, source_files.Record | DataError]]:
        lines = (line for _, line in text_lines.lines_or_errors(path) if isinstance(line, str))
        begins = next(lines, "").lstrip()[:1]
        return _blocks(path, field) if begins == "<" else queries.queries_part(path, split).read()

    return source_files.Part(str(path), read, split)


def _blocks(path: Path, field: str) -> Iterator[tuple[int, source_files.Record | DataError]]:
    texts, last = dict[int, str](), 0
    for last, line in text_lines.lines_or_errors(path):
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
