"""Writes a corpus as it streams by: record batches of bounded size, then the two indexes of sorted hashes."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hardneg.formats.hash_index import hash_texts, normalise
from hardneg.formats.problems import Unplaced
from hardneg.formats.text_lines import id_problem, one_word
from hardneg.formats.vectors.mmap import map_batches, save_array
from hardneg.records.errors import DataError
from hardneg.records.types import Document
from hardneg.runtime.progress import Progress

TEXTS, HASHES, ORDER, DOC_INDEX = "corpus.arrow", "content_hash.npy", "content_order.npy", "doc_index.npy"
"""The files of a corpus."""

COLUMNS = ["doc_id", "title", "text"]
_SCHEMA = pa.schema([(name, pa.string()) for name in COLUMNS])
_ROWS = 8192
_CHARACTERS = 1 << 24
_LONGEST = 1 << 29


def write_corpus(documents: Iterable[Document], folder: Path, progress: Progress) -> int:
    """Writes documents in the order given into `folder`, which the caller renames when all is done.

    Memory: one batch of documents, and at the end 16 bytes a document to sort the hashes.

    Returns:
        the number of documents.

    Raises:
        DataError: an id occurs twice, is empty or has white space, or a text is not Unicode.
    """
    folder.mkdir(parents=True, exist_ok=True)
    spools = [folder / "doc_index.spool", folder / "content_hash.spool"]
    count = 0
    with (folder / TEXTS).open("wb") as file:
        with (
            pa.ipc.new_file(file, _SCHEMA) as writer,
            spools[0].open("wb") as ids,
            spools[1].open("wb") as contents,
            progress.task("corpus", None, "passages") as task,
        ):
            for block in _blocks(documents):
                writer.write_batch(_batch(block))
                hash_texts(document.doc_id for document in block).tofile(ids)
                hash_texts(normalise(document.contents) for document in block).tofile(contents)
                count += len(block)
                task.advance(len(block))
        file.flush()
        os.fsync(file.fileno())
    _index_ids(folder, spools[0])
    hashes = np.fromfile(spools[1], np.uint64)
    save_array(folder / HASHES, hashes)
    save_array(folder / ORDER, np.argsort(hashes, stable=True))
    spools[1].unlink()
    return count


def _blocks(documents: Iterable[Document]) -> Iterator[list[Document]]:
    block: list[Document] = []
    characters = 0
    for document in documents:
        if not all(isinstance(part, str) for part in document):
            raise DataError(f"document {document.doc_id!r}: id, title and text must be strings")
        if not one_word(document.doc_id):
            raise DataError(f"document {id_problem(document.doc_id)}")
        size = len(document.text) + len(document.title)
        if size > _LONGEST:
            raise DataError(f"document {document.doc_id!r} has {size} characters; split it into passages")
        if block and (len(block) == _ROWS or characters + size > _CHARACTERS):
            yield block
            block, characters = [], 0
        block.append(document)
        characters += size
    if block:
        yield block


def _batch(block: list[Document]) -> pa.RecordBatch:
    try:
        columns = [pa.array([getattr(document, name) for document in block], pa.string()) for name in COLUMNS]
    except (UnicodeEncodeError, pa.ArrowException) as error:
        ends = f"{block[0].doc_id!r} to {block[-1].doc_id!r}"
        raise DataError(f"documents {ends} hold a title or text that is not Unicode text: {error}") from error
    return pa.record_batch(columns, schema=_SCHEMA)


def _index_ids(folder: Path, spool: Path) -> None:
    hashes = np.fromfile(spool, np.uint64)
    order = np.argsort(hashes, stable=True)
    hashes = hashes[order]
    _refuse_repeats(folder, hashes, order)
    save_array(folder / DOC_INDEX, np.stack([hashes, order.astype(np.uint64)]))
    spool.unlink()


def _refuse_repeats(folder: Path, hashes: NDArray[np.uint64], order: NDArray[np.int64]) -> None:
    equal = np.flatnonzero(hashes[1:] == hashes[:-1])
    if not len(equal):
        return
    batches = map_batches(folder / TEXTS, COLUMNS)
    starts = np.cumsum([0, *(batch.num_rows for batch in batches)])
    seen: dict[str, int] = {}
    for row in np.unique(order[np.concatenate([equal, equal + 1])]).tolist():
        number = int(np.searchsorted(starts, row, "right")) - 1
        doc_id = batches[number].column(0)[row - int(starts[number])].as_py()
        if doc_id in seen:
            where = f"as documents {seen[doc_id] + 1} and {row + 1}"
            reason = f"document id {doc_id!r} occurs twice, {where}; document ids must be unique"
            raise Unplaced("document ids that stand twice", reason)
        seen[doc_id] = row
