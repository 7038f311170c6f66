"""An index in shards searched shard by shard: the lists of each are kept until all are there, and merged.

A part is what one shard adds: the blocks of the whole that begin in it. So every block is multiplied as it would be in
one file, and the lists are the same to the bit.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from hardneg.atomic_write import replacing
from hardneg.data.flat import FlatVectors
from hardneg.data.shards import Shards
from hardneg.indexes.exact import ExactOptions, search_exact, settled
from hardneg.indexes.flat import FlatSearcher
from hardneg.indexes.max_passage import PooledSearcher
from hardneg.indexes.multi_vector_exact import MultiVectorSearcher
from hardneg.indexes.sparse import SparseSearcher
from hardneg.indexes.validation import check_encoded, check_vectors, in_order
from hardneg.protocols import Searcher
from hardneg.types import Encoded, Hits, SparseRows, TokenVectors

_WHOLE = ("bf16",)
"""Engines of which the last bits of a score depend on what else is searched: they search all shards in one pass."""


def shard_by_shard(searcher: Searcher, kept: Path) -> Searcher:
    """A searcher that keeps in a folder what it found in each shard, for a search that goes on after a stop.

    Of what is not in shards, or has structure that is searched as a whole, it is `searcher` itself.
    """
    if isinstance(searcher, PooledSearcher):
        return replace(searcher, searcher=shard_by_shard(searcher.searcher, kept))
    if not isinstance(searcher, FlatSearcher | SparseSearcher | MultiVectorSearcher):
        return searcher
    shards = searcher.flat.shards if isinstance(searcher, FlatSearcher) else searcher.store.shards
    return ShardedSearcher(searcher, shards, kept) if len(shards.listed) > 1 else searcher


@dataclass(frozen=True)
class ShardedSearcher:
    """Searches a shard after the other; `kept`: the folder of what was found in each."""

    whole: FlatSearcher | SparseSearcher | MultiVectorSearcher
    shards: Shards
    kept: Path

    def search(self, queries: Sequence[str] | Encoded, k: int) -> Hits:
        """What `whole` finds; of a search that was stopped, only the shards that were not searched are.

        Raises:
            UsageError: what `whole` refuses.
            ArtifactError: a shard is damaged, or cannot be had.
        """
        wanted = check_encoded("an index in shards is searched", queries)
        name = _digest(wanted, k, [shard.digest for shard in self.shards.listed])
        whole = self.kept / f"{name}.npz"
        if (found := _read(whole)) is not None:
            return found
        paths = [self.kept / f"{name}-{number}.npz" for number in range(len(self.shards.listed))]
        found = None
        for path, part in zip(paths, self._parts(wanted, k), strict=True):
            own = _read(path)
            if own is None:
                _write(path, own := part())
            found = own if found is None else merged_lists(found, own)
        assert found is not None
        _write(whole, found)
        for path in paths:
            path.unlink()
        return found

    def encoded(self, rows: NDArray[np.int64]) -> Encoded:
        """What the index holds of rows int64 [n]."""
        return self.whole.encoded(rows)

    @property
    def at_once(self) -> int:
        """How many documents may be asked for at a time, where `whole` says it."""
        return cast(int, getattr(self.whole, "at_once"))  # noqa: B009

    def _parts(self, queries: Encoded, k: int) -> Sequence[Callable[[], Hits]]:
        """What searches each shard's part, in order."""
        edges = self.shards.first.tolist()
        if not isinstance(self.whole, FlatSearcher):
            parts = (replace(self.whole, rows=range(*pair)) for pair in pairwise(edges))
            return [partial(part.search, queries, k) for part in parts]
        vectors = check_vectors("flat", queries)
        options = settled(self.whole.options or ExactOptions(), len(self.whole.flat), vectors)
        grid = len(self.whole.flat) if options.engine in _WHOLE else options.corpus_block or 1
        edges = [min(-(-edge // grid) * grid, edges[-1]) for edge in edges]
        searcher = replace(self.whole, options=options)
        return [partial(_search_flat, searcher, vectors, k, range(*pair)) for pair in pairwise(edges)]


def _search_flat(searcher: FlatSearcher, queries: NDArray[np.float32], k: int, rows: range) -> Hits:
    part: FlatVectors = searcher.flat.part(rows)
    found = search_exact(part, queries, k, searcher.options, searcher.progress)
    return Hits(np.where(found.rows >= 0, found.rows + rows.start, -1), found.scores)


def merged_lists(one: Hits, other: Hits) -> Hits:
    """The best of two lists a query, [Q, k] each, of different rows: by descending score, ties by ascending row."""
    k = one.rows.shape[1]
    rows, scores = np.concatenate([one.rows, other.rows], 1), np.concatenate([one.scores, other.scores], 1)
    pads = np.iinfo(np.int64).max
    hits = in_order(np.where(rows < 0, pads, rows), scores)
    return Hits(np.where(hits.rows == pads, -1, hits.rows)[:, :k], hits.scores[:, :k])


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


def _write(path: Path, hits: Hits) -> None:
    with replacing(path) as file:
        np.savez(file, rows=hits.rows, scores=hits.scores, allow_pickle=False)


def _read(path: Path) -> Hits | None:
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as found:
        return Hits(found["rows"], found["scores"])
