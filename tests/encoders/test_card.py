from hardneg.encoders.open.model_card import model_card, with_scores
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.spec import ModelSpec


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
