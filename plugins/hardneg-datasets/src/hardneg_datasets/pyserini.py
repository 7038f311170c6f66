"""A loader of collections in Pyserini's format: folders of JSON documents, with topics and qrels."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from hardneg.plugin import Document, errors, source_files, stores, text_lines
from hardneg_datasets.topics import paired

_ENDINGS = (".jsonl", ".json", ".jsonl.gz", ".json.gz")


@dataclass(frozen=True)
class Pyserini:
    """A folder of Pyserini's JSON documents, and topics and qrels for each split.

    A document has an id (`id`, `_id` or `docid`), and either `contents`, or `text` and optionally `title`. Other fields
    are ignored. A file has one document per line, or is one JSON array. Topics are in `topics.SPLIT.*` or
    `queries.SPLIT.*` (tab-separated, JSON Lines, or TREC's `<top>` blocks and `<topic>` elements), and qrels are in
    `qrels.SPLIT.txt` or `.tsv`. Queries without judgements are left out and noted.

    Args:
        source: the folder with the topics, the qrels and the corpus; each file plain or `.gz`.
        corpus: the path of the corpus in `source`: a file, or a folder that is read with its subfolders.
        title_line: whether the first line of `contents` is the title.
        topic_field: the part of a `<top>` block to use as the query: title, desc, narr, or any other tag.
        splits: topics and qrels by split, as file names in `source`; if empty, files are found by name.
    """

    source: str
    corpus: str = "corpus"
    title_line: bool = False
    topic_field: str = "title"
    splits: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    version: ClassVar[int] = 2
    known_by: ClassVar[tuple[str, ...]] = ("qrels.*.txt", "qrels.*.tsv", "qrels.*.gz")

    def load(self) -> source_files.PartedCollection:
        """Return the collection, opened for streaming. Raises DataError if a file is missing."""
        folder = Path(self.source).expanduser()
        if not folder.is_dir():
            raise text_lines.no_folder(folder)
        judged = paired(folder, [], self.splits, self.topic_field)
        return replace(judged, documents_in=[_documents_part(path, self.title_line) for path in self._corpus_files()])

    def fingerprint(self) -> str:
        """Return a digest of the files' bytes, their splits, and the options."""
        collection, options = self.load(), [self.title_line, self.topic_field]
        content = collection.digest(Path(self.source).expanduser())
        return stores.digest(["pyserini", self.version, options, list(collection.splits()), content])

    def size_hint(self) -> int:
        """Estimate the number of documents from the first lines of the first file and the sizes of all files."""
        paths = self._corpus_files()
        first = max(paths[0].stat().st_size, 1)
        return text_lines.estimate_lines(paths[0]) * sum(path.stat().st_size for path in paths) // first

    def _corpus_files(self) -> list[Path]:
        root = Path(self.source).expanduser() / self.corpus
        paths = [root] if root.is_file() else sorted(root.rglob("*"))
        files = [path for path in paths if path.is_file() and path.name.endswith(_ENDINGS)]
        if not files:
            raise errors.DataError(f"{root}: no file ending in {', '.join(_ENDINGS)}; set `corpus` to the documents")
        return files


def _documents_part(path: Path, title_line: bool) -> source_files.Part:
    if path.name.endswith((".json", ".json.gz")) and next(text_lines.read_bytes(path), b"").lstrip().startswith(b"["):
        return source_files.Part(str(path), partial(_array_documents, path, title_line))
    return source_files.line_part(
        path, lambda path, number, line: _document(title_line, path, number, text_lines.json_row(path, number, line))
    )


def _array_documents(path: Path, title_line: bool) -> Iterator[tuple[int, source_files.Record | errors.DataError]]:
    try:
        for number, row in text_lines.read_array(path):
            try:
                yield number, _document(title_line, path, number, row)
            except errors.DataError as error:
                yield number, error
    except errors.DataError as error:
        yield 0, error


def _document(title_line: bool, path: Path, number: int, row: dict[str, Any]) -> Document:
    doc_id = text_lines.id_field(path, number, row, "id", "_id", "docid")
    if "text" in row:
        return Document(
            doc_id, text_lines.text_field(path, number, row, "text"), text_lines.title_field(path, number, row)
        )
    contents = text_lines.text_field(path, number, row, "contents")
    title, line_end, text = contents.partition("\n")
    return Document(doc_id, text, title) if title_line and line_end else Document(doc_id, contents)
