"""Index folders in shards, cut from one of any form."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from hardneg.formats.vectors.flat_vectors import FlatVectors, FlatWriter
from hardneg.formats.vectors.shard_folder import close_folder, close_shard
from hardneg.formats.vectors.shards import shard_name
from hardneg.indexes.backends.flat import FlatSearcher
from hardneg.indexes.open_store import open_store


def in_shards(source: Path, out: Path, cuts: Sequence[int]) -> Path:
    """The index in folder `source`, cut at these rows."""
    searcher = open_store(source)
    store = searcher.flat if isinstance(searcher, FlatSearcher) else searcher.store
    edges, shards = [0, *cuts, len(store)], []
    for number, (start, stop) in enumerate(pairwise(edges)):
        folder = out / shard_name(number)
        with _writer(store, folder, start, stop) as writer:
            writer.write(store.read(start, stop))
            writer.write_doc_ids(store.doc_ids[start:stop])
            writer.close()
        size = {"terms": store.width} if hasattr(store, "width") else {"dimension": store.dimension}
        shards.append(close_shard(folder, stop - start, size))
    close_folder(out, shards)
    return out


def _writer(store, folder, start, stop):
    if hasattr(store, "width"):
        from hardneg_sparse.store import SparseWriter

        return SparseWriter(folder, store.width, stop - start)
    if not isinstance(store, FlatVectors):
        from hardneg_multi_vector.store import TokenWriter

        return TokenWriter(folder, store.dimension, store.offsets[start : stop + 1] - store.offsets[start])
    return FlatWriter(folder, store.dimension, stop - start)
