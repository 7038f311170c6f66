"""Token ids of a corpus, kept in its store: later encodings by the same tokenizer read them instead of the texts.

An artifact of the type `tokens` that no result uses: `artifacts gc` may delete it, and an encoding writes it again.
<document>.ids: the block that begins with this document, two arrays of NumPy: where each row begins, int64 [rows + 1],
and the ids, uint16 or int32.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.protocol import StoredRows, TextEncoder
from hardneg.encoders.tokens.backend import Ids
from hardneg.encoders.tokens.segmenting import SegmentedCorpus, SegmentTokens, rows_of
from hardneg.encoders.tokens.tokens import Tokens
from hardneg.formats.corpus import TEXTS, Corpus
from hardneg.records.errors import ArtifactError, HardnegError
from hardneg.store.artifacts import MANIFEST, Store
from hardneg.store.atomic_write import replacing
from hardneg.store.digest import digest

WORTH_KEEPING = 16_384
"""Documents from which on their ids are kept."""
_VERSION = 2
_IDS, _SMALL = ".ids", 1 << 16
_log = logging.getLogger(__name__)

_Make = Callable[[int, Sequence[str]], Tokens | SegmentTokens]


class KeptIds:
    """The stored blocks and those that are added; several threads and processes may use it. `kept_ids` opens it.

    Problems with its files cost time, not results: they are logged, and no more is kept.
    """

    def __init__(self, folder: Path, vocabulary: int) -> None:
        """Opens ids below `vocabulary`, in a finished artifact or in the workspace of one."""
        self.folder = folder
        self._dtype = np.uint16 if vocabulary <= _SMALL else np.int32
        self._keeps = not (folder / MANIFEST).exists()

    @property
    def blocks(self) -> set[int]:
        """The first document of each stored block."""
        return {int(path.stem) for path in self.folder.glob(f"*{_IDS}")}

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
        try:
            with (self.folder / f"{start}{_IDS}").open("rb") as file:
                offsets, ids = (np.load(file, allow_pickle=False) for _ in range(2))
        except (OSError, ValueError):
            return None
        return ids.astype(np.int32), offsets

    def add(self, start: int, ids: Ids) -> None:
        """Keeps the ids of a block."""
        if not self._keeps:
            return
        try:
            with replacing(self.folder / f"{start}{_IDS}") as file:
                np.save(file, ids[1], allow_pickle=False)
                np.save(file, ids[0].astype(self._dtype), allow_pickle=False)
        except OSError as error:
            _log.warning("%s: token ids are not kept (%s)", self.folder, error)
            self._keeps = False


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
    try:
        finished = store.find(key)
    except ArtifactError as error:
        _log.warning("%s: token ids are not read; `hardneg artifacts gc` removes them", error)
        yield None
        return
    if finished is not None or store.read_only:
        yield KeptIds(finished.path, source.vocabulary) if finished is not None else None
        return
    with store.lock(key, shared=True):  # other processes may write them at the same time
        folder = store.path(key) if store.path(key).exists() else store.workspace(key)
        yield (ids := KeptIds(folder, source.vocabulary))
    if ids.blocks >= set(starts):
        _finish(store, key, ids, origin)


def _content(corpus: Corpus) -> str | None:
    """The identity of a corpus: the digest of its file in its artifact's manifest."""
    with suppress(ArtifactError):
        if (corpus.folder / MANIFEST).exists():
            artifact = Store(corpus.folder.parent).find(corpus.folder.name)
            return None if artifact is None else artifact.files.get(TEXTS) or artifact.key
    return None


def _finish(store: Store, key: str, ids: KeptIds, origin: dict[str, Any]) -> None:
    """Commits the ids as an artifact, unless another process still writes them or has committed them."""

    def leave_it() -> None:
        raise BlockingIOError

    try:
        with store.lock(key, waiting=leave_it):
            store.recover(key)
            if not store.path(key).exists():
                for path in ids.folder.iterdir():
                    if path.suffix != _IDS:  # what a killed process was writing
                        path.unlink()
                store.commit(key, "tokens", {"blocks": len(ids.blocks)}, origin | {"name": "tokens"})
    except BlockingIOError:
        return
    except HardnegError as error:
        _log.warning("token ids are not kept (%s)", error)
