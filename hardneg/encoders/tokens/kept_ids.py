"""Token ids of a corpus, kept in its store: later encodings by the same tokenizer read them instead of the texts.

An artifact of the type `tokens` that no result uses: `artifacts gc` may delete it, and an encoding writes it again.
ids-<writer>           blocks of documents: the lengths of their rows, int32, and their ids, uint16 or int32
blocks, blocks.<...>   a journal of each writer: block, writer, offset in its file, rows, ids
"""

import fcntl
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.protocol import StoredRows, TextEncoder
from hardneg.encoders.tokens.segmenting import SegmentedCorpus, SegmentTokens, rows_of
from hardneg.encoders.tokens.tokens import Tokens
from hardneg.encoders.tokens.word_ids import Ids
from hardneg.formats.corpus import TEXTS, Corpus
from hardneg.formats.vectors.journal import Journal
from hardneg.records.errors import ArtifactError, HardnegError
from hardneg.store.artifacts import MANIFEST, Store
from hardneg.store.digest import digest

WORTH_KEEPING = 16_384
"""Documents from which on their ids are kept."""
_VERSION = 1
_JOURNAL, _SMALL = "blocks", 1 << 16
_log = logging.getLogger(__name__)

_Make = Callable[[int, Sequence[str]], Tokens | SegmentTokens]


class KeptIds:
    """The stored blocks and those that are added; several threads may use it. `kept_ids` opens it.

    Problems with its files cost time, not results: they are logged, and no more is kept.
    """

    def __init__(self, folder: Path, vocabulary: int) -> None:
        """Opens ids below `vocabulary`, in a finished artifact or in the workspace of one."""
        self._folder, self._mutex = folder, Lock()
        self._dtype = np.dtype("<u2" if vocabulary <= _SMALL else "<i4")
        self._keeps = not (folder / MANIFEST).exists()
        self._file, self._writer, self._journal = -1, 0, Journal(folder, _JOURNAL)
        self._records = {record[0]: record[1:] for record in self._journal.records()}

    @property
    def blocks(self) -> set[int]:
        """The first document of each stored block."""
        return set(self._records)

    @property
    def facts(self) -> dict[str, int]:
        """The numbers of rows and ids."""
        records = self._records.values()
        return {"rows": sum(record[2] for record in records), "tokens": sum(record[3] for record in records)}

    def through(self, make: _Make) -> _Make:
        """Wraps a function that tokenises a block: reads known tokens from here, and keeps new ones."""
        empty = rows_of(make(0, []))
        if empty.columns.keys() != {"input_ids"}:
            return make

        def tokens(start: int, texts: Sequence[str]) -> Tokens | SegmentTokens:
            if (ids := self.get(start)) is not None:
                return replace(empty, columns={"input_ids": ids[0]}, offsets=ids[1])
            result = make(start, texts)
            rows = rows_of(result)
            self.add(start, (rows.columns["input_ids"], rows.offsets))
            return result

        return tokens

    def get(self, start: int) -> Ids | None:
        """The ids of the block with the first document `start`, if stored."""
        if start not in self._records:
            return None
        writer, start_byte, rows, size = self._records[start]
        path = self._folder / f"ids-{writer}"
        lengths = np.fromfile(path, "<i4", rows, offset=start_byte)
        ids = np.fromfile(path, self._dtype, size, offset=start_byte + 4 * rows).astype(np.int32)
        return (ids, np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])) if len(ids) == size else None

    def add(self, start: int, ids: Ids) -> None:
        """Keeps the ids of a block, unless it is stored."""
        values, offsets = ids
        written = np.diff(offsets).astype("<i4").tobytes() + values.astype(self._dtype).tobytes()
        with self._mutex:
            if not self._keeps or start in self._records:
                return
            try:
                start_byte = self._append(written)
                record = (self._writer, start_byte, len(offsets) - 1, len(values))
                self._journal.add(start, *record)
                self._records[start] = record
            except OSError as error:
                _log.warning("%s: token ids are not kept (%s)", self._folder, error)
                self._keeps = False

    def _append(self, written: bytes) -> int:
        if self._file < 0:
            self._open()
        start_byte = os.lseek(self._file, 0, os.SEEK_END)
        left = memoryview(written)
        while left:
            left = left[os.write(self._file, left) :]
        os.fdatasync(self._file)
        return start_byte

    def _open(self) -> None:
        """Opens the first file that no other writer holds, to append to it."""
        for number in count():
            file = os.open(self._folder / f"ids-{number}", os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(file)
                continue
            self._file, self._writer, self._journal = file, number, Journal(self._folder, _JOURNAL, number)
            self._journal.start()
            return

    def close(self) -> None:
        """Closes the files."""
        self._journal.release()
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


@contextmanager
def kept_ids(encoder: TextEncoder, rows: StoredRows, documents: NDArray[np.int64]) -> Iterator[KeptIds | None]:
    """Opens the ids of the corpus whose rows are encoded, in blocks with these first documents, int64 [blocks].

    They become an artifact once all blocks are stored and no process writes. None where nothing is kept: for a small
    corpus or one outside of a store, a read-only store without them, a model without a fast tokenizer.
    """
    corpus: Any = rows.corpus if isinstance(rows, SegmentedCorpus) else rows
    cut = rows.cut if isinstance(rows, SegmentedCorpus) else None
    large = isinstance(corpus, Corpus) and len(corpus) >= WORTH_KEEPING
    source = encoder.token_source() if large and isinstance(encoder, Encoder) else None
    content = _content(corpus) if source else None
    if content is None or source is None:
        yield None
        return
    starts = documents.tolist()
    origin = {"stage": "tokens", "version": _VERSION, "corpus": content, "tokens": source.identity}
    origin |= {"cut": asdict(cut) if cut else None, "blocks": digest(starts)}
    store, key = Store(corpus.folder.parent), digest(origin)
    with _opened(store, key, source.vocabulary) as ids:
        yield ids
    if ids is not None and ids.blocks >= set(starts):
        _finish(store, key, ids, origin)


def _content(corpus: Corpus) -> str | None:
    """The identity of a corpus: the digest of its file in its artifact's manifest."""
    if not (corpus.folder / MANIFEST).exists():
        return None
    with suppress(ArtifactError):
        artifact = Store(corpus.folder.parent).find(corpus.folder.name)
        return None if artifact is None else artifact.files.get(TEXTS) or artifact.key
    return None


@contextmanager
def _opened(store: Store, key: str, vocabulary: int) -> Iterator[KeptIds | None]:
    """Opens the ids of a key, finished or not; other processes may write them at the same time."""
    try:
        finished = store.find(key)
    except ArtifactError as error:
        _log.warning("%s: token ids are not read; `hardneg artifacts gc` removes them", error)
        yield None
        return
    if finished is not None or store.read_only:
        yield KeptIds(finished.path, vocabulary) if finished is not None else None
        return
    with store.lock(key, shared=True):
        ids = KeptIds(store.path(key) if store.path(key).exists() else store.workspace(key), vocabulary)
        try:
            yield ids
        finally:
            ids.close()


def _finish(store: Store, key: str, ids: KeptIds, origin: dict[str, Any]) -> None:
    """Commits the ids as an artifact, unless another process still writes them or has committed them."""
    try:
        with store.lock(key, waiting=_leave_it):
            store.recover(key)
            if not store.path(key).exists():
                store.commit(key, "tokens", ids.facts, origin | {"name": "tokens"})
    except BlockingIOError:
        return
    except HardnegError as error:
        _log.warning("token ids are not kept (%s)", error)


def _leave_it() -> None:
    raise BlockingIOError
