import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from hardneg.encoders.encoder import Encoder, split
from hardneg.encoders.open.resolved import load_learner, resolve
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.records.errors import ModelError

FP32 = EncodeOptions(precision="fp32")
TEXTS = ["what is a fox", "the quick brown fox", ""]


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


def test_only_queries_move(shared: Encoder, twins: Encoder):
    assert np.array_equal(twins.encode(TEXTS, "document", FP32), shared.encode(TEXTS, "document", FP32))
    assert not np.allclose(twins.encode(TEXTS, "query", FP32), shared.encode(TEXTS, "query", FP32), atol=1e-4)
    assert np.allclose(split(twins).encode(TEXTS, "query", FP32), twins.encode(TEXTS, "query", FP32))


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


@pytest.mark.parametrize("name", ["../query_0_Transformer", "/elsewhere", "a/b"])
def test_a_route_out_of_the_folder_is_refused(twins: Encoder, tmp_path: Path, name: str):
    twins.save(tmp_path / "model")
    routes = tmp_path / "model" / "router_config.json"
    content = json.loads(routes.read_text())
    content["types"][name] = content["types"].pop("query_0_Transformer")
    routes.write_text(json.dumps(content))
    with pytest.raises(ModelError, match="outside the model"):
        load_learner(tmp_path / "model")


def test_other_routes_are_refused(twins: Encoder, tmp_path: Path):
    twins.save(tmp_path / "model")
    routes = tmp_path / "model" / "router_config.json"
    content = json.loads(routes.read_text())
    content["structure"]["image"] = content["structure"].pop("query")
    routes.write_text(json.dumps(content))
    with pytest.raises(ModelError, match="routes query and document"):
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
