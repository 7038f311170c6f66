"""Blocks put into one folder or into shards, by several writers, in any order, and after kills."""

import json
import threading

import pytest
from encoders.test_sharded import FP32, check_same, corpus, encode, models
from tiny import BY_FAMILY

from hardneg.encoders.corpus import sharding
from hardneg.encoders.corpus.sharding import OneFolder, ShardFolders, Sharding, ShardWork
from hardneg.encoders.corpus.stream import encoded_blocks
from hardneg.formats.vectors import shard_folder
from hardneg.formats.vectors.shards import SHARD
from hardneg.indexes.open_store import open_store
from hardneg.records.layout import SHARDS
from hardneg.runtime.distributed import World
from hardneg.runtime.progress import Silent
from tests.nfs_locks import as_nfs

__all__ = ["corpus", "models"]  # fixtures


def rows_of(encoder, corpus, folder):
    folder.mkdir(exist_ok=True)
    return encoder.rows(corpus, None, folder, Silent(), World())


def shards_of(encoder, corpus, folder, writer=0, sharding=Sharding(3)):  # noqa: B008
    return ShardFolders(ShardWork.begun(encoder, rows_of(encoder, corpus, folder), folder, sharding), writer)


def made(store, encoder, rows, numbers):
    return encoded_blocks(encoder, rows, list(numbers), len(rows), FP32, lambda count: None)


def put(store, numbers):
    encoder, rows = store.work.encoder, store.work.rows
    for block in made(store, encoder, rows, numbers):
        store.write_block(*block)


@pytest.mark.parametrize("kind", [name for name in BY_FAMILY if name != "dense"])
def test_many_writers_in_any_order_make_what_one_does(models, corpus, tmp_path, monkeypatch, kind):
    encoder = models[kind]
    monkeypatch.setattr(encoder, "block", 4)
    first = shards_of(encoder, corpus, tmp_path / "shards")
    assert first.numbers == range(8) and first.finished_blocks() == set()
    for writer, number in enumerate([7, 0, 3, 6, 1, 4, 2, 5], 1):
        put(shards_of(encoder, corpus, tmp_path / "shards", writer), [number])
        assert number in first.finished_blocks()
    assert len(list((tmp_path / "shards").glob(f"*/{SHARD}"))) == 3  # closed by who wrote the last block of each
    first.close()
    found = open_store(tmp_path / "shards")
    encode(encoder, corpus, tmp_path / "own", Sharding(3))
    check_same(encode(encoder, corpus, tmp_path / "whole"), found)
    for path in sorted((tmp_path / "own").glob("shard-*/*")):
        assert path.read_bytes() == (tmp_path / "shards" / path.relative_to(tmp_path / "own")).read_bytes()
    assert (tmp_path / "own" / SHARDS).read_bytes() == (tmp_path / "shards" / SHARDS).read_bytes()


def test_one_folder_is_the_index_itself(models, corpus, tmp_path):
    encoder, folder = models["static"], tmp_path / "one"
    rows = rows_of(encoder, corpus, folder)
    for writer, number in enumerate([5, 7, 0, 1, 6, 3, 4, 2]):
        store = OneFolder(encoder, rows, folder, writer)
        for block in made(store, encoder, rows, [number]):
            store.write_block(*block)
    assert store.finished_blocks() == set(store.numbers) == set(range(8))
    store.close()
    store.close()
    assert store.finished_blocks() == set(range(8))
    check_same(encode(encoder, corpus, tmp_path / "whole"), open_store(folder))


@pytest.mark.parametrize("at", ["close_index", "close_shard"])
def test_who_goes_on_closes_what_a_killed_writer_could_not(models, corpus, tmp_path, monkeypatch, at):
    place = Sharding(2)

    def dies(*given, **more):
        if at == "close_index":
            (tmp_path / "here/shard-00001/.docid.77.tmp").write_text("half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        store = shards_of(models["static"], corpus, tmp_path / "here", 3, place)
        put(store, range(7))
        patched.setattr(sharding, at, dies)
        with pytest.raises(KeyboardInterrupt):
            put(store, [7])
    again = shards_of(models["static"], corpus, tmp_path / "here", 0, place)
    assert again.finished_blocks() == set(range(8))
    again.close()
    said = json.loads((tmp_path / "here/shard-00001" / SHARD).read_text())
    assert sorted(said["files"]) == ["docid", "index"]
    check_same(encode(models["static"], corpus, tmp_path / "whole"), open_store(tmp_path / "here"))


def test_writers_at_once_close_each_shard_once(models, corpus, tmp_path, monkeypatch):
    closed, close_shard = list[str](), shard_folder.close_shard

    def counted(folder, *given):
        closed.append(folder.name)
        close_shard(folder, *given)

    monkeypatch.setattr(sharding, "close_shard", counted)
    stores = [shards_of(models["static"], corpus, tmp_path / "here", writer) for writer in range(8)]
    blocks = list(made(stores[0], models["static"], stores[0].work.rows, range(8)))
    together = threading.Barrier(8)

    def write(store, block):
        together.wait()
        store.write_block(*block)

    threads = [threading.Thread(target=write, args=pair) for pair in zip(stores, blocks, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(closed) == ["shard-00000", "shard-00001", "shard-00002"]
    stores[0].close()
    check_same(encode(models["static"], corpus, tmp_path / "whole"), open_store(tmp_path / "here"))


def test_what_another_run_began_is_gone_on_with(models, corpus, tmp_path):
    put(shards_of(models["static"], corpus, tmp_path / "here", 1), [0, 1, 5])
    again = shards_of(models["static"], corpus, tmp_path / "here", sharding=Sharding(8))
    assert again.finished_blocks() == {0, 1, 5} and len(again.work.cut) == 4
    found = encode(models["static"], corpus, tmp_path / "here", Sharding(5))  # this machine's own way
    check_same(encode(models["static"], corpus, tmp_path / "whole"), found)


def test_shards_are_locked_on_a_network_file_system(models, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(models["static"], "block", 16)
    asked = as_nfs(monkeypatch)
    store = shards_of(models["static"], corpus, tmp_path, sharding=Sharding(2))
    put(store, store.numbers)
    assert asked and store.finished_blocks() == set(store.numbers)
