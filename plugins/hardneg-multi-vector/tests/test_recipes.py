"""What a recipe and a model card say of encoders with a vector for each token; what is said without the package."""

from pathlib import Path

import pytest
from recipe.recipes import recipe_in, small_collection, small_tree
from tiny import tiny_multi_vector

from hardneg.encoders.open.model_card import model_card
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.spec import ModelSpec
from hardneg.records.errors import RecipeError


def test_segments_of_token_vectors_are_told(tmp_path: Path) -> None:
    tree = small_tree(small_collection(tmp_path / "data"), tiny_multi_vector(tmp_path / "late"))
    tree["stages"] = {"tokens": {"stage": "encode", "segments": {"length": 8, "count": 3}}}
    with pytest.raises(RecipeError, match=r"stages.tokens.segments: .* makes a vector of each token"):
        recipe_in(tmp_path, tree)


def test_a_late_interaction_model_is_opened_by_its_own_class(tmp_path):
    card = model_card(load_learner(ModelSpec(str(tiny_multi_vector(tmp_path / "model"))), "cpu"), {})
    assert 'model = MultiVectorEncoder("path/to/this/folder")' in card.splitlines()
    assert "# Late-interaction retriever trained with hard negatives" in card
    assert "AutoQueryEncoder" not in card and "tags: [sentence-transformers, late-interaction-retrieval" in card
