"""Index folders in shards, as earlier versions wrote them, cut from one of any form."""

import json
import shutil
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from hardneg.formats.vectors import TOKEN_OFFSETS, FlatVectors, FlatWriter
from hardneg.indexes.exact import FlatSearcher
from hardneg.indexes.open_store import open_store
from hardneg.records import DOC_IDS, SHARDS, TERMS, WEIGHTS


def in_shards(source: Path, out: Path, cuts: Sequence[int]) -> Path:
    """The index in folder `source`, cut at these rows."""
    searcher = open_store(source)
    store = searcher.flat if isinstance(searcher, FlatSearcher) else searcher.store
    listed = []
    for number, (start, stop) in enumerate(pairwise([0, *cuts, len(store)])):
        folder = out / f"shard-{number:05d}"
        with _writer(store, folder, start, stop) as writer:
            writer.write(store.read(start, stop))
            writer.write_doc_ids(store.doc_ids[start:stop])
            writer.close()
        size = sum(path.stat().st_size for path in folder.iterdir())
        listed.append({"place": folder.name, "rows": stop - start, "bytes": size, "digest": ""})
    for name in (DOC_IDS, TOKEN_OFFSETS, WEIGHTS, TERMS):
        if (source / name).exists():
            shutil.copy(source / name, out / name)
    dimension = {} if hasattr(store, "width") else {"dimension": store.dimension}
    (out / SHARDS).write_text(json.dumps({"version": 1, **dimension, "shards": listed}))
    return out


def _writer(store, folder, start, stop):
    if hasattr(store, "width"):
        from hardneg_sparse.store import SparseWriter

        return SparseWriter(folder, store.width, stop - start)
    if not isinstance(store, FlatVectors):
        from hardneg_multi_vector.store import TokenWriter

        return TokenWriter(folder, store.dimension, store.offsets[start : stop + 1] - store.offsets[start])
    return FlatWriter(folder, store.dimension, stop - start)
