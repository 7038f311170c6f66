"""Vectors of static models, against sentence-transformers' own, also once they are saved."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from encoders.families.static.changed_files import change_json, cut_at
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tiny import HIDDEN, tiny_model2vec, tiny_static

from hardneg.encoders.encoder import split
from hardneg.encoders.families import Static
from hardneg.encoders.open.resolved import load_learner, resolve
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec

TEXTS = ["alpha beta", "", "gamma", "  ", "alpha beta delta"]
TEXTS.insert(3, "a much longer text about naïve 漢字 arrays, twice as long")
WORDLLAMA = "packaged:wordllama"
PROMPTS = {"prompts": {"query": "find: ", "document": "text: ", "other": "o"}}


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: None,
        lambda folder: cut_at(folder, 3, "Right"),
        lambda folder: cut_at(folder, 3, "Left"),
        lambda folder: change_json(folder / "config_sentence_transformers.json", **PROMPTS),
        lambda folder: change_json(folder / "config_sentence_transformers.json", truncate_dim=5),
    ],
    ids=["as it is", "cut on the right", "cut on the left", "prompts", "fewer dimensions"],
)
@pytest.mark.parametrize("normalised", [True, False])
def test_vectors_are_those_of_sentence_transformers(tmp_path: Path, change, normalised):
    folder = tiny_static(tmp_path / "model", normalised=normalised)
    change(folder)
    encoder, theirs = load_learner(ModelSpec(str(folder))), SentenceTransformer(str(folder), device="cpu")
    for kind, encode in (("query", theirs.encode_query), ("document", theirs.encode_document)):
        expected = encode(TEXTS, normalize_embeddings=True)
        np.testing.assert_allclose(encoder.encode(TEXTS, kind), expected, atol=1e-6)


def test_without_normalisation_where_dot_is_asked_for(tmp_path: Path):
    folder = tiny_static(tmp_path / "model", normalised=False)
    encoder = load_learner(ModelSpec(str(folder), similarity="dot"))
    expected = SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(encoder.encode(TEXTS, "query"), expected, atol=1e-6)


@pytest.mark.parametrize("normalised", [True, False])
def test_model2vec_shares_rows_and_weighs_them(tmp_path: Path, normalised):
    folder = tiny_model2vec(tmp_path / "model", normalised=normalised)
    encoder = load_learner(ModelSpec(str(folder), similarity="cosine" if normalised else "dot"))
    (ids,) = encoder.tokenise(["abc d"], "query").batch(np.array([0]))["input_ids"].tolist()
    rows = np.array([[i % 4, 1] for i in ids], np.float32) * [[0.5 if i % 2 else 1] for i in ids]
    mean = rows.mean(0)
    expected = mean / np.linalg.norm(mean) if normalised else mean
    np.testing.assert_allclose(encoder.encode(["abc d"], "query")[0], expected, atol=1e-6)


def test_model2vec_that_sentence_transformers_opens(tmp_path: Path):
    folder = tiny_model2vec(tmp_path / "model")
    kind = "sentence_transformers.models.StaticEmbedding"
    (folder / "modules.json").write_text(json.dumps([{"idx": 0, "name": "0", "path": ".", "type": kind}]))
    encoder, theirs = load_learner(ModelSpec(str(folder))), SentenceTransformer(str(folder), device="cpu")
    expected = theirs.encode(TEXTS, normalize_embeddings=True)
    np.testing.assert_allclose(encoder.encode(TEXTS, "query"), expected, atol=1e-3)  # theirs is in float16


def test_any_order_and_any_batches_give_the_same(static: Path):
    encoder = load_learner(ModelSpec(str(static)))
    alone = np.concatenate([encoder.encode([text], "document") for text in TEXTS])
    order = [3, 0, 5, 1, 2, 4]
    for tokens in (1, 7, 10_000):
        found = encoder.encode([TEXTS[place] for place in order], "document", EncodeOptions(tokens, window=4))
        np.testing.assert_allclose(found, alone[order], atol=1e-7)
    assert encoder.encode([], "query").shape == (0, HIDDEN)


def test_a_saved_model_is_opened_by_sentence_transformers(tmp_path: Path, from_transformer: ModelSpec):
    lengths = {"query_length": 3, "document_length": 5, "query_prompt": "find: "}
    spec = ModelSpec(from_transformer.name, encoder=from_transformer.encoder, **lengths)
    encoder = load_learner(spec)
    encoder.save(tmp_path / "saved")
    theirs = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    assert isinstance(theirs[0], StaticEmbedding)
    np.testing.assert_allclose(encoder.encode(TEXTS, "document"), theirs.encode_document(TEXTS), atol=1e-6)
    again = load_learner(tmp_path / "saved")
    assert (again.spec.query_length, again.spec.document_length, again.spec.query_prompt) == (3, 5, "find: ")
    for kind in ("query", "document"):
        np.testing.assert_allclose(again.encode(TEXTS, kind), encoder.encode(TEXTS, kind), atol=1e-7)


def test_two_tables_are_saved_and_learn_apart(tmp_path: Path, static: Path):
    encoder = split(load_learner(ModelSpec(str(static))))
    with torch.no_grad():
        encoder.parts("query")[0].embedding.weight.mul_(torch.arange(HIDDEN) % 2)
    encoder.save(tmp_path / "saved")
    assert resolve(str(tmp_path / "saved")).family == Static()
    again, theirs = load_learner(tmp_path / "saved"), SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    for opened in (again.encode(TEXTS, "query"), theirs.encode_query(TEXTS)):
        np.testing.assert_allclose(opened, encoder.encode(TEXTS, "query"), atol=1e-6)
    np.testing.assert_allclose(theirs.encode_document(TEXTS), encoder.encode(TEXTS, "document"), atol=1e-6)
    assert abs(encoder.encode(TEXTS[:1], "query") - encoder.encode(TEXTS[:1], "document")).max() > 0.01


def test_gradients_are_those_of_sentence_transformers(static: Path):
    encoder, theirs = load_learner(ModelSpec(str(static))), SentenceTransformer(str(static), device="cpu")
    target = torch.randn(len(TEXTS), HIDDEN, generator=torch.Generator().manual_seed(1))
    (encoder.embed(encoder.features(TEXTS, "document"), "document") * target).sum().backward()
    (theirs(theirs.preprocess(TEXTS))["sentence_embedding"] * target).sum().backward()
    torch.testing.assert_close(encoder.module[0].embedding.weight.grad, theirs[0].embedding.weight.grad)
    assert torch.isfinite(encoder.module[0].embedding.weight.grad).all()  # of texts without tokens too


def test_wordllama_is_read_where_it_is_installed():
    pytest.importorskip("safetensors")
    encoder = load_learner(ModelSpec(WORDLLAMA))
    assert "wordllama" not in sys.modules  # its files are read, its code is not run
    queries, documents = (encoder.encode(["How do I sort an array?"], kind) for kind in ("query", "document"))
    assert queries.shape == (1, 256) and np.array_equal(queries, documents)
    others = encoder.encode(["Sorts the values of the given array.", "The weather in Oslo is cold."], "document")
    near, far = (queries @ others.T)[0].tolist()
    assert near > far + 0.2
    assert isinstance(resolve(WORDLLAMA).shape.weights, int)
