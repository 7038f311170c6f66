"""A corpus encoded shard by shard: the same bytes as in one folder, resumed and shared shard by shard."""

import json
import os
import signal
import sys

import forked
import numpy as np
import pytest
from tiny import tiny_multi_vector, tiny_sparse_encoder, tiny_static

from hardneg.encoders.corpus import stream
from hardneg.encoders.corpus.sharding import Sharding, write_shards
from hardneg.encoders.corpus.stream import write_index
from hardneg.encoders.inference import EncodeOptions
from hardneg.encoders.open.resolved import load_encoder
from hardneg.encoders.spec import ModelSpec
from hardneg.formats.corpus import Corpus, write_corpus
from hardneg.formats.segments import Segments
from hardneg.formats.vectors.flat_vectors import FlatWriter
from hardneg.formats.vectors.shards import BEGUN_CUT
from hardneg.indexes.open_store import open_store
from hardneg.records.errors import ArtifactError, PartDone, UsageError
from hardneg.records.layout import SHARDS
from hardneg.records.types import Document
from hardneg.runtime.distributed import World
from hardneg.runtime.progress import Silent
from hardneg.testing.forms import alike

FP32 = EncodeOptions(precision="fp32")
COUNT = 30


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    made = {"static": tiny_static, "sparse": tiny_sparse_encoder, "multi-vector": tiny_multi_vector}
    return {kind: load_encoder(ModelSpec(str(make(folder / kind))), "cpu") for kind, make in made.items()}


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "BLOCK", 4)
    texts = (Document(f"d{n}", "and more " * (n % 5) + f"of the river {n}") for n in range(COUNT))
    write_corpus(texts, tmp_path / "corpus", Silent())
    return Corpus.open(tmp_path / "corpus")


def encode(encoder, corpus, folder, sharding=None, cut=None):
    folder.mkdir(exist_ok=True, parents=True)
    rows = encoder.rows(corpus, cut, folder, Silent(), World())
    if sharding is None:
        write_index([encoder], rows, folder, FP32, Silent())
    else:
        write_shards(encoder, rows, folder, FP32, Silent(), sharding)
    return open_store(folder)


def check_same(one, other):
    assert len(one.store) == len(other.store) if hasattr(one, "store") else len(one.flat) == len(other.flat)
    rows = np.arange(len(one.store if hasattr(one, "store") else one.flat))
    assert alike(one.encoded(rows), other.encoded(rows), tolerance=0)


@pytest.mark.parametrize("kind", ["static", "sparse", "multi-vector"])
@pytest.mark.parametrize("sharding", [Sharding(shards=1), Sharding(shards=3), Sharding(rows=9), Sharding(shards=99)])
def test_shards_hold_what_one_folder_does(models, corpus, tmp_path, monkeypatch, kind, sharding):
    monkeypatch.setattr(models[kind], "block", 4)
    whole = encode(models[kind], corpus, tmp_path / "whole")
    check_same(whole, encode(models[kind], corpus, tmp_path / "shards", sharding))
    assert (tmp_path / "whole/docid").read_bytes() == (tmp_path / "shards/docid").read_bytes()


def test_segments_of_a_document_stay_in_one_shard(models, corpus, tmp_path):
    cut, places = Segments(length=8, count=4), {"whole": None, "shards": Sharding(shards=2)}
    one, two = (encode(models["static"], corpus, tmp_path / name, how, cut) for name, how in places.items())
    check_same(one, two)
    assert (tmp_path / "whole/docid").read_bytes() == (tmp_path / "shards/docid").read_bytes()
    assert (tmp_path / "shards/shard-00001/docid").read_text().startswith("d15#0\n")


def test_machines_without_a_common_disk_make_shards_of_one_index(models, corpus, tmp_path):
    encoder, url = models["static"], f"file://{tmp_path}/far"
    for number, taken in enumerate((slice(2, None), slice(0, 1))):
        with pytest.raises(PartDone, match=r"of 4 shards are at file://.*; .* still missing"):
            encode(encoder, corpus, tmp_path / f"machine{number}", Sharding(4, url=url, taken=taken, of="x"))
        assert not (tmp_path / f"machine{number}" / SHARDS).exists()
        assert not list((tmp_path / f"machine{number}").glob("shard-*"))
    last = encode(encoder, corpus, tmp_path / "machine2", Sharding(4, url=url, taken=slice(1, 2), of="x"))
    check_same(encode(encoder, corpus, tmp_path / "whole"), last)
    again = encode(encoder, corpus, tmp_path / "machine0", Sharding(4, url=url, of="x"))
    check_same(again, last)


def test_shards_of_something_else_are_not_taken(models, corpus, tmp_path):
    encoder, url = models["static"], f"file://{tmp_path}/far"
    encode(encoder, corpus, tmp_path / "a", Sharding(2, url=url, of="x"))
    for other in (Sharding(2, url=url, of="y"), Sharding(3, url=url, of="x")):
        with pytest.raises(ArtifactError, match=r"shard-0000.: is a shard of another corpus, model or cut"):
            encode(encoder, corpus, tmp_path / "b", other)
    with pytest.raises(UsageError, match="there are 2 shards, counted from 0"):
        encode(encoder, corpus, tmp_path / "c", Sharding(2, url=url, taken=slice(2, 4), of="x"))


def test_a_stopped_run_keeps_its_shards_and_its_cut(models, corpus, tmp_path, monkeypatch):
    encoder, written, numbers = models["static"], FlatWriter.write_block, list[int]()

    def stops_at_the_fifth(writer, number, *rest):
        numbers.append(number)
        if len(numbers) == 5:
            raise KeyboardInterrupt
        written(writer, number, *rest)

    monkeypatch.setattr(FlatWriter, "write_block", stops_at_the_fifth)
    with pytest.raises(KeyboardInterrupt):
        encode(encoder, corpus, tmp_path / "shards", Sharding(shards=4))
    assert sorted(path.name for path in (tmp_path / "shards").glob("shard-*/shard.json"))
    monkeypatch.setattr(stream, "BLOCK", 4)
    found = encode(encoder, corpus, tmp_path / "shards", Sharding(shards=2))
    assert sorted(numbers) == [0, 1, 2, 3, 4, 4, 5, 6, 7]
    assert len(json.loads((tmp_path / "shards" / BEGUN_CUT).read_text())) == 5
    check_same(encode(encoder, corpus, tmp_path / "whole"), found)


KILLED = """
import os, signal, sys
from pathlib import Path
import fsspec.implementations.local as local
from hardneg.formats.corpus import Corpus
from hardneg.runtime.distributed import World
from hardneg.encoders.corpus import stream
from hardneg.encoders.inference import EncodeOptions
from hardneg.encoders.open.resolved import load_encoder
from hardneg.encoders.corpus.sharding import Sharding, write_shards
from hardneg.encoders.spec import ModelSpec
from hardneg.runtime.progress import Silent

model, corpus, folder, url, at = sys.argv[1:]
put, done = local.LocalFileSystem.put_file, []

def dies(self, source, place, *rest, **more):
    done.append(place)
    if len(done) == int(at):
        data = Path(source).read_bytes()
        Path(place).write_bytes(data[: len(data) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    return put(self, source, place, *rest, **more)

local.LocalFileSystem.put_file, stream.BLOCK = dies, 4
encoder, rows = load_encoder(ModelSpec(model), "cpu"), Corpus.open(Path(corpus))
options = EncodeOptions(precision="fp32")
write_shards(encoder, rows, Path(folder), options, Silent(), Sharding(3, url=url, of="x"))
"""


@pytest.mark.slow
@pytest.mark.parametrize("at", range(1, 10))
def test_a_writer_killed_in_the_middle_of_an_upload_leaves_nothing_that_is_read(models, corpus, tmp_path, at):
    url, folder = f"file://{tmp_path}/far", tmp_path / "shards"
    folder.mkdir()
    model = models["static"].spec.name
    given = [model, str(tmp_path / "corpus"), str(folder), url, str(at)]
    ended = forked.run([sys.executable, "-c", KILLED, *given], env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert ended.returncode == -signal.SIGKILL
    complete = len(list((tmp_path / "far").glob("*/shard.json")))
    assert complete == (at - 1) // 3 and not (folder / SHARDS).exists()
    found = encode(models["static"], corpus, folder, Sharding(3, url=url, of="x"))
    check_same(encode(models["static"], corpus, tmp_path / "whole"), found)
