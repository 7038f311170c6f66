"""An index in shards searched shard by shard: the lists of each are kept until all are there, and merged.

A part holds the cells of the whole index that begin in one shard. Cells are equal on all devices and for all
options, and the blocks that are multiplied never reach over one. So every block is multiplied as it would be in one
file, and the lists are the same to the bit. Engines other than torch's, of which the last bits of a score depend on
what else is searched, go through all shards in one pass.
Kept lists are named by their rows: a search that is cut in another way does not take them for its own.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, cast
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.vectors.begun_blocks import drop
from hardneg.formats.vectors.shards import Shards
from hardneg.indexes.backends.flat import FlatSearcher
from hardneg.indexes.backends.sparse import SparseSearcher
from hardneg.indexes.kernels.checks import check_encoded, check_vectors, merged_lists
from hardneg.indexes.kernels.exact.exact import Engine, ExactOptions, search_exact, settled
from hardneg.indexes.kernels.max_passage import PooledSearcher
from hardneg.indexes.kernels.maxsim.exact_maxsim import MultiVectorSearcher, cell_at
from hardneg.records.errors import ArtifactError
from hardneg.records.types import Encoded, Hits, SparseRows, TokenVectors
from hardneg.registry.protocols import Searcher
from hardneg.store.atomic_write import replacing

_IN_PARTS: Engine = "torch"
"""The engine of which a score is the same to the bit whatever else is searched, block by block."""
_CELL = 65_536
"""Rows of vectors: whole blocks of that engine, on every device."""


@dataclass(frozen=True)
class KeptLists:
    """The kept lists of shards, in a folder."""

    folder: Path

    def find(self, name: str) -> Hits | None:
        """Return the lists of this name, or None.

        Raises:
            ArtifactError: they are damaged, or were put under another name.
        """
        path = self.folder / f"{name}.npz"
        return _read(path, name) if path.exists() else None

    def keep(self, name: str, hits: Hits) -> None:
        """Write the lists, whole or not at all."""
        path = self.folder / f"{name}.npz"
        with replacing(path) as file:
            np.savez(file, name=np.array(name), rows=hits.rows, scores=hits.scores, allow_pickle=False)

    def drop(self, name: str) -> None:
        """Remove the lists."""
        (self.folder / f"{name}.npz").unlink(missing_ok=True)

    def drop_begun(self, name: str) -> None:
        """Remove the checkpoints of the search of this name."""
        drop(self.folder, name)


def _read(path: Path, name: str) -> Hits:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            stored_name, hits = str(arrays["name"]), Hits(arrays["rows"], arrays["scores"])
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise ArtifactError(f"{path}: damaged lists of a shard ({error}): remove the file, and search again") from error
    if stored_name != name or hits.rows.ndim != 2 or hits.rows.shape != hits.scores.shape:
        raise ArtifactError(f"{path}: lists of another search or shard: remove the file, and search again")
    return hits


def shard_by_shard(searcher: Searcher, kept: KeptLists) -> Searcher:
    """Return a searcher that keeps its hits and checkpoints of each shard, so that a stopped search can resume.

    A folder without shards is one shard. For an index that is searched as a whole, it is `searcher` itself.
    """
    if isinstance(searcher, PooledSearcher):
        return replace(searcher, searcher=shard_by_shard(searcher.searcher, kept))
    if not isinstance(searcher, FlatSearcher | SparseSearcher | MultiVectorSearcher):
        return searcher
    shards = searcher.flat.shards if isinstance(searcher, FlatSearcher) else searcher.store.shards
    return ShardedSearcher(searcher, shards, kept)


@dataclass(frozen=True)
class ShardedSearcher:
    """Searches a shard after the other; keeps the hits of each, and checkpoints of the current one."""

    whole: FlatSearcher | SparseSearcher | MultiVectorSearcher
    shards: Shards
    kept: KeptLists

    def search(self, queries: Sequence[str] | Encoded, k: int) -> Hits:
        """Search as `whole`; a resumed search reads only the rows that are missing.

        Raises:
            UsageError: what `whole` refuses.
            ArtifactError: a shard is damaged.
        """
        wanted = check_encoded("an index in shards is searched", queries)
        name = _digest(wanted, k, [shard.digest for shard in self.shards.listed])
        if (hits := self.kept.find(name)) is not None:
            return hits
        parts = self._parts(name, wanted, k)
        for part in parts:
            own = self._list(part) if len(parts) > 1 else part.search()
            hits = own if hits is None else merged_lists(hits, own)
        assert hits is not None
        self.kept.keep(name, hits)
        for part in parts:
            self.kept.drop(part.name)
            self.kept.drop_begun(part.name)
        return hits

    def _list(self, part: "_ShardPart") -> Hits:
        if (hits := self.kept.find(part.name)) is None:
            self.kept.keep(part.name, hits := part.search())
            self.kept.drop_begun(part.name)
        return hits

    def encoded(self, rows: NDArray[np.int64]) -> Encoded:
        """Return rows int64 [n] of the index."""
        return self.whole.encoded(rows)

    @property
    def at_once(self) -> int:
        """How many documents to decode at a time, if `whole` limits it."""
        return cast(int, getattr(self.whole, "at_once"))  # noqa: B009

    def _parts(self, name: str, queries: Encoded, k: int) -> "Sequence[_ShardPart]":
        """The searches of all shards, in order, for the queries called `name`: together they cover all rows."""
        whole, edges = self.whole, self.shards.first.tolist()
        if isinstance(whole, MultiVectorSearcher):
            edges = [*(cell_at(whole.store, edge) for edge in edges[:-1]), edges[-1]]
        elif isinstance(whole, FlatSearcher):
            options, vectors = whole.options or ExactOptions(), check_vectors("flat", queries)
            options = settled(options, len(whole.flat), vectors)
            cell = _CELL if options.engine == _IN_PARTS else max(1, len(whole.flat))
            edges = [min(-(-edge // cell) * cell, edges[-1]) for edge in edges]
            whole = FlatSearcher(whole.flat, options=options, progress=whole.progress)
        named = [(f"{name}-{start}-{stop}", range(start, stop)) for start, stop in pairwise(edges)]
        search = partial(_search_rows, whole, queries, k)
        return [_ShardPart(part_name, partial(search, rows, self.kept.folder / part_name)) for part_name, rows in named]


@dataclass(frozen=True)
class _ShardPart:
    """A range of rows: the name of its lists, and their search."""

    name: str
    search: Callable[[], Hits]


def _search_rows(
    searcher: FlatSearcher | SparseSearcher | MultiVectorSearcher, queries: Encoded, k: int, rows: range, begun: Path
) -> Hits:
    if isinstance(searcher, SparseSearcher):  # a score is the same in whatever block
        return replace(searcher, rows=rows, begun=begun).search(queries, k)
    options = replace(searcher.options or ExactOptions(), begun=begun)
    if isinstance(searcher, MultiVectorSearcher):
        return replace(searcher, rows=rows, options=options).search(queries, k)
    hits = search_exact(searcher.flat.part(rows), check_vectors("flat", queries), k, options, searcher.progress)
    return Hits(np.where(hits.rows >= 0, hits.rows + rows.start, -1), hits.scores)


def _digest(queries: Encoded, k: int, shards: Sequence[str]) -> str:
    state = hashlib.blake2b(f"{k} {' '.join(shards)}".encode(), digest_size=16)
    arrays: list[NDArray[Any]] = [queries] if isinstance(queries, np.ndarray) else [queries.offsets]
    if isinstance(queries, SparseRows):
        arrays += [queries.terms, queries.weights]
    elif isinstance(queries, TokenVectors):
        arrays += [queries.vectors]
    for array in arrays:
        state.update(f"{array.dtype} {array.shape}".encode())
        state.update(np.ascontiguousarray(array).view(np.uint8).data)
    return state.hexdigest()
