"""A network is taken as a reranker where its files have a head for scores; a head that is drawn is to be trained."""

import shutil
from pathlib import Path

import pytest
from recipes.recipes import plan_in, small_collection, small_tree, write_recipe
from safetensors.torch import load_file, save_file
from tiny import tiny_reranker as write_reranker
from typer.testing import CliRunner

import hardneg as hn
from hardneg.cli.main import app
from hardneg.recipes import load_recipe, make_plan, plan as planning
from hardneg.records import ModelError, PluginError
from hardneg.rerankers.cross_encoder import CrossEncoder

PACKAGED = "packaged:all-MiniLM-L6-v2"
NO_HEAD = "no head for scores in these weights, this is an encoder"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return small_collection(tmp_path / "data")


@pytest.mark.parametrize("source", [PACKAGED, "tiny"])
def test_an_encoder_is_no_reranker(data, tmp_path, tiny_model, source):
    source = str(tiny_model) if source == "tiny" else source
    (tmp_path / "run.txt").write_text("q46 Q0 d46 1 9 x\n")
    given = ["--dataset", f"beir:{data}", "--run", tmp_path / "run.txt", "--reranker", f"cross-encoder:{source}"]
    result = CliRunner().invoke(app, ["rerank", *map(str, given), "--output", str(tmp_path / "best.trec.gz")])
    assert isinstance(result.exception, ModelError) and NO_HEAD in str(result.exception)
    with pytest.raises(ModelError, match=NO_HEAD):
        hn.rerank(data, {"q46": {"d46": 9.0}}, f"cross-encoder:{source}", store=tmp_path / "store")
    with pytest.raises(ModelError, match=NO_HEAD):
        next(CrossEncoder(source).rerank([("old river", ["a river"])]))
    assert not (tmp_path / "best.trec.gz").exists()


def test_a_static_model_is_no_reranker(tmp_path):
    (tmp_path / "modules.json").write_text("[]")
    with pytest.raises(ModelError, match=NO_HEAD):
        CrossEncoder(str(tmp_path)).check_trained()


def test_a_reranker_needs_its_source():
    with pytest.raises(PluginError, match="source is empty; give a folder or a hub id"):
        CrossEncoder(" ")


def test_a_recipe_is_refused_before_it_runs_and_may_train_a_head(data, tmp_path, tiny_model, monkeypatch):
    plugin = {"name": "cross-encoder", "source": str(tiny_model), "length": 32}
    tree = small_tree(data, tiny_model)
    trained = {"stage": "train-reranker", "reranker": plugin, "negatives": "static"}
    again = {"stage": "rerank", "reranker": "judge", "run": "start-test"}
    tree["stages"] |= {"judge": trained, "judged": again}
    plan_in(tmp_path, tree)
    tree["stages"]["drawn"] = {"stage": "rerank", "plugin": plugin, "run": "start-test"}
    path = write_recipe(tmp_path / "r.yaml", tree)
    with pytest.raises(ModelError, match=f"{tiny_model}.*{NO_HEAD}"):
        make_plan(load_recipe(path))
    plans, make = [], planning.make_plan
    monkeypatch.setattr(planning, "make_plan", lambda *given: plans.append(given) or make(*given))
    result = CliRunner().invoke(app, ["recipe", "check", str(path), "--store", str(tmp_path / "store")])
    assert isinstance(result.exception, ModelError) and "ready" not in result.output
    with pytest.raises(ModelError, match=NO_HEAD):
        hn.load_recipe(path).check(store=tmp_path / "store")
    assert len(plans) == 2  # one a check


def test_a_head_of_other_outputs_is_drawn_too(tmp_path, tiny_reranker):
    two = write_reranker(tmp_path / "two", outputs=2)
    for source, own, other in ((tiny_reranker, 1, 2), (two, 2, 1)):
        for outputs in (own, None):
            CrossEncoder(str(source), outputs=outputs).check_trained()
        with pytest.raises(ModelError, match=f"has {own} outputs?, and outputs is {other}"):
            CrossEncoder(str(source), outputs=other).check_trained()


def test_weights_that_lack_the_head_of_their_configuration_are_not_opened(tmp_path, tiny_reranker):
    folder = tmp_path / "headless"
    shutil.copytree(tiny_reranker, folder)
    weights = load_file(folder / "model.safetensors")
    rest = {name: value for name, value in weights.items() if "classifier" not in name}
    save_file(rest, folder / "model.safetensors")
    with pytest.raises(ModelError, match=r"weights lack classifier\.bias, classifier\.weight: copy the model again"):
        CrossEncoder(str(folder), length=32).load()
    CrossEncoder(str(folder), length=32, outputs=2).load()
