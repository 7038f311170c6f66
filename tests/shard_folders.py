"""Index folders in shards, cut from one of any form."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from hardneg.formats.vectors.flat_vectors import TOKEN_OFFSETS, FlatVectors, FlatWriter
from hardneg.formats.vectors.shard_folder import close_folder, close_shard
from hardneg.formats.vectors.shards import shard_name
from hardneg.formats.vectors.sparse_store import SHAPE, SparseStore, SparseWriter
from hardneg.formats.vectors.token_store import TokenStore, TokenWriter


def in_shards(source: Path, out: Path, cuts: Sequence[int]) -> Path:
    """The index in folder `source`, cut at these rows."""
    opened = SparseStore if (source / SHAPE).exists() else TokenStore if _tokens(source) else FlatVectors
    store = opened.open(source)
    edges, shards = [0, *cuts, len(store)], []
    for number, (start, stop) in enumerate(pairwise(edges)):
        folder = out / shard_name(number)
        with _writer(store, folder, start, stop) as writer:
            writer.write(store.read(start, stop))
            writer.write_doc_ids(store.doc_ids[start:stop])
            writer.close()
        size = {"terms": store.width} if opened is SparseStore else {"dimension": store.dimension}
        shards.append(close_shard(folder, stop - start, size))
    close_folder(out, shards)
    return out


def _tokens(source: Path) -> bool:
    return (source / TOKEN_OFFSETS).exists()


def _writer(store, folder, start, stop):
    if isinstance(store, SparseStore):
        return SparseWriter(folder, store.width, stop - start)
    if isinstance(store, TokenStore):
        return TokenWriter(folder, store.dimension, store.offsets[start : stop + 1] - store.offsets[start])
    return FlatWriter(folder, store.dimension, stop - start)
