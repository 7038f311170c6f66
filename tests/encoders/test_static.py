"""Static models: vectors against sentence-transformers' own, a transformer's token table, digests, faults."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Router, StaticEmbedding, Transformer
from tiny import BY_FAMILY, HIDDEN, tiny_encoder, tiny_model2vec, tiny_multi_vector, tiny_static

from hardneg.encoders import static_encoder
from hardneg.encoders.encoder import split
from hardneg.encoders.families import Static
from hardneg.encoders.open.contract import UNBOUNDED
from hardneg.encoders.open.model_card import model_card
from hardneg.encoders.open.resolved import load_learner, resolve
from hardneg.encoders.spec import ModelSpec
from hardneg.formats.segments import Segments
from hardneg.records import ModelError, PluginSetting
from hardneg.runtime import generator


@pytest.fixture(scope="module")
def static(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_static(tmp_path_factory.mktemp("static") / "model")


@pytest.fixture(scope="module")
def from_transformer(tiny_model: Path) -> ModelSpec:
    return ModelSpec(str(tiny_model), encoder=PluginSetting("static", {"dimensions": 8}))


def change_json(path: Path, **values: object) -> None:
    content = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps(content | values))


def cut_at(folder: Path, length: int, side: str) -> None:
    cut = {"direction": side, "max_length": length, "strategy": "LongestFirst", "stride": 0}
    change_json(folder / "tokenizer.json", truncation=cut)


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


@pytest.mark.parametrize("normalised", [True, False])
def test_model2vec_shares_rows_and_weighs_them(tmp_path: Path, normalised):
    folder = tiny_model2vec(tmp_path / "model", normalised=normalised)
    encoder = load_learner(ModelSpec(str(folder), similarity="cosine" if normalised else "dot"))
    (ids,) = encoder.tokenise(["abc d"], "query").batch(np.array([0]))["input_ids"].tolist()
    rows = np.array([[i % 4, 1] for i in ids], np.float32) * [[0.5 if i % 2 else 1] for i in ids]
    mean = rows.mean(0)
    expected = mean / np.linalg.norm(mean) if normalised else mean
    np.testing.assert_allclose(encoder.encode(["abc d"], "query")[0], expected, atol=1e-6)


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


def _without(folder: Path, name: str) -> None:
    (folder / name).unlink()


def _fewer_rows(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    save_file({"embedding.weight": weights["embedding.weight"][:9].clone()}, folder / "model.safetensors")


@pytest.mark.parametrize(
    ("damage", "options", "told"),
    [
        (lambda folder: _without(folder, "tokenizer.json"), {}, r"no tokenizer\.json found; copy the model again"),
        (lambda folder: _without(folder, "model.safetensors"), {}, "no weights found; copy the model again"),
        (_fewer_rows, {}, "they belong to different models"),
        (lambda folder: cut_at(folder, 0, "Right"), {}, "invalid truncation length 0; copy the model again"),
        (lambda folder: None, {"pooling": "cls"}, "is static; omit pooling"),
        (lambda folder: None, {"query_token_type": 1}, "is static; omit query_token_type"),
        (lambda folder: None, {"encoder": PluginSetting("static", {"sif": 0.1})}, "already has a token table; omit"),
    ],
)
def test_what_cannot_be_had(tmp_path: Path, damage, options, told):
    folder = tiny_static(tmp_path / "model")
    damage(folder)
    with pytest.raises(ModelError, match=told):
        load_learner(ModelSpec(str(folder), **options))


@pytest.mark.parametrize("kind", [each for each in BY_FAMILY if each != "static"])
def test_a_static_folder_is_no_other_kind(static: Path, tmp_path: Path, kind):
    for folder in (static, tiny_model2vec(tmp_path / "model2vec")):
        spec, told = ModelSpec(str(folder), encoder=PluginSetting(kind)), f"a static model, not a {kind} encoder"
        with pytest.raises(ModelError, match=told):
            _ = resolve(spec).digest
        with pytest.raises(ModelError, match=told):
            load_learner(spec, "cpu")


def test_a_folder_of_another_kind_gives_no_table(tmp_path: Path):
    spec = ModelSpec(str(tiny_multi_vector(tmp_path / "colbert")), encoder=PluginSetting("static"))
    with pytest.raises(ModelError, match="a MultiVectorEncoder, not a static encoder"):
        _ = resolve(spec, fetch=True).full


def test_a_table_for_queries_alone(tmp_path: Path, static: Path, tiny_model: Path):
    """As sentence-transformers' documentation has it for queries that cost nothing."""
    table = SentenceTransformer(str(static), device="cpu")[0]
    router = Router.for_query_document([table], [Transformer(str(tiny_model)), Pooling(HIDDEN)])
    SentenceTransformer(modules=[router], device="cpu").save(str(tmp_path / "apart"), create_model_card=False)
    for opened in (lambda spec: resolve(spec).full, load_learner):
        with pytest.raises(ModelError, match="only one side has a table of token vectors"):
            opened(ModelSpec(str(tmp_path / "apart")))


def test_segments_need_no_positions(static: Path):
    encoder = load_learner(ModelSpec(str(static), document_prompt="on "))
    made = encoder.segment(["a b c d e f", "", "a"], Segments(5, count=3))
    assert made.counts.tolist() == [2, 1, 1]
    assert made.tokens.lengths.tolist() == [5, 3, 1, 2]
    vectors, counts = encoder.encode_segments(["a b c d e f"], Segments(600, count=2))
    assert counts.tolist() == [1]
    np.testing.assert_allclose(vectors, encoder.encode(["a b c d e f"], "document"), atol=1e-6)


def test_digests(tmp_path: Path, static: Path, from_transformer: ModelSpec):
    spec = ModelSpec(str(static))
    digest = resolve(spec).digest
    assert digest == resolve(ModelSpec(str(static), encoder=PluginSetting("static"))).digest
    copy = tiny_static(tmp_path / "copy")
    assert digest == resolve(ModelSpec(str(copy))).digest
    assert digest != resolve(ModelSpec(str(tiny_static(tmp_path / "other", seed=1)))).digest
    assert digest != resolve(ModelSpec(str(static), query_prompt="q: ")).digest
    cut_at(copy, 3, "Right")
    assert digest != resolve(ModelSpec(str(copy))).digest
    made = resolve(from_transformer).digest
    assert made != resolve(ModelSpec(from_transformer.name)).digest
    assert made != resolve(ModelSpec(from_transformer.name, encoder=PluginSetting("static", {"dimensions": 9}))).digest
    same = {"dimensions": 8, "sif": 1e-4}
    assert made == resolve(ModelSpec(from_transformer.name, encoder=PluginSetting("static", same))).digest


def test_a_length_without_bound_is_told_in_words(static: Path):
    card = model_card(load_learner(ModelSpec(str(static), document_length=9)), {})
    assert "all of a query, 9 of a document" in card and str(UNBOUNDED) not in card


def test_weights_and_components_by_hand():
    # 1/2, 1/3, 1/4 of a sum of 13/12: p is 6/13, 4/13, 3/13; a / (a + p) for a of .1
    weights, expected = static_encoder.sif_weights(3, 0.1), torch.tensor([0.178082, 0.245283, 0.302326])
    torch.testing.assert_close(weights, expected, atol=1e-6, rtol=0)
    table = torch.tensor([[1.0, 1.0], [3.0, 3.0], [5.0, 5.0], [3.0, 3.0]])  # all along (1, 1), mean (3, 3)
    expected = torch.tensor([[-(8**0.5)], [0.0], [8**0.5], [0.0]])
    torch.testing.assert_close(static_encoder.principal(table, 1), expected)
    whole = static_encoder.principal(table, 2)
    torch.testing.assert_close(torch.cdist(whole, whole), torch.cdist(table, table), atol=1e-5, rtol=0)


def test_a_transformer_gives_its_token_table(tiny_model: Path, from_transformer: ModelSpec):
    table = static_encoder.word_embeddings(tiny_model)
    own = load_file(tiny_model / "model.safetensors")["embeddings.word_embeddings.weight"]
    torch.testing.assert_close(table, own)
    encoder = load_learner(from_transformer)
    made = static_encoder.principal(own, 8) * static_encoder.sif_weights(len(own), 1e-4)[:, None]
    torch.testing.assert_close(encoder.module[0].embedding.weight.data, made)
    assert resolve(from_transformer, fetch=True).full.document_length == UNBOUNDED
    asked = {"dimensions": None, "sif": None}
    plain = load_learner(ModelSpec(str(tiny_model), encoder=PluginSetting("static", asked)))
    torch.testing.assert_close(plain.module[0].embedding.weight.data, own)


def test_an_untrained_table_has_the_spread_of_the_transformers(tiny_model: Path, from_transformer: ModelSpec):
    own = static_encoder.word_embeddings(tiny_model)
    options = {"dimensions": None, "sif": None, "untrained": True}
    spec = ModelSpec(str(tiny_model), encoder=PluginSetting("static", options))
    tables = [load_learner(spec).module[0].embedding.weight.data for _ in range(2)]
    torch.testing.assert_close(*tables, atol=0, rtol=0)
    drawn = torch.from_numpy(generator(42, "untrained").standard_normal(own.shape, np.float32))
    torch.testing.assert_close(tables[0], drawn * own.std(), atol=0, rtol=0)
    assert tables[0].std() == pytest.approx(float(own.std()), rel=0.1)
    trained = ModelSpec(str(tiny_model), encoder=PluginSetting("static", {**options, "untrained": False}))
    assert len({resolve(each).digest for each in (spec, trained, from_transformer)}) == 3
    plain = ModelSpec(str(tiny_model), encoder=PluginSetting("static", {"dimensions": None, "sif": None}))
    assert resolve(trained).digest == resolve(plain).digest


def test_a_transformer_without_a_table(tmp_path: Path):
    folder = tiny_encoder(tmp_path / "model", kind="transformers")
    weights = load_file(folder / "model.safetensors")
    del weights["embeddings.word_embeddings.weight"]
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(ModelError, match="the weights contain no token embeddings; use another model"):
        load_learner(ModelSpec(str(folder), encoder=PluginSetting("static")))
