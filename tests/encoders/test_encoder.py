"""Vectors of texts, faults of models, saved models that open everywhere with the same vectors, and their cards."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import tiny_encoder

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.model_card import model_card, with_scores
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.records import ModelError

FP32 = EncodeOptions(precision="fp32")
TEXTS = ["the mean of an array", "", "word " * 300, "read a file", "x", "Ünïcode 漢字!", "read a file"]
TEXTS += [f"passage {'and more ' * (n % 17)}{n}" for n in range(60)]


@pytest.fixture(scope="module")
def encoder(tiny_model: Path) -> Encoder:
    return load_learner(ModelSpec(str(tiny_model)), "cpu")


def names(encoder: Encoder) -> list[str]:
    return [type(part).__name__ for part in encoder.module.children()]


def test_features_are_padded_and_cut_to_their_kind(tiny_model: Path):
    spec = ModelSpec(str(tiny_model), query_length=5, document_length=9, query_prompt="q: ")
    encoder = load_learner(spec, "cpu")
    long = "a b c d e f g h i j k"
    query, document = encoder.features([long, "a"], "query"), encoder.features([long], "document")
    assert query["input_ids"].shape == (2, 5) and document["input_ids"].shape == (1, 9)
    assert query["attention_mask"].tolist() == [[1] * 5, [1] * 5]
    read = encoder.module.tokenizer.convert_ids_to_tokens(query["input_ids"][1].tolist())
    assert read == ["[CLS]", "q", ":", "a", "[SEP]"]
    assert read[0] == "[CLS]" and document["input_ids"][0, -1] == encoder.module.tokenizer.sep_token_id


def test_embed_is_float32_under_autocast(encoder: Encoder):
    with torch.autocast("cpu", torch.bfloat16):
        vectors = encoder.embed(encoder.features(TEXTS[:5], "document"), "document")
    assert vectors.dtype == torch.float32
    np.testing.assert_allclose(np.linalg.norm(vectors.detach().numpy(), axis=1), 1, atol=1e-6)


def test_training_mode_comes_back_part_by_part(tiny_model: Path):
    encoder = load_learner(ModelSpec(str(tiny_model)), "cpu")
    assert not encoder.module.training
    encoder.module.train()
    encoder.module[1].eval()
    one, two = (encoder.encode(["dropout is off"], "query", FP32) for _ in range(2))
    assert (one == two).all()
    assert encoder.module.training and encoder.module[0].model.training and not encoder.module[1].training


def test_a_vector_that_is_not_finite_is_named(tiny_model: Path):
    encoder = load_learner(ModelSpec(str(tiny_model)), "cpu")
    row = encoder.module.tokenizer.convert_tokens_to_ids("q")
    with torch.no_grad():
        encoder.module[0].model.embeddings.word_embeddings.weight[row] = torch.nan
    texts = ["fine"] * 7 + ["q", "fine", "q"]
    with pytest.raises(ModelError, match="query text 7 "):
        encoder.encode(texts, "query", EncodeOptions(window=4))


@pytest.mark.parametrize("side", ["query", "document"])
def test_vectors_that_are_all_the_same_are_no_encoding(tiny_model: Path, side):
    encoder = load_learner(ModelSpec(str(tiny_model)), "cpu")
    with torch.no_grad():
        for weight in encoder.module.parameters():
            weight.zero_()
    message = f"the vectors of 67 {side} texts are all identical; check its weights and its tokenizer"
    with pytest.raises(ModelError, match=message):
        encoder.encode(TEXTS, side)
    assert len(encoder.encode(["the same"] * 40, side)) == 40  # as of few different texts nothing can be said
    assert len(encoder.encode(["漢", "字"], side)) == 2


def test_the_head_is_drawn_from_the_spec_alone(tiny_model: Path):
    spec = ModelSpec(str(tiny_model), projection=512, layer_norm=True, similarity="dot")
    torch.manual_seed(1)
    one = load_learner(spec, "cpu")
    torch.manual_seed(2)
    two = load_learner(spec, "cpu")
    assert names(one) == ["Transformer", "Pooling", "Dense", "LayerNorm"] and one.dimension == 512
    weight, bias = one.module[2].linear.weight, one.module[2].linear.bias
    assert torch.equal(weight, two.module[2].linear.weight)
    assert 0.019 < weight.std().item() < 0.021 and not bias.any()
    assert (one.encode(TEXTS, "query", FP32) == two.encode(TEXTS, "query", FP32)).all()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"document_length": 513}, "at most 512 tokens; lower document_length from 513"),
        ({"query_length": 1000}, "at most 512 tokens; lower query_length from 1000"),
        ({"query_length": 1}, "query_length is 1"),
        ({"similarity": "l2"}, "similarity is 'l2'"),
    ],
)
def test_what_a_model_cannot_do(tiny_model: Path, change: dict[str, object], said: str):
    with pytest.raises(ModelError, match=said):
        load_learner(ModelSpec(str(tiny_model), **change), "cpu")  # type: ignore[arg-type]


def test_a_plain_folder_has_no_pooling_of_its_own(tmp_path: Path):
    folder = tiny_encoder(tmp_path / "plain", kind="transformers")
    with pytest.raises(ModelError, match="set pooling to cls, mean or lasttoken"):
        load_learner(ModelSpec(str(folder)), "cpu")


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("config.json", "{", "cannot be read as JSON"),
        ("config.json", '{"model_type": "none"}', "cannot be opened"),
        ("modules.json", "{", "cannot be read as JSON"),
        ("modules.json", '{"a": 1}', "not have the form that sentence-transformers writes"),
        ("model.safetensors", "broken", "cannot be opened"),
        ("adapter_config.json", "{}", "type None is not supported"),
        ("config_sentence_transformers.json", '{"truncate_dim": "8"}', "not a number of dimensions"),
    ],
)
def test_broken_folders(tmp_path: Path, file: str, content: str, said: str):
    folder = tiny_encoder(tmp_path / "broken")
    (folder / file).write_text(content)
    with pytest.raises(ModelError, match=said):
        load_learner(ModelSpec(str(folder)), "cpu")


def test_roberta_positions_begin_after_the_padding(tmp_path: Path):
    from transformers import RobertaConfig, RobertaModel

    folder = tiny_encoder(tmp_path / "roberta", kind="transformers")
    config = RobertaConfig(
        vocab_size=1500, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=66, pad_token_id=1,
    )  # fmt: skip
    RobertaModel(config).save_pretrained(folder)
    with pytest.raises(ModelError, match="at most 64 tokens; lower document_length from 65"):
        load_learner(ModelSpec(str(folder), pooling="cls", document_length=65), "cpu")
    encoder = load_learner(ModelSpec(str(folder), pooling="cls", document_length=64), "cpu")
    assert np.isfinite(encoder.encode(["a " * 100], "document")).all()


STAR = {"pooling": "cls", "projection": 16, "layer_norm": True, "similarity": "dot"}
LENGTHS = {"query_length": 12, "document_length": 20}
PROMPTS = {"query_prompt": "query: ", "document_prompt": "passage: "} | LENGTHS


@pytest.mark.parametrize("options", [{}, STAR, PROMPTS, STAR | PROMPTS, {"projection": 8}])
def test_a_saved_model_opens_everywhere_with_the_same_vectors(tiny_model, tmp_path, options):
    from sentence_transformers import SentenceTransformer

    encoder = load_learner(ModelSpec(str(tiny_model), **options), "cpu")  # type: ignore[arg-type]
    encoder.save(tmp_path / "model")
    documents = encoder.encode(TEXTS, "document", FP32)
    opened = load_learner(tmp_path / "model", "cpu")
    assert opened.spec.query_length == encoder.spec.query_length
    assert (opened.encode(TEXTS, "document", FP32) == documents).all()
    assert (opened.encode(TEXTS, "query", FP32) == encoder.encode(TEXTS, "query", FP32)).all()
    plain = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    assert plain.similarity_fn_name == encoder.spec.similarity
    np.testing.assert_allclose(plain.encode_document(TEXTS), documents, atol=1e-5)
    short = ["a", "an array"]
    np.testing.assert_allclose(plain.encode_query(short), encoder.encode(short, "query", FP32), atol=1e-5)


def test_saving_replaces_a_folder_and_leaves_nothing_beside_it(tiny_model, tmp_path):
    encoder = load_learner(ModelSpec(str(tiny_model)), "cpu")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "old").touch()
    encoder.save(tmp_path / "model", "# A card\n")
    assert os.listdir(tmp_path) == ["model"]
    assert not (tmp_path / "model" / "old").exists()
    assert (tmp_path / "model" / "README.md").read_text() == "# A card\n"


def test_a_failed_save_leaves_the_old_folder(tiny_model, tmp_path, monkeypatch):
    encoder = load_learner(ModelSpec(str(tiny_model)), "cpu")
    encoder.save(tmp_path / "model", "first")

    def full(*args: object, **options: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(type(encoder.module), "save", full)
    with pytest.raises(ModelError, match="No space left on device"):
        encoder.save(tmp_path / "model", "second")
    assert os.listdir(tmp_path) == ["model"]
    assert (tmp_path / "model" / "README.md").read_text() == "first"


def test_no_place_of_this_machine_is_written_and_others_may_read(tiny_model, tmp_path):
    load_learner(ModelSpec(str(tiny_model), projection=8), "cpu").save(tmp_path / "model")
    for path in (tmp_path / "model").rglob("*"):
        if path.is_file():
            assert str(tiny_model).encode() not in path.read_bytes(), path
            assert path.stat().st_mode & 0o444 == path.parent.stat().st_mode & 0o444


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, r"\(no hardneg.json\)"), ("[]", "not a valid spec of a saved model"), ("{", "cannot be read as JSON")],
)
def test_a_folder_of_another_origin(tmp_path, content, said):
    if content is not None:
        (tmp_path / "hardneg.json").write_text(content)
    with pytest.raises(ModelError, match=said):
        load_learner(tmp_path)


def test_a_card_tells_facts_scores_and_how_to_open(tiny_model):
    spec = ModelSpec(str(tiny_model), query_prompt="query: ")
    facts = {"Base model": "org/name", "Dataset": "/home/me/nq", "Loss": "infonce", "Steps": 150}
    scores = {"before": {"RR@10": 0.5}, "after": {"RR@10": 0.61234, "R@100": 0.9}}
    card = with_scores(model_card(load_learner(spec, "cpu"), facts), scores, "5 queries of split test")
    assert card.startswith("---\nlibrary_name: sentence-transformers\n")
    for line in (
        "base_model: org/name",
        "- Dataset: nq",
        "- Steps: 150",
        "Means over 5 queries of split test.",
        "- Vectors: 32 dimensions, compared by cosine",
        "| before | 0.5000 |  |",
        "| after | 0.6123 | 0.9000 |",
        'encoder = AutoQueryEncoder("path/to/this/folder", pooling="mean", l2_norm=True, prefix="query:")',
    ):
        assert line in card.splitlines()
    assert "/home" not in card and str(tiny_model) not in card


def test_a_base_model_in_a_folder_is_no_hub_id(tiny_model):
    card = model_card(load_learner(ModelSpec(str(tiny_model)), "cpu"), {"Base model": str(tiny_model)})
    assert "base_model:" not in card and f"- Base model: {tiny_model.name}" in card


def test_a_packaged_base_model_is_named_as_the_hub_has_it(tiny_model):
    encoder = load_learner(ModelSpec(str(tiny_model)), "cpu")
    lines = model_card(encoder, {"Base model": "packaged:all-MiniLM-L6-v2"}).splitlines()
    assert "base_model: sentence-transformers/all-MiniLM-L6-v2" in lines
    assert "base_model" not in model_card(encoder, {"Base model": "packaged:wordllama"})


def test_a_head_that_pyserini_has_no_class_for_is_opened_by_sentence_transformers(tiny_model):
    card = model_card(load_learner(ModelSpec(str(tiny_model), projection=8), "cpu"), {})
    assert "AutoQueryEncoder" not in card and "class Vectors(QueryEncoder):" in card.splitlines()
