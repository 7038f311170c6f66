"""The documents of an index that tests cut into shards, and its shards searched one by one."""

from pathlib import Path

from hardneg.indexes.kernels.exact.exact import ExactOptions
from hardneg.indexes.open_store import open_store
from hardneg.indexes.shard_search import KeptLists, shard_by_shard
from hardneg.testing.forms import drawn_documents

COUNT = 300


def documents(form: str):
    return drawn_documents(form, COUNT, 8, exact=False)


def parts_of(folder: Path, kept: Path, options: ExactOptions | None = None):
    return shard_by_shard(open_store(folder, options or ExactOptions(device="cpu", corpus_block=64)), KeptLists(kept))
