"""Readers of topic files (lines, or TREC's `<top>` blocks and `<topic>` elements), and of folders with their qrels."""

import re
from collections.abc import Iterator, Mapping, Sequence
from html import unescape
from itertools import chain
from pathlib import Path

from hardneg.plugin import Query, errors, source_files, text_lines

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
    """Return a part that reads the queries of a topic file, plain or `.gz`; the format is detected.

    Args:
        path: a file of `<top>` blocks with `<num>` and `<title>`, XML `<topic>` elements, lines of an id, a tab and a
            text, or JSON Lines with `qid`, `query_id`, `id` or `_id`, and `title`, `query`, `text` or `contents`.
        split: the split of the queries.
        field: the tag with the text: title (or query, if there is no title), desc, narr, or any other tag.
    """

    def read() -> Iterator[tuple[int, source_files.Record | errors.DataError]]:
        lines = (line for _, line in text_lines.lines_or_errors(path) if isinstance(line, str))
        begins = next(lines, "").lstrip()[:1]
        return _blocks(path, field) if begins == "<" else source_files.queries_part(path, split).read()

    return source_files.Part(str(path), read, split)


def _blocks(path: Path, field: str) -> Iterator[tuple[int, source_files.Record | errors.DataError]]:
    texts, last = dict[int, str](), 0
    for last, line in text_lines.lines_or_errors(path):
        if isinstance(line, errors.DataError):
            yield last, line
        else:
            texts[last] = line
    text = "\n".join(texts.get(number, "") for number in range(1, last + 1))
    for block in _BLOCK.finditer(text):
        number = text.count("\n", 0, block.start()) + 1
        try:
            if not block[1]:
                raise errors.DataError.at(path, number, "this <top> has no </top>")
            yield number, _block_query(path, number, block[0], field)
        except errors.DataError as error:
            yield number, error
    if not _BLOCK.search(text):
        yield 1, errors.DataError.at(path, 1, "no query in this file; expected `<top>` blocks or `<topic>` elements")


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
        raise errors.DataError.at(path, number, f"this <{tags[0][2]}> has no {' and no '.join(missing)}")
    return Query(text_lines.checked_id(path, number, query_id), text)


_TOPICS = (
    (re.compile(r"(?:queries|topics)\.(.+)\.(?:tsv|txt|jsonl|trec|xml)"), "{}"),
    (re.compile(r"msmarco-doc([a-z]+)-queries\.tsv"), "{}"),
    (re.compile(r"msmarco-(test[0-9]{4})-queries\.tsv"), "{}"),
)
_QRELS = (
    (re.compile(r"qrels\.(.+)\.(?:tsv|txt)"), "{}"),
    (re.compile(r"msmarco-doc([a-z]+)-qrels\.tsv"), "{}"),
    (re.compile(r"([0-9]{4})qrels-docs\.txt"), "test{}"),
)


def paired(
    folder: Path, documents: Sequence[source_files.Part], named: Mapping[str, tuple[str, str]], field: str = "title"
) -> source_files.PartedCollection:
    """Return a collection of documents, with the splits that have both topics and qrels in a folder.

    Args:
        folder: the folder of topics and qrels; files without a counterpart are noted.
        documents: the parts of the corpus.
        named: topics and qrels by split, relative to the folder; if empty, files are found by name.
        field: the tag with the text of a query, as in `topics_part`.

    Raises DataError if a named file is missing, two files match a split, or no split has both topics and qrels.
    """
    topics, qrels = (
        {split: _named_file(folder, names[side]) for split, names in named.items()} or _by_split(folder, patterns)
        for side, patterns in enumerate((_TOPICS, _QRELS))
    )
    both = list(named) or source_files.order_splits(topics.keys() & qrels.keys())
    if not both:
        reason = "no split has both topics and qrels, such as queries.test.tsv and qrels.test.tsv"
        raise errors.DataError(f"{folder}: {reason}; rename the files")
    alone = sorted({**topics, **qrels}[split].name for split in topics.keys() ^ qrels.keys())
    return source_files.PartedCollection(
        documents,
        {split: topics_part(topics[split], split, field) for split in both},
        {split: source_files.line_part(qrels[split], None, split) for split in both},
        [f"{name}: left out; no matching file" for name in alone],
    )


def _named_file(folder: Path, name: str) -> Path:
    path = text_lines.find_file(folder, name)
    if path is None:
        raise errors.DataError(f"{folder}: no {name} or {name}.gz, which `splits` refers to")
    return path


def _by_split(folder: Path, patterns: Sequence[tuple[re.Pattern[str], str]]) -> dict[str, Path]:
    files: dict[str, Path] = {}
    for name in sorted({path.name.removesuffix(".gz") for path in folder.iterdir()}):
        matches = ((pattern.fullmatch(name), form) for pattern, form in patterns)
        split = next((form.format(match[1]) for match, form in matches if match), None)
        if split is None or (path := text_lines.find_file(folder, name)) is None:
            continue
        if split in files:
            raise errors.DataError(
                f"{folder}: {files[split].name} and {name} both belong to split {split}; choose one in `splits`"
            )
        files[split] = path
    return files
