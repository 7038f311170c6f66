"""The texts of queries and documents, from plain files."""

from collections.abc import Collection
from pathlib import Path

from hardneg.data.json_rows import id_field, json_row, text_field
from hardneg.data.source_files import records
from hardneg.data.text_lines import read_lines
from hardneg.data.topics import topics_part
from hardneg.errors import DataError
from hardneg.types import Document, Query


def read_topics(path: Path) -> dict[str, str]:
    """Texts by query id: BEIR's queries.jsonl, an id and a text between tabs, or TREC's topics; plain or gzip.

    Raises:
        DataError: the first mistake of the file, or there is no query in it.
    """
    found = {record.query_id: record.text for _, record in records(topics_part(path)) if isinstance(record, Query)}
    if not found:
        raise DataError(f"{path}: holds no queries")
    return found


def read_texts(path: Path, doc_ids: Collection[str]) -> dict[str, str]:
    """Title and text of some documents of BEIR's corpus.jsonl, by id; the file is read once and not held.

    Raises:
        DataError: the first mistake of the file.
    """
    wanted, found = set(doc_ids), {}
    for number, line in read_lines(path):
        row = json_row(path, number, line)
        doc_id = id_field(path, number, row, "_id")
        if doc_id in wanted:
            title = text_field(path, number, row, "title") if "title" in row else ""
            found[doc_id] = Document(doc_id, text_field(path, number, row, "text"), title).contents
    return found
