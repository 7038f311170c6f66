"""A corpus in shards: the same bytes as in one folder."""

import numpy as np
import pytest
from tiny import BY_FAMILY

from hardneg.encoders.corpus import stream
from hardneg.encoders.corpus.stream import Layout, encoded_blocks, join_blocks
from hardneg.encoders.open.resolved import load_encoder
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.formats.corpus import Corpus, write_corpus
from hardneg.formats.segments import Segments
from hardneg.indexes.open_store import open_store
from hardneg.records.types import Document
from hardneg.runtime.distributed import World
from hardneg.runtime.progress import Silent
from hardneg.store.blocks import BlockStore
from hardneg.testing.forms import alike

FP32 = EncodeOptions(precision="fp32")
COUNT = 30
KINDS = {name: make for name, make in BY_FAMILY.items() if name != "dense"}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {kind: load_encoder(ModelSpec(str(make(folder / kind))), "cpu") for kind, make in KINDS.items()}


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "BLOCK", 4)
    texts = (Document(f"d{n}", "and more " * (n % 5) + f"of the river {n}") for n in range(COUNT))
    write_corpus(texts, tmp_path / "corpus", Silent())
    return Corpus.open(tmp_path / "corpus")


def encode(encoder, corpus, folder, sharding=(), cut=None):
    folder.mkdir(exist_ok=True, parents=True)
    rows = encoder.rows(corpus, cut, folder, Silent(), World())
    store, sizes = BlockStore(folder / "blocks"), Layout.of_encoder(encoder, rows).sizes
    store.begin(sizes)
    for number, block in encoded_blocks(encoder, rows, range(len(sizes)), len(rows), FP32, lambda count: None):
        store.write(number, block)
    join_blocks(encoder, rows, store, folder, *sharding)
    return open_store(folder)


def check_same(one, other):
    assert len(one.store) == len(other.store) if hasattr(one, "store") else len(one.flat) == len(other.flat)
    rows = np.arange(len(one.store if hasattr(one, "store") else one.flat))
    assert alike(one.encoded(rows), other.encoded(rows), tolerance=0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sharding", [(1,), (3,), (None, 9), (99,)])
def test_shards_hold_what_one_folder_does(models, corpus, tmp_path, monkeypatch, kind, sharding):
    monkeypatch.setattr(models[kind], "block", 4)
    whole = encode(models[kind], corpus, tmp_path / "whole")
    check_same(whole, encode(models[kind], corpus, tmp_path / "shards", sharding))
    assert (tmp_path / "whole/docid").read_bytes() == (tmp_path / "shards/docid").read_bytes()


def test_segments_of_a_document_stay_in_one_shard(models, corpus, tmp_path):
    cut, places = Segments(length=8, count=4), {"whole": (), "shards": (2,)}
    one, two = (encode(models["static"], corpus, tmp_path / name, how, cut) for name, how in places.items())
    check_same(one, two)
    assert (tmp_path / "whole/docid").read_bytes() == (tmp_path / "shards/docid").read_bytes()
    assert (tmp_path / "shards/shard-00001/docid").read_text().startswith("d15#0\n")
