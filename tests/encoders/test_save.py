"""Saved models open everywhere with the same vectors; their cards."""

import os

import numpy as np
import pytest

from hardneg.encoders.open.model_card import model_card, with_scores
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.records import ModelError

FP32 = EncodeOptions(precision="fp32")
TEXTS = ["the mean of an array", "", "word " * 300, *(f"passage {'and more ' * n}{n}" for n in range(17))]
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
    [(None, "no hardneg.json"), ("[]", "not the values of a saved model"), ("{", "not readable as JSON")],
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
