"""A corpus encoded into weights of terms: stopped and gone on with, and searched."""

from pathlib import Path

import numpy as np
import pytest
from tiny import tiny_sparse_encoder

from hardneg.encoders.corpus import stream
from hardneg.encoders.corpus.stream import write_index
from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.formats.corpus import Corpus, write_corpus
from hardneg.formats.vectors.sparse_store import SparseStore
from hardneg.indexes.open_store import open_store
from hardneg.records.types import Document
from hardneg.runtime.progress import Silent
from hardneg.store.blocks import BlockResult, BlockStore

FP32 = EncodeOptions(precision="fp32")
TEXTS = [f"{'and more ' * (n % 5)}of the river {n}" for n in range(11)]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    return load_learner(ModelSpec(str(tiny_sparse_encoder(tmp_path_factory.mktemp("models") / "splade"))), "cpu")


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    monkeypatch.setattr(stream, "BLOCK", 4)
    write_corpus([Document(f"d{n}", text) for n, text in enumerate(TEXTS)], tmp_path / "corpus", Silent())
    return Corpus.open(tmp_path / "corpus")


def test_a_stopped_run_is_gone_on_with(encoder, corpus, tmp_path, monkeypatch):
    numbers, write = list[int](), BlockStore.write

    def stops_at_the_second(store: BlockStore, number: int, block: BlockResult) -> None:
        numbers.append(number)
        if numbers == [0, 1]:
            raise KeyboardInterrupt
        write(store, number, block)

    monkeypatch.setattr(BlockStore, "write", stops_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        write_index([encoder], corpus, tmp_path / "index", FP32, Silent())
    write_index([encoder], corpus, tmp_path / "index", FP32, Silent())
    assert numbers == [0, 1, 1, 2]
    store, whole = SparseStore.open(tmp_path / "index"), encoder.encode(TEXTS, "document", FP32)
    found = store.read(0, len(TEXTS))
    assert (found.offsets == whole.offsets).all() and (found.terms == whole.terms).all()
    np.testing.assert_allclose(found.weights, whole.weights, atol=1e-5)
    assert store.doc_ids[3] == "d3" and store.terms is not None and store.terms[0] == "[PAD]"


def test_a_search_gives_the_similarities_of_sentence_transformers(encoder, corpus, tmp_path):
    write_index([encoder], corpus, tmp_path / "index", FP32, Silent())
    queries = ["river 3", "more and more"]
    hits = open_store(tmp_path / "index").search(encoder.encode(queries, "query", FP32), 11)
    theirs = encoder.module.similarity(encoder.module.encode_query(queries), encoder.module.encode_document(TEXTS))
    expected = np.take_along_axis(theirs.numpy(), np.maximum(hits.rows, 0), axis=1)
    np.testing.assert_allclose(hits.scores, np.where(hits.rows < 0, -np.inf, expected), atol=1e-4)
    assert (hits.rows[:, 0] >= 0).all()
