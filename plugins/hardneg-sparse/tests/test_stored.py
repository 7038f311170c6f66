"""A corpus encoded into weights of terms, and searched."""

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
from hardneg.indexes.open_store import open_store
from hardneg.records.types import Document
from hardneg.runtime.progress import Silent

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


def test_a_search_gives_the_similarities_of_sentence_transformers(encoder, corpus, tmp_path):
    write_index([encoder], corpus, tmp_path / "index", FP32, Silent())
    queries = ["river 3", "more and more"]
    hits = open_store(tmp_path / "index").search(encoder.encode(queries, "query", FP32), 11)
    theirs = encoder.module.similarity(encoder.module.encode_query(queries), encoder.module.encode_document(TEXTS))
    expected = np.take_along_axis(theirs.numpy(), np.maximum(hits.rows, 0), axis=1)
    np.testing.assert_allclose(hits.scores, np.where(hits.rows < 0, -np.inf, expected), atol=1e-4)
    assert (hits.rows[:, 0] >= 0).all()
