"""An index in shards searched shard by shard: the lists of each are kept until all are there, and merged.

A part holds the cells of the whole index that begin in one shard. Cells are equal on all devices and for all
options, and the blocks that are multiplied never reach over one. So every block is multiplied as it would be in one
file, and the lists are the same to the bit. Engines other than torch's, of which the last bits of a score depend on
what else is searched, go through all shards in one pass.

Where machines share the search, a part is the shard itself, searched by torch from its own first row on: small shards
can be shared too, and a part is the same whichever machine searches it. Kept lists are named by their rows: a search
that is cut in another way does not take them for its own.
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
from hardneg.formats.vectors.remote import find_file, joined, put_file
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
from hardneg.store.digest import digest

_IN_PARTS: Engine = "torch"
"""The engine of which a score is the same to the bit whatever else is searched, block by block."""
_CELL = 65_536
"""Rows of vectors: whole blocks of that engine, on every device."""


@dataclass(frozen=True)
class KeptLists:
    """The kept lists of shards: in a folder, and at a URL that other machines read and write too."""

    folder: Path
    url: str | None = None

    def find(self, name: str) -> Hits | None:
        """Return the lists of this name, or None.

        Raises:
            ArtifactError: they are damaged, or were put under another name.
        """
        path = self.folder / f"{name}.npz"
        if not path.exists() and self.url is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            aside = path.with_suffix(".new")
            if find_file(joined(self.url, path.name), aside):
                _read(aside, name, joined(self.url, path.name))
                aside.replace(path)
        return _read(path, name, str(path)) if path.exists() else None

    def keep(self, name: str, hits: Hits) -> None:
        """Write the lists, whole or not at all."""
        path = self.folder / f"{name}.npz"
        with replacing(path) as file:
            np.savez(file, name=np.array(name), rows=hits.rows, scores=hits.scores, allow_pickle=False)
        if self.url is not None:
            put_file(path, joined(self.url, path.name))

    def drop(self, name: str) -> None:
        """Remove the local lists; those at the URL stay."""
        (self.folder / f"{name}.npz").unlink(missing_ok=True)

    def drop_begun(self, name: str) -> None:
        """Remove the checkpoints of the search of this name."""
        drop(self.folder, name)


def _read(path: Path, name: str, source: str) -> Hits:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            stored_name, hits = str(arrays["name"]), Hits(arrays["rows"], arrays["scores"])
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise ArtifactError(
            f"{source}: damaged lists of a shard ({error}): remove the file, and search again"
        ) from error
    if stored_name != name or hits.rows.ndim != 2 or hits.rows.shape != hits.scores.shape:
        raise ArtifactError(f"{source}: lists of another search or shard: remove the file, and search again")
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
    """Searches a shard after the other; keeps the hits of each, and checkpoints of the current one.

    name: of these queries, for kept files; by default a digest of the encoded queries.
    """

    whole: FlatSearcher | SparseSearcher | MultiVectorSearcher
    shards: Shards
    kept: KeptLists
    name: str | None = None

    @property
    def several(self) -> bool:
        """Whether there are shards that machines can share."""
        return len(self.shards.listed) > 1

    def search(self, queries: Sequence[str] | Encoded, k: int) -> Hits:
        """Search as `whole`; a resumed search reads only the rows that are missing.

        Raises:
            UsageError: what `whole` refuses.
            ArtifactError: a shard is damaged, or cannot be had.
        """
        wanted = check_encoded("an index in shards is searched", queries)
        name = self._named(wanted, k)
        if (hits := KeptLists(self.kept.folder).find(name)) is not None:
            return hits
        parts = self._parts(name, wanted, k)
        for part in parts:
            own = self._list(part) if self.several else part.search()
            hits = own if hits is None else merged_lists(hits, own)
        assert hits is not None
        KeptLists(self.kept.folder).keep(name, hits)
        for part in parts:
            self.kept.drop(part.name)
            self.kept.drop_begun(part.name)
        return hits

    def search_some(self, queries: Encoded, k: int, taken: slice) -> set[int]:
        """Search the shards in `taken`; return the numbers of those whose lists are still missing."""
        parts = self._parts(self._named(queries, k), queries, k)
        for part in parts[taken]:
            self._list(part)
        return {number for number, part in enumerate(parts) if self.kept.find(part.name) is None}

    def _list(self, part: "_ShardPart") -> Hits:
        if (hits := self.kept.find(part.name)) is None:
            self.kept.keep(part.name, hits := part.search())
            self.kept.drop_begun(part.name)
        return hits

    def _named(self, queries: Encoded, k: int) -> str:
        shards = [shard.digest for shard in self.shards.listed]
        return _digest(queries, k, shards) if self.name is None else digest([self.name, k, shards])

    def encoded(self, rows: NDArray[np.int64]) -> Encoded:
        """Return rows int64 [n] of the index."""
        return self.whole.encoded(rows)

    @property
    def at_once(self) -> int:
        """How many documents to decode at a time, if `whole` limits it."""
        return cast(int, getattr(self.whole, "at_once"))  # noqa: B009

    def _parts(self, name: str, queries: Encoded, k: int) -> "Sequence[_ShardPart]":
        """The searches of all shards, in order, for the queries called `name`: together they cover all rows."""
        whole, edges, alone = self.whole, self.shards.first.tolist(), self.kept.url is None
        if isinstance(whole, MultiVectorSearcher):
            edges = [*(cell_at(whole.store, edge) for edge in edges[:-1]), edges[-1]] if alone else edges
        elif isinstance(whole, FlatSearcher):
            options, vectors = whole.options or ExactOptions(), check_vectors("flat", queries)
            options = settled(options if alone else replace(options, engine=_IN_PARTS), len(whole.flat), vectors)
            cell = _CELL if options.engine == _IN_PARTS else max(1, len(whole.flat))
            edges = [min(-(-edge // cell) * cell, edges[-1]) for edge in edges] if alone else edges
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
