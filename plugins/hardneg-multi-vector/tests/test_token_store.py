"""Token vectors on disk: written in blocks, read, and what an encoder makes of a corpus."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hardneg_multi_vector.store import TokenStore, TokenVectors, TokenWriter
from hypothesis import given, settings, strategies as st
from sentence_transformers import MultiVectorEncoder
from tiny import tiny_multi_vector

from hardneg.encoders.encoder import Encoder, split
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.formats.vectors import FlatVectors
from hardneg.records import ArtifactError, DataError, UsageError
from hardneg.training.batches import in_parts

_LENGTHS = [2, 0, 3, 1, 0]


def _tokens(lengths: list[int], dimension: int = 2) -> TokenVectors:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    total = int(offsets[-1])
    return TokenVectors(offsets, np.arange(total * dimension, dtype=np.float32).reshape(total, dimension))


def _write(folder: Path, lengths: list[int], block: int = 2) -> TokenVectors:
    tokens = _tokens(lengths)
    with TokenWriter(folder, 2, tokens.offsets) as writer:
        for start in range(0, len(lengths), block):
            writer.write(tokens[start : start + block])
        writer.write_doc_ids(f"d{i}" for i in range(len(lengths)))
        writer.close()
    return tokens


def _same(one: TokenVectors, two: TokenVectors) -> bool:
    return np.array_equal(one.offsets, two.offsets) and np.array_equal(one.vectors, two.vectors)


def test_what_is_written_is_read(tmp_path):
    tokens = _write(tmp_path, _LENGTHS)
    store = TokenStore.open(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["docid", "index", "offsets.npy"]
    assert (len(store), store.dimension, list(store.doc_ids)) == (5, 2, ["d0", "d1", "d2", "d3", "d4"])
    assert store.read(1, 4).offsets.tolist() == [0, 0, 3, 4]
    assert store.read(1, 4).vectors.tolist() == [[4, 5], [6, 7], [8, 9], [10, 11]]
    assert store.gather(np.array([3, 0, 3])).vectors.tolist() == [[10, 11], [0, 1], [2, 3], [10, 11]]
    assert _same(store.read(0, 99), tokens)
    assert len(store.read(4, 4)) == 0


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 4), max_size=12), st.integers(1, 5), st.integers(1, 9))
def test_any_lengths_and_blocks(tmp_path_factory, lengths, block, size):
    folder = tmp_path_factory.mktemp("tokens")
    tokens = _write(folder, lengths, block)
    store = TokenStore.open(folder)
    spans = list(store.spans(size))
    assert [row for start, stop in spans for row in range(start, stop)] == list(range(len(lengths)))
    assert all(sum(lengths[start:stop]) <= size or stop - start == 1 for start, stop in spans)
    if spans:
        assert _same(TokenVectors.join([store.read(*span) for span in spans]), tokens)


def test_what_does_not_fit_is_refused(tmp_path):
    offsets = np.array([0, 2, 2, 5])
    with TokenWriter(tmp_path, 2, offsets) as writer:
        with pytest.raises(ArtifactError, match="document 2 has 2 token vectors instead of 3"):
            writer.write(TokenVectors(np.array([0, 2, 2, 4]), np.ones((4, 2), np.float32)))
        with pytest.raises(UsageError, match="4 documents instead of 3"):
            writer.write(TokenVectors(np.array([0, 2, 2, 5, 6]), np.ones((6, 2), np.float32)))
        with pytest.raises(ArtifactError, match="not finite"):
            writer.write(TokenVectors(np.array([0, 2]), np.full((2, 2), np.nan, np.float32)))
        with pytest.raises(DataError, match="white space"):
            writer.write_doc_ids(["a", "b c", "d"])
        with pytest.raises(ArtifactError, match="documents from 0 on are missing"):
            writer.close()
    for wrong in (np.array([1, 2]), np.array([0, 3, 2]), np.array([0.0, 1.0]), np.empty(0, np.int64)):
        with pytest.raises(UsageError, match="offsets of token vectors"):
            TokenWriter(tmp_path / "new", 2, wrong)


def test_damage_is_told(tmp_path):
    _write(tmp_path, _LENGTHS)
    ids, offsets = (tmp_path / "docid").read_text(), (tmp_path / "offsets.npy").read_bytes()
    (tmp_path / "docid").write_text("d0\n")
    with pytest.raises(ArtifactError, match="5 documents, but docid has 1 ids"):
        TokenStore.open(tmp_path)
    (tmp_path / "docid").write_text(ids)
    for damaged, told in (
        (np.array([0, 2, 1, 6]), "do not ascend"),
        (np.array([0, 2, 9]), "9 vectors, but"),
        (np.array([0.0, 6.0]), "damaged"),
    ):
        np.save(tmp_path / "offsets.npy", damaged)
        with pytest.raises(ArtifactError, match=told):
            TokenStore.open(tmp_path)
    (tmp_path / "offsets.npy").write_bytes(offsets[:-4])
    with pytest.raises(ArtifactError, match=r"offsets\.npy"):
        TokenStore.open(tmp_path)
    (tmp_path / "offsets.npy").unlink()
    with pytest.raises(ArtifactError, match="no such file"):
        TokenStore.open(tmp_path)


def test_it_is_no_index_of_one_vector_a_document(tmp_path):
    _write(tmp_path, _LENGTHS)
    with pytest.raises(ArtifactError, match="one vector per token"):
        FlatVectors.open(tmp_path)


FP32 = EncodeOptions(precision="fp32")


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    folder = tiny_multi_vector(tmp_path_factory.mktemp("tiny") / "model")
    return load_learner(ModelSpec(str(folder)), "cpu")


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
