"""Encoders of two sides: with weights of their own, or with other token types, and what opens them."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import tiny_encoder

from hardneg.encoders.encoder import Encoder, split
from hardneg.encoders.open.model_card import model_card
from hardneg.encoders.open.resolved import load_learner, resolve
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.formats.segments import Segments
from hardneg.records import ModelError

FP32 = EncodeOptions(precision="fp32")
TEXTS = ["what is a fox", "", "the quick brown fox " * 9]


@pytest.fixture
def shared(tiny_model: Path) -> Encoder:
    return load_learner(ModelSpec(str(tiny_model), query_length=8, document_length=16))


@pytest.fixture
def twins(shared: Encoder) -> Encoder:
    """Twins whose query side has moved."""
    moved = split(shared)
    with torch.no_grad():
        for weight in moved.parts("query")[0].parameters():
            weight += 0.01 * torch.sign(weight)
    return moved


def test_twins_begin_as_the_shared_encoder(shared: Encoder):
    twins = split(shared)
    assert twins.twins and not shared.twins
    for kind in ("query", "document"):
        assert np.array_equal(twins.encode(TEXTS, kind, FP32), shared.encode(TEXTS, kind, FP32))
    ours, theirs = (list(twins.parts(kind)[0].parameters()) for kind in ("query", "document"))
    assert not {id(weight) for weight in ours} & {id(weight) for weight in theirs}
    assert [id(weight) for weight in theirs] == [id(weight) for weight in shared.parts("document")[0].parameters()]


def test_saved_twins_open_everywhere(twins: Encoder, tmp_path: Path):
    from sentence_transformers import SentenceTransformer

    twins.save(tmp_path / "model")
    opened, theirs = load_learner(tmp_path / "model"), SentenceTransformer(str(tmp_path / "model"), device="cpu")
    assert opened.twins
    expected = {kind: twins.encode(TEXTS, kind, FP32) for kind in ("query", "document")}
    for kind, encode in (("query", theirs.encode_query), ("document", theirs.encode_document)):
        assert np.allclose(opened.encode(TEXTS, kind, FP32), expected[kind], atol=1e-6)
        assert np.allclose(encode(TEXTS), expected[kind], atol=1e-6)


def test_the_query_side_alone_opens_with_transformers(twins: Encoder, tmp_path: Path):
    from transformers import AutoModel, AutoTokenizer

    twins.save(tmp_path / "model")
    folder = tmp_path / "model" / "query_0_Transformer"
    model, tokenizer = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        tokens = model(**tokenizer(TEXTS[:1], return_tensors="pt")).last_hidden_state
    vector = torch.nn.functional.normalize(tokens.mean(1))
    assert np.allclose(vector.numpy(), twins.encode(TEXTS[:1], "query", FP32), atol=1e-6)


def test_either_side_counts_in_the_digest(twins: Encoder, tmp_path: Path):
    twins.save(tmp_path / "model")
    before = resolve(ModelSpec(str(tmp_path / "model"))).digest
    for side in ("query", "document"):
        shutil.copytree(tmp_path / "model", tmp_path / side)
        weights = next((tmp_path / side / f"{side}_0_Transformer").glob("*.safetensors"))
        content = bytearray(weights.read_bytes())
        content[-1] ^= 1
        weights.write_bytes(content)
    digests = {resolve(ModelSpec(str(tmp_path / side))).digest for side in ("query", "document")}
    assert len(digests | {before}) == 3
    routes = tmp_path / "model" / "router_config.json"
    content = json.loads(routes.read_text())
    content["structure"]["query"] = content["structure"]["document"]
    routes.write_text(json.dumps(content))
    assert resolve(ModelSpec(str(tmp_path / "model"))).digest != before


@pytest.mark.parametrize(
    ("part", "old", "new", "said"),
    [
        *(("types", "query_0_Transformer", new, "outside the model") for new in ("../query_0", "/elsewhere", "a/b")),
        ("structure", "query", "image", "routes query and document"),
    ],
)
def test_other_routes_are_refused(twins: Encoder, tmp_path: Path, part: str, old: str, new: str, said: str):
    twins.save(tmp_path / "model")
    routes = tmp_path / "model" / "router_config.json"
    content = json.loads(routes.read_text())
    content[part][new] = content[part].pop(old)
    routes.write_text(json.dumps(content))
    with pytest.raises(ModelError, match=said):
        load_learner(tmp_path / "model")


def test_a_normalisation_behind_a_router_is_on_both_of_its_routes(twins: Encoder, tmp_path: Path):
    """The form in which models of two sides are published."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Router

    routes = {side: twins.parts(side)[:-1] for side in ("query", "document")}
    assert [type(part).__name__ for part in routes["query"]] == ["Transformer", "Pooling"]
    router = Router.for_query_document(routes["query"], routes["document"])
    theirs = SentenceTransformer(modules=[router, Normalize()], device="cpu")
    theirs.save(str(tmp_path / "asymmetric"))
    opened = load_learner(ModelSpec(str(tmp_path / "asymmetric")), "cpu")
    assert resolve(str(tmp_path / "asymmetric")).contract.normalised and opened.twins
    opened.save(tmp_path / "again")
    again = SentenceTransformer(str(tmp_path / "again"), device="cpu")
    for side, encode, saved in (
        ("query", theirs.encode_query, again.encode_query),
        ("document", theirs.encode_document, again.encode_document),
    ):
        for vectors in (opened.encode(TEXTS, side, FP32), saved(TEXTS)):
            assert np.allclose(vectors, encode(TEXTS), atol=1e-6)


CORT = {"pooling": "cls", "projection": 8, "activation": "tanh", "query_token_type": 1}
LENGTHS = {"query_length": 8, "document_length": 16}


def cort(folder: Path, **options: object) -> ModelSpec:
    return ModelSpec(str(folder), **(CORT | LENGTHS | options))  # type: ignore[arg-type]


def albert(folder: Path) -> Path:
    """A tiny ALBERT, whose own tokenizer gives no token types."""
    from transformers import AlbertConfig, AlbertModel, AlbertTokenizer

    special = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    letters = "abcdefghijklmnopqrstuvwxyz"
    starts = [("▁" + one, -3.0) for one in letters]
    pieces = [*((name, 0.0) for name in special), *starts, *((one, -4.0) for one in letters)]
    sizes = {"hidden_size": 32, "embedding_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AlbertModel(AlbertConfig(vocab_size=len(pieces), num_hidden_layers=2, initializer_range=0.2, **sizes))
    model.save_pretrained(folder)
    AlbertTokenizer(vocab=pieces).save_pretrained(folder)
    return folder


def test_vectors_are_those_of_the_definition(tmp_path: Path):
    """Queries with type 1, documents with type 0; first token, linear, tanh, normalised."""
    encoder = load_learner(cort(albert(tmp_path / "albert")), "cpu")
    transformer, _, dense, _ = encoder.parts("query")
    for kind, token_type in (("query", 1), ("document", 0)):
        features = encoder.features(TEXTS, kind)
        assert features["token_type_ids"][features["attention_mask"].bool()].unique().tolist() == [token_type]
        with torch.inference_mode():
            state = transformer.model(**features).last_hidden_state[:, 0]
            head = torch.tanh(state @ dense.linear.weight.T + dense.linear.bias)
        expected = torch.nn.functional.normalize(head)
        np.testing.assert_allclose(encoder.encode(TEXTS, kind, FP32), expected, atol=1e-6)
    assert not np.allclose(encoder.encode(TEXTS, "query", FP32), encoder.encode(TEXTS, "document", FP32), atol=1e-3)


@pytest.mark.parametrize("kind", ["bert", "albert"])
def test_a_saved_model_opens_everywhere_with_its_token_types(tmp_path: Path, kind: str):
    from sentence_transformers import SentenceTransformer

    folder = tmp_path / kind
    source = albert(folder) if kind == "albert" else tiny_encoder(folder, kind="transformers")
    encoder = load_learner(cort(source), "cpu")
    expected = {kind: encoder.encode(TEXTS, kind, FP32) for kind in ("query", "document")}
    encoder.save(tmp_path / "model")
    opened, theirs = load_learner(tmp_path / "model", "cpu"), SentenceTransformer(str(tmp_path / "model"), device="cpu")
    assert opened.spec.query_token_type == 1 and not opened.twins
    for kind, encode in (("query", theirs.encode_query), ("document", theirs.encode_document)):
        assert np.array_equal(opened.encode(TEXTS, kind, FP32), expected[kind])
        np.testing.assert_allclose(encode(TEXTS), expected[kind], atol=1e-5)
    similar = theirs.similarity(theirs.encode_query(TEXTS), theirs.encode_document(TEXTS))
    np.testing.assert_allclose(similar, expected["query"] @ expected["document"].T, atol=1e-5)


def test_segments_have_the_type_of_documents(tiny_model: Path):
    encoder = load_learner(cort(tiny_model, query_token_type=0, document_token_type=1), "cpu")
    tokens = encoder.segment(TEXTS, Segments(8, count=2)).tokens
    assert tokens.same["token_type_ids"] == 1
    whole, _ = encoder.encode_segments(TEXTS[:2], Segments(16), FP32)
    np.testing.assert_allclose(whole, encoder.encode(TEXTS[:2], "document", FP32), atol=1e-6)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model_type": "bert", "type_vocab_size": 1}, "has 1 token types, counted from 0, but query_token_type is 1"),
        ({"model_type": "distilbert"}, "has no token types, but query_token_type is 1; omit the token types and set"),
    ],
)
def test_a_model_without_such_types_is_refused(tmp_path: Path, change: dict[str, object], said: str):
    from transformers import AutoConfig, AutoModel

    folder = tiny_encoder(tmp_path / "model", kind="transformers")
    config = json.loads((folder / "config.json").read_text()) | change
    sizes = {"dim": 32, "n_layers": 1, "n_heads": 2, "hidden_dim": 32} if config["model_type"] == "distilbert" else {}
    AutoModel.from_config(
        AutoConfig.for_model(**{name: config[name] for name in ("vocab_size", *change)} | sizes)
    ).save_pretrained(folder)
    with pytest.raises(ModelError, match=said):
        load_learner(cort(folder), "cpu")


def test_the_card_tells_the_types(tiny_model: Path):
    card = model_card(load_learner(cort(tiny_model, projection=None, activation="identity"), "cpu"), {})
    assert "Token types: 1 of a query, 0 of a document" in card
    assert "class Vectors(QueryEncoder):" in card and "AutoQueryEncoder" not in card
