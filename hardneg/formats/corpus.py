"""The stored corpus: documents in a memory-mapped Arrow file, looked up by row, id or contents."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hardneg.formats import arrays, text_lines
from hardneg.formats.arrays import find_equal, hash_texts, normalise, ranges
from hardneg.records import Candidates, DataError, Document, RankedList
from hardneg.runtime import Progress
from hardneg.store import link_file

TEXTS, HASHES, ORDER, DOC_INDEX = "corpus.arrow", "content_hash.npy", "content_order.npy", "doc_index.npy"
"""The names of a corpus's files: documents, content hashes, rows sorted by content hash, sorted id hashes with rows."""

COLUMNS = ["doc_id", "title", "text"]
_SCHEMA = pa.schema(dict.fromkeys(COLUMNS, pa.string()))
_BATCH, _READ = 8192, 4096  # documents written, and read, at a time
_CHARACTERS, _LONGEST = 1 << 24, 1 << 29
Rows = NDArray[np.int64]


def write_corpus(documents: Iterable[Document], folder: Path, progress: Progress) -> int:
    """Write documents in the given order into `folder`, which the caller renames when it is complete.

    Memory use is one batch of documents, then about 56 bytes per document to sort the hashes.

    Returns:
        The number of documents.

    Raises DataError if an id occurs twice, is empty or has white space, or a text is too long or not valid Unicode.
    """
    folder.mkdir(parents=True, exist_ok=True)
    spools = [folder / "doc_index.spool", folder / "content_hash.spool"]
    count = 0
    with (folder / TEXTS).open("wb") as file, progress.task("corpus", None, "passages") as task:
        with pa.ipc.new_file(file, _SCHEMA) as writer, spools[0].open("wb") as ids, spools[1].open("wb") as contents:
            for block in _blocks(documents):
                try:
                    columns = [pa.array([getattr(each, name) for each in block], pa.string()) for name in COLUMNS]
                except (UnicodeEncodeError, pa.ArrowException) as error:
                    ends = f"{block[0].doc_id!r} to {block[-1].doc_id!r}"
                    raise DataError(f"documents {ends}: a title or text is not valid Unicode ({error})") from error
                writer.write_batch(pa.record_batch(columns, schema=_SCHEMA))
                hash_texts(document.doc_id for document in block).tofile(ids)
                hash_texts(normalise(document.contents) for document in block).tofile(contents)
                count += len(block)
                task.advance(len(block))
        file.flush()
        os.fsync(file.fileno())
    doc_hashes, hashes = (np.fromfile(spool, np.uint64) for spool in spools)
    order = np.argsort(doc_hashes, stable=True)
    sorted_hashes = doc_hashes[order]
    arrays.save_array(folder / DOC_INDEX, np.stack([sorted_hashes, order.astype(np.uint64)]))
    arrays.save_array(folder / HASHES, hashes)
    arrays.save_array(folder / ORDER, np.argsort(hashes, stable=True))
    equal = np.flatnonzero(sorted_hashes[1:] == sorted_hashes[:-1])
    rows, seen = np.unique(order[np.concatenate([equal, equal + 1])]), dict[str, int]()
    for row, doc_id in zip(rows.tolist(), Corpus.open(folder).ids(rows), strict=True):
        if seen.setdefault(doc_id, row) != row:
            where = f"as documents {seen[doc_id] + 1} and {row + 1}"
            reason = f"document id {doc_id!r} occurs twice, {where}; ids must be unique"
            raise text_lines.Unplaced(Document(doc_id, ""), reason, again=True)
    for spool in spools:
        spool.unlink()
    return count


def _blocks(documents: Iterable[Document]) -> Iterator[list[Document]]:
    block: list[Document] = []
    characters = 0
    for document in documents:
        if not all(isinstance(part, str) for part in document):
            raise DataError(f"document {document.doc_id!r}: id, title and text must be strings")
        if not text_lines.one_word(document.doc_id):
            raise DataError(f"document {text_lines.id_problem(document.doc_id)}")
        size = len(document.text) + len(document.title)
        if size > _LONGEST:
            raise DataError(f"document {document.doc_id!r} has {size} characters, too many; split it into passages")
        if block and (len(block) == _BATCH or characters + size > _CHARACTERS):
            yield block
            block, characters = [], 0
        block.append(document)
        characters += size
    if block:
        yield block


@dataclass(frozen=True, eq=False)
class Corpus:
    """A corpus written by `write_corpus`; texts are read on access and not cached.

    starts: int64 [batches + 1], the first row of each record batch, followed by the total number of rows.
    content_hash: uint64 [N] memory map, the hash of each row's contents with white space normalised.
    content_order: int64 [N] memory map, the rows sorted by content hash.
    """

    folder: Path
    batches: Sequence[pa.RecordBatch]
    starts: Rows
    content_hash: NDArray[np.uint64]
    content_order: Rows
    _doc_index: NDArray[np.uint64]

    @classmethod
    def open(cls, folder: Path) -> "Corpus":
        """Memory-map a corpus folder. Raises ArtifactError if a file is missing or truncated, or has another format."""
        folder = Path(folder)
        batches = arrays.map_batches(folder / TEXTS, COLUMNS)
        starts = np.cumsum([0, *(batch.num_rows for batch in batches)], dtype=np.int64)
        count = int(starts[-1])
        hashes = arrays.map_array(folder / HASHES, (count,), np.uint64)
        order = arrays.map_array(folder / ORDER, (count,), np.int64)
        return cls(folder, batches, starts, hashes, order, arrays.map_array(folder / DOC_INDEX, (2, count), np.uint64))

    def __len__(self) -> int:
        return int(self.starts[-1])

    def link_to(self, folder: Path) -> int:
        """Link the files of this corpus into another folder; return the number of documents."""
        for name in (TEXTS, HASHES, ORDER, DOC_INDEX):
            link_file(self.folder / name, folder / name)
        return len(self)

    def __reduce__(self) -> tuple[object, ...]:
        return Corpus.open, (self.folder,)

    @property
    def doc_ids(self) -> "CorpusIds":
        """The document ids in row order, as a sequence that is read on access."""
        return CorpusIds(self)

    def contents(self, rows: Rows) -> list[str]:
        """The contents (title and text) of the documents at `rows`, int64 [n], which may be unsorted or repeated."""
        return [document.contents for document in self.documents_at(rows)]

    def documents_at(self, rows: Rows) -> list[Document]:
        """The documents at `rows`, int64 [n], which may be unsorted or repeated."""
        located = self._located(rows)
        return [Document(*(batch.column(i)[local].as_py() for i in (0, 2, 1))) for batch, local in located]

    def blocks(self, start: int = 0, stop: int | None = None, size: int = _READ) -> Iterator[list[str]]:
        """Yield the contents of rows `start` to `stop - 1` (None: to the end), in order, in lists of at most `size`."""
        stop = len(self) if stop is None else min(stop, len(self))
        for low in range(start, stop, size):
            parts = self._parts(low, min(low + size, stop), [1, 2])
            columns = ([column.to_pylist() for column in part.columns] for part in parts)
            yield [f"{title} {text}" if title else text for each in columns for title, text in zip(*each, strict=True)]

    def documents(self) -> Iterator[Document]:
        """Yield all documents, in row order."""
        for part in self.columns([0, 1, 2]):
            doc_ids, titles, texts = (column.to_pylist() for column in part.columns)
            yield from map(Document, doc_ids, texts, titles)

    def columns(self, columns: list[int]) -> Iterator[pa.RecordBatch]:
        """Yield all rows in batches of at most 4,096. columns: the positions in `COLUMNS` of the fields to read."""
        for start in range(0, len(self), _READ):
            yield from self._parts(start, min(start + _READ, len(self)), columns)

    def titles(self) -> Iterator[tuple[str, str]]:
        """Yield the id and title of each document with a title, in row order, without reading texts."""
        for part in self.columns([0, 1]):
            doc_ids, titles = (column.to_pylist() for column in part.columns)
            yield from ((doc_id, title) for doc_id, title in zip(doc_ids, titles, strict=True) if title)

    def rows(self, doc_ids: Sequence[str]) -> Rows:
        """The row of each id: int64 [n], -1 for unknown ids."""
        encoded = pa.array(doc_ids, pa.string()).dictionary_encode()
        unique: list[str] = encoded.dictionary.to_pylist()
        hashes, rows = self._doc_index
        position, owner = ranges(*find_equal(hashes, hash_texts(unique)))
        candidates = rows[position].astype(np.int64)
        names = self.ids(candidates)
        same = np.array([unique[i] == name for i, name in zip(owner, names, strict=True)], bool)
        result = np.full(len(unique), -1, np.int64)
        result[owner[same]] = candidates[same]
        indices: Rows = encoded.indices.to_numpy(zero_copy_only=False)
        return result[indices]

    def known_rows(self, doc_ids: Sequence[str], what: str, advice: str) -> Rows:
        """The row of each id, int64 [n]. Raises DataError for an unknown `what`, and `advice` ends the message."""
        rows = self.rows(doc_ids)
        if (rows < 0).any():
            raise DataError(f"{what} {doc_ids[int(rows.argmin())]!r} is not in the corpus; {advice}")
        return rows

    def known_lists(self, lists: Sequence[Sequence[str]], length: int, advice: str) -> Rows:
        """The rows of n lists of negatives, each with at most `length` ids: int64 [n, length], padded with -1.

        Raises DataError for an unknown id; the message ends with `advice`.
        """
        rows = self.list_rows(lists)
        if int((rows >= 0).sum()) < sum(map(len, lists)):
            self.known_rows([doc_id for doc_ids in lists for doc_id in doc_ids], "negative", advice)
        return np.pad(rows, ((0, 0), (0, length - rows.shape[1])), constant_values=-1)

    def list_rows(self, lists: Sequence[Sequence[str]]) -> Rows:
        """The rows of Q lists of document ids: int64 [Q, longest list], -1 for padding and unknown ids."""
        lengths = np.array([len(doc_ids) for doc_ids in lists], np.int64)
        rows = np.full((len(lists), int(lengths.max(initial=0))), -1, np.int64)
        rows[np.arange(rows.shape[1]) < lengths[:, None]] = self.rows([doc_id for part in lists for doc_id in part])
        return rows

    def copies(self, rows: Rows) -> Rows:
        """The given rows and those with equal contents up to white space: int64 [m], distinct and ascending."""
        rows = np.unique(np.asarray(rows, np.int64))
        first, end = find_equal(self.content_hash, self.content_hash[rows], self.content_order)
        several = end - first > 1
        if not several.any():
            return rows
        position, owner = ranges(first[several], end[several])
        candidates = self.content_order[position]
        own = [normalise(text) for text in self.contents(rows[several])]
        texts = self.contents(candidates)
        same = [own[i] == normalise(text) for i, text in zip(owner, texts, strict=True)]
        return np.union1d(rows, candidates[np.array(same, bool)])

    def ids(self, rows: Rows) -> list[str]:
        """The ids of the documents at `rows`, int64 [n], which may be unsorted or repeated."""
        return [batch.column(0)[local].as_py() for batch, local in self._located(rows)]

    def _located(self, rows: Rows) -> Iterator[tuple[pa.RecordBatch, int]]:
        rows = np.asarray(rows, np.int64)
        if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < len(self):
            raise IndexError(f"rows must be in 0..{len(self) - 1}")
        number = np.searchsorted(self.starts, rows, "right") - 1
        local = rows - self.starts[number]
        batches = self.batches
        return ((batches[i], j) for i, j in zip(number.tolist(), local.tolist(), strict=True))

    def _parts(self, start: int, stop: int, columns: list[int]) -> Iterator[pa.RecordBatch]:
        """Read columns of rows `start` to `stop` from the file; mapped pages would count as memory of this process."""
        options = pa.ipc.IpcReadOptions(included_fields=columns)
        reader = pa.ipc.open_file(pa.OSFile(str(self.folder / TEXTS)), options=options)
        number = int(np.searchsorted(self.starts, start, "right")) - 1
        while start < stop:
            end = min(stop, int(self.starts[number + 1]))
            yield reader.get_batch(number).slice(start - int(self.starts[number]), end - start)
            start, number = end, number + 1


class CorpusIds(Sequence[str]):
    """A corpus's document ids in row order, read on access. Slicing returns a list."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    def __len__(self) -> int:
        return len(self._corpus)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                return self._corpus.ids(np.arange(start, stop, step))
            return [name for part in self._corpus._parts(start, stop, [0]) for name in part.column(0).to_pylist()]
        row = index + len(self) if index < 0 else index
        return self._corpus.ids(np.array([row]))[0]

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _BATCH):
            yield from self[start : start + _BATCH]


def candidates(corpus: Corpus, query_id: str, known: Sequence[str], hits: Mapping[str, RankedList]) -> Candidates:
    """Return a miner's input for one query: positives (`known`), their copies, and ranked lists by run (`hits`)."""
    copies = corpus.copies(corpus.rows(known))
    duplicates = frozenset(corpus.ids(copies)) - frozenset(known)
    return Candidates(query_id, known, hits, corpus.doc_ids, duplicates)


def own_documents(corpus: Corpus, query_ids: Sequence[str], texts: Sequence[str]) -> tuple[Rows, Rows]:
    """Find copies of queries: documents whose contents equal a query's text, or that have a query's id and text.

    Differences in white space are ignored.

    Returns:
        Two int64 arrays [n]: the corpus row of each copy, possibly repeated, and the index of the query that it copies.
    """
    plain = [normalise(text) for text in texts]
    position, owner = ranges(*find_equal(corpus.content_hash, hash_texts(plain), corpus.content_order))
    named = corpus.rows(query_ids)
    rows = np.concatenate([corpus.content_order[position], named[named >= 0]])
    owner = np.concatenate([owner, np.flatnonzero(named >= 0)])
    documents = zip(corpus.documents_at(rows), owner.tolist(), strict=True)
    same = np.array([plain[at] in (normalise(each.contents), normalise(each.text)) for each, at in documents], bool)
    return rows[same], owner[same]


def set_aside(
    corpus: Corpus, query_ids: Sequence[str], texts: Sequence[str], positives: Mapping[str, Sequence[str]]
) -> tuple[dict[int, Rows], set[str]]:
    """Find the documents to exclude for each query: copies of it, and positives of queries that share its text.

    Returns:
        A dict from query index to the rows to exclude, with copies, int64 [n]; queries with the same text have the same
        array. Also the set of ids of queries that share their text with another query.
    """
    own, members = dict[str, list[int]](), dict[str, list[int]]()
    plain = [normalise(text) for text in texts]
    rows, owner = own_documents(corpus, query_ids, texts)
    for row, at in zip(rows.tolist(), owner.tolist(), strict=True):
        own.setdefault(plain[at], []).append(row)
    for at, text in enumerate(plain):
        members.setdefault(text, []).append(at)
    aside, sharing = dict[int, Rows](), set[str]()
    for text, group in members.items():
        names = dict.fromkeys(query_ids[at] for at in group)
        if len(names) == 1 and text not in own:
            continue
        names = names if len(names) > 1 else {}
        sharing |= names.keys()
        known = corpus.rows([doc_id for name in names for doc_id in positives.get(name, ())])
        several = corpus.copies(np.array([*known[known >= 0].tolist(), *own.get(text, ())], np.int64))
        aside |= dict.fromkeys(group, several)
    return aside, sharing
