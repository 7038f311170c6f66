"""Recipes that go on from the model of another recipe's run folder."""

from pathlib import Path

import numpy as np
import pytest
from recipes.recipes import NEEDS_PAPERS, recipe_in, small_collection, small_part, small_tree

from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.spec import ModelSpec
from hardneg.recipes import Recipe, find_recipe, load_recipe, make_plan, maker, published_indexes, read_lock
from hardneg.records import LOCK, DataError, HardnegError, ModelError
from hardneg.store import Store

CHAINED = {
    "star-document": "star-passage",
    "adore-star-document": "star-passage",
    "ance-document": "ance-bm25-neg-passage",
    "ance-maxp-document": "ance-bm25-neg-passage",
}


@NEEDS_PAPERS
@pytest.mark.parametrize(("name", "before"), CHAINED.items())
def test_documents_go_on_from_passages(name, before):
    model = load_recipe(find_recipe(name), "paper").model
    assert maker(model.name) == f"hardneg recipe run {before} --preset paper"
    passages = load_recipe(find_recipe(before), "paper").model
    assert (model.similarity, model.query_length) == (passages.similarity, passages.query_length)
    assert (model.pooling, model.projection, model.layer_norm) == ("own", None, False)
    assert load_recipe(find_recipe(name)).model.name.startswith("packaged:")


def test_only_run_folders_of_shipped_recipes_have_a_maker():
    others = ("runs/star-passage-papers/model", "runs/star-passage/model", "star-passage-paper/model", "runs")
    assert not any(map(maker, others))
    assert maker("runs/star-passage-demo/checkpoints/star/step-50") == "hardneg recipe run star-passage --preset demo"


@pytest.mark.parametrize("read", [read_lock, lambda folder: published_indexes(folder, Store(folder))])
def test_a_file_of_aliases_within_aliases_is_damaged(tmp_path, read):
    lines = [f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}' if n else 'x'] * 10)}]\n" for n in range(10)]
    (tmp_path / LOCK).write_text(f"keys:\n{''.join(lines)}tree: {{}}\n")
    with pytest.raises(DataError, match="damaged; rerun the recipe"):
        read(tmp_path)


@pytest.fixture
def recipe(tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> Recipe:
    monkeypatch.chdir(tmp_path)
    tree = small_tree(small_collection(tmp_path / "data"), tiny_model)
    tree["model"]["name"] = "runs/star-passage-paper/model"
    return recipe_in(tmp_path, tree)


def test_a_recipe_that_has_not_run_is_told_with_its_command(recipe):
    told = "does not exist; create it with `hardneg recipe run star-passage --preset paper`"
    with pytest.raises(ModelError, match=told):
        make_plan(recipe)
    make_plan(recipe, problems := list[HardnegError]())
    assert len(problems) == 1 and told in str(problems[0])
    for preset, more in (("demo", " --preset demo"), ("", "")):  # locks without a command
        Path(LOCK).write_text(f"recipe: star-static\npreset: {preset!r}\nkeys: {{}}\n")
        assert read_lock(Path())["command"] == f"hardneg recipe run star-static{more}"


def test_its_model_is_taken_with_the_head_that_it_was_saved_with(recipe, tmp_path, tiny_model):
    own = {"pooling": "cls", "projection": 8, "layer_norm": True, "similarity": "dot"}
    head = ModelSpec(str(tiny_model), **own, query_length=16, document_length=24)
    saved = load_learner(head, "cpu")
    saved.save(tmp_path / recipe.model.name)
    again = load_learner(ModelSpec(recipe.model.name, similarity="dot", query_length=16, document_length=24), "cpu")
    one, other = (encoder.encode(["the old river"], "document") for encoder in (saved, again))
    assert one.shape == (1, 8) and np.array_equal(one, other)
    assert make_plan(recipe).start


def test_each_report_of_a_recipe_has_its_pages_and_metrics(tmp_path, tiny_model):
    scores = {"stage": "evaluate", "runs": {"start": "start-test"}}
    stages = {
        "deep": {**scores, "metrics": ["recall@10"]},
        "deep-report": {"stage": "report", "evaluation": "deep"},
        "beside": {**scores, "metrics": ["map"]},
        "scores": {**scores, "metrics": ["mrr@10"]},
        "report": {"stage": "report", "evaluation": "scores"},
    }
    tree = small_part(small_collection(tmp_path / "data"), tiny_model, "start-index", "start-test", **stages)
    recipe = recipe_in(tmp_path, tree)
    published = {name: dict(spec.publishes(recipe.view(name))) for name, spec in recipe.stages.items()}
    assert published["scores"] == {"metrics.json": "metrics.json"}
    assert published["report"] == {name: name for name in ("report.html", "report.md", "queries.tsv")}
    assert published["deep"] == {"metrics-deep.json": "metrics.json"}
    assert published["beside"] == {"metrics-beside.json": "metrics.json"}
    names = ("report.html", "report.md", "queries.tsv")
    own = dict(zip(("deep-report.html", "deep-report.md", "deep-report-queries.tsv"), names, strict=True))
    assert published["deep-report"] == own
    del tree["stages"]["report"]
    recipe = recipe_in(tmp_path, tree)
    published = {name: dict(spec.publishes(recipe.view(name))) for name, spec in recipe.stages.items()}
    assert published["deep"] == {"metrics.json": "metrics.json"}
    assert "report.html" in published["deep-report"] and "metrics-scores.json" in published["scores"]
