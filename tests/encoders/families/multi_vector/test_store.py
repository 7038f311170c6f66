from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import MultiVectorEncoder
from tiny import tiny_multi_vector

from hardneg.encoders.corpus.stream import write_index
from hardneg.encoders.encoder import Encoder, split
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.formats.corpus import Corpus, write_corpus
from hardneg.formats.segments import Segments
from hardneg.formats.vectors.token_store import TokenStore
from hardneg.indexes.open_store import open_store
from hardneg.records.errors import ModelError
from hardneg.records.types import Document
from hardneg.runtime.distributed import World
from hardneg.runtime.progress import Silent
from hardneg.training.batches import in_parts

FP32 = EncodeOptions(precision="fp32")
TEXTS = ["", "...", *(f"{'a word, ' * (number % 5)}{number}" for number in range(9))]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    folder = tiny_multi_vector(tmp_path_factory.mktemp("tiny") / "model")
    return load_learner(ModelSpec(str(folder)), "cpu")


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    path = tmp_path / "corpus"
    write_corpus([Document(str(number), text) for number, text in enumerate(TEXTS)], path, Silent())
    return Corpus.open(path)


def test_the_store_holds_what_is_encoded(encoder, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(encoder, "block", 4)
    folder = tmp_path / "store"
    rows = encoder.rows(corpus, None, folder.parent, Silent(), World())
    write_index([encoder], rows, folder, FP32, Silent())
    store, expected = TokenStore.open(folder), encoder.encode(TEXTS, "document", FP32)
    assert list(store.doc_ids) == [str(number) for number in range(len(TEXTS))]
    found = store.read(0, len(TEXTS))
    np.testing.assert_array_equal(found.offsets, expected.offsets)
    np.testing.assert_allclose(found.vectors, expected.vectors, atol=1e-5)
    assert sorted(path.name for path in folder.iterdir()) == sorted(encoder.files)


def test_search_ranks_by_the_scores_that_training_has(encoder, corpus, tmp_path):
    rows = encoder.rows(corpus, None, tmp_path, Silent(), World())
    write_index([encoder], rows, tmp_path / "store", FP32, Silent())
    queries = encoder.encode(["a word", "3"], "query", FP32)
    hits = open_store(tmp_path / "store").search(queries, 5)
    scores = encoder.score(encoder.tensor(queries), encoder.tensor(encoder.encode(TEXTS, "document", FP32)))
    best = scores.topk(5)
    np.testing.assert_allclose(hits.scores, best.values.numpy(), atol=1e-4)


def test_documents_cannot_be_cut(encoder, corpus, tmp_path):
    with pytest.raises(ModelError, match="leave segments out"):
        encoder.rows(corpus, Segments(8, 2), tmp_path, Silent(), World())


def test_queries_can_learn_alone(encoder, tmp_path):
    twin = split(encoder)
    with torch.no_grad():
        for weight in twin.parts("query")[0].parameters():
            weight += 0.01
    texts = ["a word", ""]
    same = twin.encode(texts, "document", FP32).vectors
    np.testing.assert_allclose(same, encoder.encode(texts, "document", FP32).vectors, atol=1e-6)
    assert abs(twin.encode(texts, "query", FP32).vectors - encoder.encode(texts, "query", FP32).vectors).max() > 1e-3
    twin.save(tmp_path / "twin")
    whole, opened = MultiVectorEncoder(str(tmp_path / "twin"), device="cpu"), load_learner(tmp_path / "twin", "cpu")
    for kind, ask in (("query", whole.encode_query), ("document", whole.encode_document)):
        expected = torch.cat(list(ask(texts))).numpy()
        np.testing.assert_allclose(twin.encode(texts, kind, FP32).vectors, expected, atol=1e-5)
        np.testing.assert_allclose(opened.encode(texts, kind, FP32).vectors, expected, atol=1e-5)


def test_parts_of_a_batch_keep_what_queries_are_filled_with(encoder):
    features = encoder.features(["a", "b", "c d e f g h"], "query")
    parts = in_parts(features, 2)
    assert [part["input_ids"].shape[1] for part in parts.features] == [12, 12]
    whole = encoder.embed(features, "query")
    torch.testing.assert_close(parts.join([encoder.embed(part, "query") for part in parts.features]), whole)
