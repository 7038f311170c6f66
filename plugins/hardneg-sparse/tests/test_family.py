"""Term weights compared with those of sentence-transformers for the same folder, and with its pooling of all logits."""

import json
import shutil
from math import log1p
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hardneg_sparse.store import SparseRows
from hardneg_sparse.weights import TermWeights, _Largest, can_be_narrow
from sentence_transformers import SparseEncoder
from sentence_transformers.base.modules import Router
from sentence_transformers.sparse_encoder.modules import SparseStaticEmbedding
from tiny import tiny_encoder, tiny_masked_lm, tiny_sparse_encoder
from torch import Tensor

from hardneg.encoders.encoder import Encoder, split
from hardneg.encoders.open.resolved import load_encoder, load_learner, resolve
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.encoders.towers import forward, route
from hardneg.records import ModelError, PluginError, PluginSetting

FP32 = EncodeOptions(precision="fp32")
TEXTS = ["the mean of an array", "", "word " * 60, "Ünïcode 漢字!", *(f"text {'and more ' * n}{n}" for n in range(9))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_sparse_encoder(tmp_path_factory.mktemp("models") / "splade")


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_encoder(tmp_path_factory.mktemp("models") / "dense")


def sparse(folder: Path, lengths: int | None = None, **options: Any) -> ModelSpec:
    setting = PluginSetting("sparse", options)
    return ModelSpec(str(folder), query_length=lengths, document_length=lengths, encoder=setting)


def check_equal(encoder: Encoder, theirs: SparseEncoder) -> None:
    """Compare with the weights of sentence-transformers to 1e-5, with and without `max_active_dims`."""
    calls = {"query": theirs.encode_query, "document": theirs.encode_document}
    for kind, encode in calls.items():
        ours = encoder.tensor(encoder.encode(TEXTS, kind, FP32))  # type: ignore[arg-type]
        expected = encode(TEXTS, convert_to_sparse_tensor=False)
        assert float(expected.max()) > 0.3
        torch.testing.assert_close(ours, expected, atol=1e-5, rtol=0)


def test_weights_are_those_of_sentence_transformers(folder: Path) -> None:
    encoder = load_learner(ModelSpec(str(folder)), "cpu")
    assert encoder.spec.similarity == "dot" and encoder.spec.query_prompt == "find: "
    check_equal(encoder, SparseEncoder(str(folder), device="cpu"))


@pytest.mark.parametrize(
    "options", [{"queries": "terms"}, {"pooling": "sum", "activation": "log1p_relu"}, {"max_terms": 3}, {}]
)
def test_a_saved_folder_opens_in_sentence_transformers(folder: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    encoder = load_learner(sparse(folder, 40, **options), "cpu")
    encoder.save(tmp_path / "saved")
    theirs = SparseEncoder(str(tmp_path / "saved"), device="cpu")
    check_equal(encoder, theirs)
    again = load_encoder(tmp_path / "saved", "cpu")
    check_equal(again, theirs)  # type: ignore[arg-type]


def test_weights_by_hand(folder: Path) -> None:
    """The maximum or the sum over tokens of log(1 + relu(logit)); SPLADE v2, Eq. 6 and 1."""
    encoder = load_learner(sparse(folder), "cpu")
    features, transformer = encoder.features(["ab cd"], "document"), route(encoder.module, "document")[0]
    poolings = [encoder, load_learner(sparse(folder, pooling="sum"), "cpu")]
    with torch.inference_mode():
        logits = transformer.model(**features).logits[0].tolist()
        largest, summed = (each.embed(features, "document")[0].tolist() for each in poolings)
    by_term = [[log1p(max(0.0, logit)) for logit in of_all] for of_all in zip(*logits, strict=True)]
    np.testing.assert_allclose(largest, [max(weights) for weights in by_term], atol=1e-5)
    np.testing.assert_allclose(summed, [sum(weights) for weights in by_term], atol=1e-5)


def test_terms_of_a_query_without_a_network(folder: Path) -> None:
    encoder = load_learner(sparse(folder, queries="terms"), "cpu")
    rows, terms = encoder.encode(["ab ab cd", ""], "query"), encoder.representation.terms  # type: ignore[attr-defined]
    found = [[terms[term] for term in rows[place : place + 1].terms] for place in range(2)]
    assert [sorted(each) for each in found] == [["##nd", ":", "ab", "cd", "fi"], ["##nd", ":", "fi"]]
    assert set(rows.weights.tolist()) == {1.0}


def test_a_router_of_sentence_transformers(folder: Path, tmp_path: Path) -> None:
    """The folder has a module for queries, with its own weights and a tokenizer that would add special tokens."""
    documents = list(SparseEncoder(str(folder), device="cpu").children())
    weights = torch.arange(len(documents[0].tokenizer)) / 1000.0
    queries = [SparseStaticEmbedding(documents[0].tokenizer, weights, frozen=True)]
    made = SparseEncoder(modules=[Router.for_query_document(queries, documents)], device="cpu")
    made.save(str(tmp_path / "router"))
    encoder = load_learner(ModelSpec(str(tmp_path / "router")), "cpu")
    check_equal(encoder, SparseEncoder(str(tmp_path / "router"), device="cpu"))
    assert not route(encoder.module, "query")[0].weight.requires_grad
    with pytest.raises(ModelError, match="has no query encoder"):
        load_learner(sparse(tmp_path / "router", queries="encoder"), "cpu")
    next((tmp_path / "router").glob("query*/config.json")).write_text('{"path": "../idf.json"}')
    with pytest.raises(ModelError, match=r"in another folder, \.\./idf\.json"):
        load_learner(ModelSpec(str(tmp_path / "router")), "cpu")


def test_a_folder_of_older_versions(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "old")
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["type"] = "sentence_transformers.sparse_encoder.models.MLMTransformer"
    modules[1]["type"] = "sentence_transformers.sparse_encoder.models.SpladePooling"
    (tmp_path / "old" / "modules.json").write_text(json.dumps(modules))
    said = {"max_seq_length": 24, "do_lower_case": False}
    (tmp_path / "old" / "sentence_bert_config.json").write_text(json.dumps(said))
    encoder = load_learner(ModelSpec(str(tmp_path / "old")), "cpu")
    assert encoder.spec.document_length == 24
    check_equal(encoder, SparseEncoder(str(tmp_path / "old"), device="cpu"))


def test_a_dense_model_gets_a_head(dense: Path) -> None:
    """Logits are inner products of the normalised outputs with the embeddings, minus 4.5 times the mean norm."""
    encoder = load_learner(sparse(dense), "cpu")
    model = route(encoder.module, "document")[0].model
    features = encoder.features(["ab cd"], "document")
    with torch.inference_mode():
        hidden = model.bert(**features).last_hidden_state
        normed = torch.nn.functional.layer_norm(torch.nn.functional.gelu(hidden / 8), (32,), eps=1e-12)
        table = model.bert.embeddings.word_embeddings.weight
        expected = normed @ table.T - 4.5 * table.norm(dim=1).mean()
        torch.testing.assert_close(model(**features).logits, expected, atol=1e-4, rtol=0)
    assert encoder.spec.similarity == "dot"


def test_a_plan_tells_that_the_head_is_new(dense: Path, folder: Path, tmp_path: Path) -> None:
    base = tiny_masked_lm(tmp_path / "base")
    found = [resolve(sparse(place)).remarks for place in (dense, base, folder)]
    told = "it has no masked-language-model head; a new one is initialised from its word embeddings"
    assert found == [[told], [], []]


def test_a_head_that_is_there_is_kept(tmp_path: Path) -> None:
    base = tiny_masked_lm(tmp_path / "base")
    model = route(load_learner(sparse(base), "cpu").module, "document")[0].model
    assert set(model.cls.predictions.decoder.bias.tolist()) == {-5.0}


def test_a_head_in_part_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    place = tiny_masked_lm(tmp_path / "base") / "model.safetensors"
    kept = {name: tensor for name, tensor in load_file(place).items() if "transform.LayerNorm" not in name}
    save_file(kept, place, {"format": "pt"})
    with pytest.raises(ModelError, match=r"missing weights cls\.predictions\.transform\.LayerNorm"):
        load_learner(sparse(tmp_path / "base"), "cpu")


def test_what_it_is_enters_the_digest(folder: Path, dense: Path, tmp_path: Path) -> None:
    plain = resolve(ModelSpec(str(folder))).digest
    assert plain == resolve(sparse(folder)).digest
    shutil.copytree(folder, tmp_path / "copy")
    assert plain == resolve(ModelSpec(str(tmp_path / "copy"))).digest
    (tmp_path / "copy" / "1_SpladePooling" / "config.json").write_text(json.dumps({"pooling_strategy": "sum"}))
    others = [ModelSpec(str(tmp_path / "copy")), sparse(folder, pooling="sum"), sparse(folder, max_terms=3)]
    others += [sparse(folder, queries="terms"), ModelSpec(str(dense)), sparse(dense), sparse(dense, pooling="sum")]
    assert len({plain, *(resolve(other).digest for other in others)}) == len(others) + 1


def test_how_many_terms_a_folder_keeps_enters_the_digest(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "few")
    path = tmp_path / "few" / "config_sentence_transformers.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "max_active_dims": 3}))
    few = resolve(ModelSpec(str(tmp_path / "few"))).digest
    assert few == resolve(sparse(folder, max_terms=3)).digest == resolve(sparse(tmp_path / "few", max_terms=3)).digest
    assert few not in (resolve(each).digest for each in (ModelSpec(str(folder)), sparse(tmp_path / "few", max_terms=4)))


def test_twins(folder: Path, tmp_path: Path) -> None:
    apart = split(load_learner(ModelSpec(str(folder)), "cpu"))
    apart.save(tmp_path / "twins")
    check_equal(apart, SparseEncoder(str(tmp_path / "twins"), device="cpu"))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"pooling": "cls"}, "pooling cannot be set for term weights"),
        ({"projection": 8, "truncate_dim": 4}, "projection, truncate"),
        ({"twins": True, "encoder": PluginSetting("sparse", {"queries": "terms"})}, "omit one of the two"),
    ],
)
def test_what_is_for_vectors_is_refused(folder: Path, fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        load_learner(ModelSpec(str(folder), **fields), "cpu")


def test_other_folders_are_refused(folder: Path) -> None:
    with pytest.raises(ModelError, match="a SparseEncoder, not a dense encoder"):
        load_learner(ModelSpec(str(folder), encoder=PluginSetting("dense")), "cpu")
    with pytest.raises(PluginError, match="max_terms must be at least 1, not 0"):
        load_learner(sparse(folder, max_terms=0), "cpu")


CATS = ["a cat sat on the mat", "dogs", "", "the quick brown fox jumps over the lazy dog again and again"]


def wide(encoder: Encoder, features: dict[str, Tensor]) -> Tensor:
    return forward(encoder.parts("document"), features, encoder.device)["sentence_embedding"]


@pytest.mark.parametrize("activation", ["relu", "log1p_relu"])
def test_weights_and_gradients_are_those_of_the_whole_logits(activation, tiny_model):
    kind = PluginSetting("sparse", {"activation": activation})
    encoder = load_learner(ModelSpec(str(tiny_model), encoder=kind))
    assert can_be_narrow(encoder.parts("document"))
    with torch.no_grad():  # so that many terms are there
        encoder.parts("document")[0].model.get_output_embeddings().bias.normal_(0, 0.1)
    features = encoder.features(CATS, "document")
    ours, our_gradients = _learnt(encoder, lambda: encoder.embed(dict(features), "document"))
    theirs, their_gradients = _learnt(encoder, lambda: wide(encoder, dict(features)))
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    assert (ours > 0).any(1).tolist() == [True] * 4 and our_gradients.keys() == their_gradients.keys()
    for name, gradient in our_gradients.items():
        scale = float(their_gradients[name].abs().max())
        torch.testing.assert_close(gradient, their_gradients[name], atol=1e-5 * max(1.0, scale), rtol=1e-5)


def _learnt(encoder: Encoder, run: Any) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the output of `run` in training without dropout, and the gradients of its sum with fixed factors."""
    encoder.module.train()
    for part in encoder.module.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    encoder.module.zero_grad()
    made = run()
    (made * torch.linspace(-1, 1, made.numel()).view_as(made)).sum().backward()
    gradients = {name: w.grad.clone() for name, w in encoder.module.named_parameters() if w.grad is not None}
    return made.detach(), gradients


def test_a_gradient_goes_to_the_best_token_alone():
    """Two tokens have the logits [1, 3] and [2, -4], a third is padding; biases are 0 and 1, factors 2 and 10."""
    vectors = torch.tensor([[[1.0, 3.0], [2.0, -4.0], [9.0, 9.0]]], requires_grad=True)
    weight, bias = torch.eye(2, requires_grad=True), torch.tensor([0.0, 1.0], requires_grad=True)
    best = _Largest.apply(vectors, torch.tensor([[True, True, False]]), weight, bias)
    assert best.tolist() == [[2.0, 4.0]]
    (best * torch.tensor([2.0, 10.0])).sum().backward()
    assert vectors.grad is not None and vectors.grad.tolist() == [[[0, 10], [2, 0], [0, 0]]]
    assert weight.grad is not None and weight.grad.tolist() == [[4, -8], [10, 30]]
    assert bias.grad is not None and bias.grad.tolist() == [2, 10]


def test_other_poolings_and_networks_go_the_long_way(tiny_model):
    encoder = load_learner(ModelSpec(str(tiny_model), encoder=PluginSetting("sparse", {"pooling": "sum"})))
    assert not can_be_narrow(encoder.parts("document"))
    parts = load_learner(ModelSpec(str(tiny_model), encoder=PluginSetting("sparse"))).parts("document")
    parts[0].model.config.model_type = "deberta"
    assert not can_be_narrow(parts)


WEIGHTS = TermWeights(["a", "b", "c", "d"])
TENSOR = torch.tensor([[0.0, 2.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0], [3.0, 0.0, 0.5, 0.25]])


def test_what_is_not_0_is_kept():
    rows = WEIGHTS.collect(TENSOR)
    assert rows.offsets.tolist() == [0, 2, 2, 5] and rows.width == 4
    assert rows.terms.tolist() == [1, 3, 0, 2, 3] and rows.weights.tolist() == [2, 1, 3, 0.5, 0.25]
    assert torch.equal(WEIGHTS.tensor(rows, torch.device("cpu")), TENSOR)


def test_the_largest_are_kept():
    rows = TermWeights(WEIGHTS.terms, most=2).collect(TENSOR)
    assert rows.terms.tolist() == [1, 3, 0, 2] and rows.offsets.tolist() == [0, 2, 2, 4]


def test_batches_in_any_order_become_texts_in_order():
    batches = [(np.array([2, 0]), TENSOR[[2, 0]]), (np.array([1]), TENSOR[[1]])]
    assert same(WEIGHTS.gathered(batches, 3, 4), WEIGHTS.collect(TENSOR))
    empty = WEIGHTS.gathered((), 0, 4)
    assert len(empty) == 0 and empty.width == 4


def test_scores_are_inner_products():
    queries = torch.tensor([[1.0, 1.0, 0.0, 2.0], [0.0, 0.0, 2.0, 0.0]])
    assert WEIGHTS.score(queries, TENSOR, None).tolist() == [[4, 0, 3.5], [0, 0, 1]]
    assert WEIGHTS.score(queries, TENSOR, torch.tensor([2, 2, 0])).tolist() == [[3.5, 3.5, 4], [1, 1, 0]]
    lists = WEIGHTS.score_lists(queries.requires_grad_(), WEIGHTS.collect(TENSOR[[0, 1, 2, 0]]))
    assert lists.tolist() == [[4, 0], [1, 0]]
    lists[0].sum().backward()
    assert queries.grad is not None and queries.grad.tolist() == [[0, 2, 0, 1], [0, 0, 0, 0]]


def same(one: SparseRows, other: SparseRows) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("offsets", "terms", "weights"))
