"""Models of every form are read as sentence-transformers reads them; the family and its indexes keep the contract."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hardneg_multi_vector.family import LateInteraction
from hardneg_multi_vector.indexes import MultiVector, MultiVectorPq
from hardneg_multi_vector.store import TokenStore
from hardneg_multi_vector.testing import TokenIndexTests
from recipes.recipes import artifacts_of, plan_in, recipe_in, small_collection, small_tree
from sentence_transformers import MultiVectorEncoder
from tiny import HIDDEN, tiny_encoder, tiny_multi_vector

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.model_card import model_card
from hardneg.encoders.open.resolved import load_learner, resolve
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.formats.runs import read_run
from hardneg.records import ModelError, PluginSetting, RecipeError
from tests.encoders.test_kinds_contract import Kinds
from tests.run_lists import doc_lists, score_lists

FP32 = EncodeOptions(precision="fp32")
QUERIES = ["how is an array read", "a", "", "words of a query that is far longer than twelve tokens can ever hold"]
DOCUMENTS = ["Reads, an array!", "", "-- ... --", "the file is closed; then it is read again (and again)", "x " * 60]


def _of_model(folder: Path, **options: Any) -> ModelSpec:
    return ModelSpec(str(folder), encoder=PluginSetting("multi-vector", options))


def _equal_to_sentence_transformers(encoder: Encoder, folder: Path) -> None:
    whole = MultiVectorEncoder(str(folder), device="cpu")
    for kind, texts, ask in (("query", QUERIES, whole.encode_query), ("document", DOCUMENTS, whole.encode_document)):
        found, expected = encoder.encode(texts, kind, FP32), ask(texts)
        assert np.diff(found.offsets).tolist() == [len(vectors) for vectors in expected]
        np.testing.assert_allclose(found.vectors, torch.cat(expected).numpy(), atol=1e-5)
    queries, documents = encoder.encode(QUERIES, "query", FP32), encoder.encode(DOCUMENTS, "document", FP32)
    scores = encoder.score(encoder.tensor(queries), encoder.tensor(documents))
    expected = whole.similarity(whole.encode_query(QUERIES), whole.encode_document(DOCUMENTS))
    np.testing.assert_allclose(scores.numpy(), expected.numpy(), atol=1e-4)


@pytest.mark.parametrize(("expansion", "attend", "dimension"), [(12, False, 16), (12, True, None), (None, False, 16)])
def test_vectors_and_scores_are_those_of_sentence_transformers(tmp_path, expansion, attend, dimension):
    folder = tiny_multi_vector(tmp_path / "model", expansion=expansion, attend=attend, dimension=dimension)
    encoder = load_learner(ModelSpec(str(folder)), "cpu")
    assert encoder.dimension == (dimension or HIDDEN)
    assert encoder.spec.similarity == "maxsim"
    assert (encoder.spec.query_prompt, encoder.spec.document_prompt) == ("[Q] ", "[D] ")
    _equal_to_sentence_transformers(encoder, folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_multi_vector(tmp_path_factory.mktemp("tiny") / "model")


@pytest.fixture(scope="module")
def encoder(folder: Path) -> Encoder:
    return load_learner(ModelSpec(str(folder)), "cpu")


def test_queries_are_filled_and_punctuation_of_documents_is_left_out(encoder):
    assert np.diff(encoder.encode(["a", ""], "query").offsets).tolist() == [12, 12]
    # [CLS] [ d ] x , [SEP] of the second one: all but the brackets and the comma
    counts = np.diff(encoder.encode(["x", "x,", ""], "document").offsets)
    assert counts.tolist() == [4, 4, 3]


def test_a_saved_model_opens_here_and_in_sentence_transformers(encoder, tmp_path):
    encoder.save(tmp_path / "saved")
    opened = load_learner(tmp_path / "saved", "cpu")
    assert opened.spec.similarity == "maxsim" and opened.spec.query_length == 12
    np.testing.assert_array_equal(
        opened.encode(QUERIES, "query", FP32).vectors, encoder.encode(QUERIES, "query", FP32).vectors
    )
    _equal_to_sentence_transformers(opened, tmp_path / "saved")


@pytest.mark.parametrize("kind", ["sentence-transformers", "transformers"])
def test_token_vectors_are_taken_of_any_transformer(tmp_path, kind):
    source = tiny_encoder(tmp_path / "source", kind=kind)
    spec = _of_model(source, query_expansion=8, skiplist="punctuation")
    encoder = load_learner(spec, "cpu")
    assert encoder.dimension == HIDDEN and encoder.spec.query_length == 8
    found = encoder.encode(["a file", "x"], "query")
    assert np.diff(found.offsets).tolist() == [8, 8]
    np.testing.assert_allclose(np.linalg.norm(found.vectors, axis=1), 1, atol=1e-5)
    encoder.save(tmp_path / "saved")
    _equal_to_sentence_transformers(encoder, tmp_path / "saved")


def test_a_projection_keeps_most_of_the_inner_products(tmp_path):
    source = tiny_encoder(tmp_path / "source")
    whole, less = (load_learner(_of_model(source, **options), "cpu") for options in ({}, {"dimension": 24}))
    assert less.dimension == 24
    scores = [
        one.score(one.tensor(one.encode(DOCUMENTS, "query")), one.tensor(one.encode(DOCUMENTS, "document")))
        for one in (whole, less)
    ]
    assert np.corrcoef(scores[0].flatten(), scores[1].flatten())[0, 1] > 0.9


def test_the_digest_is_that_of_what_the_model_makes(folder, tmp_path):
    plain = resolve(ModelSpec(str(folder))).digest
    assert resolve(_of_model(folder)).digest == plain == resolve(_of_model(folder, query_expansion=12)).digest
    others = [
        _of_model(folder, query_expansion=0, skiplist="own"),
        _of_model(folder, skiplist="none"),
        _of_model(folder, normalise=False),
        ModelSpec(str(folder), similarity="meanmaxsim"),
        ModelSpec(str(folder), document_length=20),
        ModelSpec(str(tiny_multi_vector(tmp_path / "other", seed=1))),
        ModelSpec(str(tiny_multi_vector(tmp_path / "attended", attend=True))),
    ]
    assert len({plain, *(resolve(other).digest for other in others)}) == 8


@pytest.mark.parametrize(
    ("values", "options", "said"),
    [
        ({"pooling": "cls"}, {}, "pooling cannot be set for token vectors"),
        ({"similarity": "cosine"}, {}, "maxsim or meanmaxsim"),
        ({"query_length": 8}, {}, "padded to 12 tokens"),
        ({}, {"dimension": 8}, "the folder has its own"),
        ({}, {"query_expansion": -1}, "or 0 for no expansion"),
    ],
)
def test_what_cannot_be_had_is_told(folder, values, options, said):
    with pytest.raises(ModelError, match=said):
        load_learner(ModelSpec(str(folder), encoder=PluginSetting("multi-vector", options), **values), "cpu")


def _pylate(folder: Path) -> Path:
    """Convert a model's folder to PyLate 3's format: two modules, and all other settings in the model's options."""
    tiny_multi_vector(folder, expansion=None)
    modules = json.loads((folder / "modules.json").read_text())[:2]
    modules[1]["type"] = "pylate.models.Dense.Dense"
    (folder / "modules.json").write_text(json.dumps(modules))
    own = json.loads((folder / "sentence_bert_config.json").read_text())
    kept = {name: value for name, value in own.items() if "length" not in name and "expansion" not in name}
    (folder / "sentence_bert_config.json").write_text(json.dumps(kept))
    options = {"model_type": "ColBERT", "query_prefix": "[Q] ", "document_prefix": "[D] ", "query_length": 10}
    options |= {"document_length": 20, "attend_to_expansion_tokens": True, "skiplist_words": ["!", ","]}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(options))
    return folder


def _stanford(folder: Path) -> Path:
    """Convert a model's folder to Stanford's ColBERT format: a transformer with the projection among its weights."""
    from safetensors.torch import load_file, save_file

    tiny_encoder(folder, kind="transformers")
    weights = {f"bert.{name}": tensor for name, tensor in load_file(folder / "model.safetensors").items()}
    weights["linear.weight"] = torch.randn(16, HIDDEN, generator=torch.Generator().manual_seed(0))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text()) | {"architectures": ["HF_ColBERT"]}
    (folder / "config.json").write_text(json.dumps(config))
    said = {"query_maxlen": 9, "doc_maxlen": 20, "mask_punctuation": True, "query_token_id": "aa", "doc_token_id": "bb"}
    (folder / "artifact.metadata").write_text(json.dumps(said))
    return folder


@pytest.mark.parametrize(("make", "length"), [(_pylate, 10), (_stanford, 9)])
def test_models_of_older_forms_are_read(tmp_path, make, length):
    folder = make(tmp_path / "model")
    spec = ModelSpec(str(folder), encoder=PluginSetting("multi-vector"))
    encoder = load_learner(spec, "cpu")
    assert (encoder.spec.query_length, encoder.spec.document_length) == (length, 20)
    assert resolve(ModelSpec(str(folder))).known == resolve(spec).known
    _equal_to_sentence_transformers(encoder, folder)
    encoder.save(tmp_path / "saved")
    _equal_to_sentence_transformers(load_learner(tmp_path / "saved", "cpu"), folder)


def test_segments_of_token_vectors_are_told(tmp_path: Path) -> None:
    tree = small_tree(small_collection(tmp_path / "data"), tiny_multi_vector(tmp_path / "late"))
    tree["stages"] = {"tokens": {"stage": "encode", "segments": {"length": 8, "count": 3}}}
    with pytest.raises(RecipeError, match=r"stages.tokens.segments: .* has one vector per token"):
        recipe_in(tmp_path, tree)


def test_a_late_interaction_model_is_opened_by_its_own_class(tmp_path):
    card = model_card(load_learner(ModelSpec(str(tiny_multi_vector(tmp_path / "model"))), "cpu"), {})
    assert 'model = MultiVectorEncoder("path/to/this/folder")' in card.splitlines()
    assert "# Late-interaction retriever trained with hard negatives" in card
    assert "AutoQueryEncoder" not in card and "tags: [sentence-transformers, late-interaction-retrieval" in card


class TestExact(TokenIndexTests):
    plugin = MultiVector()


class TestPq(TokenIndexTests):
    plugin = MultiVectorPq(subvectors=8, candidates=60)
    exact = False
    recall = 0.9


class TestMultiVector(Kinds):
    plugin = LateInteraction()
    written = staticmethod(tiny_multi_vector)

    def others(self, folder: Path) -> Sequence[Any]:
        return [LateInteraction(query_expansion=0), LateInteraction(skiplist="none"), LateInteraction(normalise=False)]


class TestMultiVectorOfTransformer(Kinds):
    plugin = LateInteraction(dimension=8)
    written = staticmethod(tiny_encoder)

    def model(self, folder: Path) -> ModelSpec:
        return replace(super().model(folder), encoder=PluginSetting("multi-vector", {"dimension": 8}))


BACKENDS = {
    "exact": "multi-vector",
    "coded": {"name": "multi-vector-pq", "subvectors": 16, "centroids": 8, "probes": 8, "candidates": 60},
}


def test_what_eight_million_passages_take() -> None:
    passages, tokens = 8_800_000, 8_800_000 * 70
    exact = MultiVector().disk_bytes(passages, tokens, 128)
    assert exact == tokens * 512  # 315 GB
    coded = MultiVectorPq().disk_bytes(passages, tokens, 128)
    assert coded == tokens * (32 + 2 + 4) + 65_536 * 512  # 23.4 GB


@pytest.mark.slow
def test_token_vectors_are_indexed_and_searched_with_their_model(tmp_path, tiny_model):
    tree = small_tree(small_collection(tmp_path / "data"), tiny_model)
    tree["model"]["encoder"] = {"name": "multi-vector", "dimension": 16}
    tree["stages"] = {name: tree["stages"][name] for name in ("start-index", "start-test")}
    for name, backend in BACKENDS.items():
        tree["stages"][name] = {"stage": "index", "vectors": "start-index", "backend": backend}
        tree["stages"][f"{name}-test"] = {"stage": "search", "index": name, "split": "test", "depth": 20}
    tree["stages"]["again"] = {**tree["stages"]["coded-test"], "candidates": "start-test"}
    plan = plan_in(tmp_path, tree)
    made = artifacts_of(plan, tmp_path / "store")
    store = TokenStore.open(made["start-index"].path)
    assert (len(store), store.dimension) == (60, 16)
    runs = {name: read_run(made[name].path / "run.trec.gz") for name in plan.steps if name.endswith("test")}
    exact = runs.pop("start-test")
    for name, run in runs.items():
        if name != "coded-test":
            assert doc_lists(run) == doc_lists(exact), name
        for one, other in zip(score_lists(exact), score_lists(run), strict=True):
            np.testing.assert_allclose(one, other, atol=0.3 if name == "coded-test" else 1e-5)
    again = read_run(made["again"].path / "run.trec.gz")
    assert [set(one) for one in doc_lists(again)] == [set(one) for one in doc_lists(exact)]
    assert made["coded"].facts["passages"] == 60
