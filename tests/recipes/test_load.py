import json
import re
from pathlib import Path

import pytest
from recipes.recipes import recipe_in, small_tree, write_recipe
from typer.testing import CliRunner

from hardneg.cli.main import app
from hardneg.datasets.held_out import Withheld
from hardneg.formats.segments import Segments
from hardneg.recipes import load_recipe
from hardneg.records import RecipeError


@pytest.fixture
def tree(tmp_path):
    return small_tree(tmp_path / "data", tmp_path / "model")


def problems_of(tmp_path, tree, **options):
    with pytest.raises(RecipeError) as caught:
        load_recipe(write_recipe(tmp_path / "r.yaml", tree), **options)
    return caught.value.problems


def test_a_recipe_has_its_defaults_filled_in(tmp_path, tree):
    recipe = recipe_in(tmp_path, tree)
    assert next(iter(recipe.stages)) == "dataset"
    assert recipe.stages["static"].seed == 42 and recipe.stages["static"].split == "train"
    assert recipe.outputs == {"model": "star", "index": "star-index"}
    assert load_recipe(recipe.source, "longer").stages["star"].options.max_steps == 6


def test_all_mistakes_at_once_each_with_its_path(tmp_path, tree):
    tree["datset"] = 1
    tree["stages"]["static"]["miner"] = {"name": "topp"}
    tree["stages"]["star"]["negatives"] = "statik"
    tree["stages"]["star"]["options"]["learning_rat"] = 1
    tree["stages"]["start-test"]["index"] = "star"
    tree["stages"]["start-train"]["depth"] = -1
    tree["stages"]["scores"]["stage"] = "evalute"
    found = problems_of(tmp_path, tree)
    for expected in [
        "datset: no such option; did you mean 'dataset'",
        "stages.static.miner: unknown miner 'topp'; did you mean 'topk'",
        "stages.star.options.learning_rat: no such option; did you mean 'learning_rate'",
        "stages.start-train.depth: must be greater than 0 (got -1)",
        "stages.scores.stage: no stage 'evalute'; did you mean 'evaluate'",
    ]:
        assert any(problem.startswith(expected) for problem in found), (expected, found)


def test_references_are_checked_by_name_and_kind(tmp_path, tree):
    tree["stages"]["star"]["negatives"] = "statik"
    tree["stages"]["start-test"]["index"] = "static"
    tree["stages"]["report"]["training"] = {"STAR": "star-index"}
    tree["outputs"] = {"model": "nothing", "indx": "star-index"}
    assert problems_of(tmp_path, tree) == (
        "stages.start-test.index: 'static' is of type negatives, expected index; available: start-index, star-index",
        "stages.star.negatives: no stage 'statik'; did you mean 'static'?; expected a stage of type negatives",
        "stages.report.training.STAR: 'star-index' is of type index, expected model or reranker; available: star",
        "outputs.indx: no such output; did you mean 'index'?; available: model, index",
        "outputs.model: 'nothing' is not a stage that creates a model",
    )


def test_an_index_of_vectors_needs_them(tmp_path, tree):
    tree["stages"]["a"] = {"stage": "index", "backend": "flat"}
    tree["stages"]["b"] = {"stage": "index", "backend": "bm25", "vectors": "start-index"}
    assert problems_of(tmp_path, tree) == (
        "stages.a.vectors: missing; flat is built from the vectors of an encode stage",
        "stages.b.vectors: bm25 is built from text, not vectors; remove it",
    )


def test_a_loss_that_is_made_for_another_similarity(tmp_path, tree):
    tree["stages"]["star"]["loss"] = "triplet"
    recipe_in(tmp_path, tree)
    tree["model"] = {"name": "packaged:all-MiniLM-L6-v2", "similarity": "dot"}
    assert problems_of(tmp_path, tree) == (
        "stages.star.loss: triplet needs similarity cosine, but the model's is dot; set model.similarity: cosine, "
        "or choose another loss",
    )


def test_a_loss_that_needs_what_the_stage_lacks(tmp_path, tree, monkeypatch):
    told = "stages.star.loss: lambda needs ranks, which this stage does not provide; use it in stage train-queries"
    tree["stages"]["star"]["loss"] = {"name": "lambda", "cut": 10}
    assert problems_of(tmp_path, tree) == (f"{told}, or choose another loss",)
    monkeypatch.setattr("hardneg.losses.pairwise.LambdaLoss.needs", ("ranks", "weights"))
    told = "needs ranks, weights, which this stage does not provide; choose another"
    assert told in problems_of(tmp_path, tree)[0]
    monkeypatch.delattr("hardneg.losses.pairwise.LambdaLoss.needs")
    recipe_in(tmp_path, tree)


def test_a_cycle_is_told(tmp_path, tree):
    tree["stages"]["start-index"]["model"] = "star"
    assert "itself (start-index → star → static → start-train → start-index)" in problems_of(tmp_path, tree)[0]


def test_reserved_names(tmp_path, tree):
    tree["stages"]["start"] = {"stage": "encode"}
    assert "the name 'start' is reserved" in problems_of(tmp_path, tree)[0]


def test_segments_of_a_recipe_are_those_of_its_stages(tmp_path, tree):
    """One that names its own keeps them; query-side training, whose index has one vector a document, has none."""
    tree["segments"] = {"length": 64}
    tree["stages"]["star-index"]["segments"] = False
    tree["stages"]["adore"] = {"stage": "train-queries", "index": "star-index", "loss": {"name": "lambda", "cut": 10}}
    stages = recipe_in(tmp_path, tree).stages
    assert stages["start-index"].segments == stages["star"].segments == Segments(64, None, 4)
    assert stages["star-index"].segments is stages["adore"].segments is None


def test_what_is_withheld_stands_beside_the_loaders_options(tmp_path, tree):
    path = write_recipe(tmp_path / "r.yaml", tree)
    spec = load_recipe(path, settings=["dataset.withheld.unlabelled=0.5"]).stages["dataset"]
    assert (spec.loader.name, spec.withheld) == ("beir", Withheld(unlabelled=0.5))
    assert spec.identity()["withheld"] == {"unlabelled": 0.5, "positives": 0.0, "seed": 42}
    assert load_recipe(path).stages["dataset"].identity().keys() == {"source"}
    with pytest.raises(RecipeError) as raised:
        load_recipe(path, settings=["dataset.withheld={unlabeled: 0.5}"])
    assert "dataset.withheld.unlabeled: no such option; did you mean 'unlabelled'" in raised.value.problems[0]
    with pytest.raises(RecipeError, match=r"dataset\.withheld: positives must be at least 0 and below 1, not 2"):
        load_recipe(path, settings=["dataset.withheld.positives=2"])


@pytest.mark.parametrize(
    ("stage", "option", "meant"),
    [
        ({"stage": "analyze", "analysis": {"overlap": {"rums": 3}}}, "analysis.overlap.rums", "runs"),
        ({"stage": "train-refreshed", "loss": "nll", "refresh": {"evry": 5}}, "refresh.evry", "every"),
        ({"stage": "train-refreshed", "loss": "nll", "options": {"max_step": 5}}, "options.max_step", "max_steps"),
    ],
)
def test_an_option_of_a_part_is_looked_for_among_that_parts(tmp_path, tree, stage, option, meant):
    tree["stages"]["extra"] = stage
    told = f"stages.extra.{option}: no such option; did you mean {meant!r}"
    assert any(problem.startswith(told) for problem in problems_of(tmp_path, tree))


@pytest.mark.parametrize(
    ("loss", "similarity", "told"),
    [
        ("ranknet", "cosine", True),
        ({"name": "ranknet", "temperature": 0.05}, "cosine", False),
        ("ranknet", "dot", False),
        ("triplet", "cosine", False),
    ],
)
def test_a_temperature_that_is_not_for_cosines_is_told(tmp_path, tree, loss, similarity, told):
    tree["stages"]["star"]["loss"] = loss
    tree["model"]["similarity"] = similarity
    name, heat = (loss["name"], f"{loss.get('temperature', 1):g}") if isinstance(loss, dict) else (loss, "1")
    line = f"stages.star.loss: {name}: with cosines, temperature {heat} weights all documents almost equally; 0.05"
    notes = recipe_in(tmp_path, tree).notes
    assert [note.partition(" is usual")[0] for note in notes] == [line] * told


def test_a_folder_is_a_dataset_with_or_without_the_name_of_its_form(tmp_path, tree):
    named = recipe_in(tmp_path, tree).dataset
    folder = tree["dataset"].removeprefix("beir:")
    (tmp_path / "data").mkdir(exist_ok=True)
    (tmp_path / "data" / "corpus.jsonl").touch()
    assert recipe_in(tmp_path, {**tree, "dataset": folder}).dataset == named
    (found,) = problems_of(tmp_path, {**tree, "dataset": str(tmp_path / "model")})
    assert "; for a folder write beir:FOLDER, or documents:FOLDER; available: " in found


PAGES = Path(__file__).parents[2] / "docs"


@pytest.mark.slow
def test_a_folder_of_text_becomes_a_tested_retriever(tmp_path, monkeypatch):
    monkeypatch.setenv("HARDNEG_STORE", str(tmp_path / "store"))
    steps = [f"stages.{name}.options.max_steps=10" for name in ("inbatch-neg", "trained")]
    shorter = [word for setting in steps for word in ("--set", setting)] + ["--output", str(tmp_path / "out")]
    ended = CliRunner().invoke(
        app, ["recipe", "run", "from-documents", "--set", f"dataset=documents:{PAGES}", *shorter]
    )
    assert ended.exit_code == 0, ended.output
    scores = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert [*scores["metrics"]] == ["In-Batch Neg", "Hard negatives", "BM25", "as shipped"]
    queries = list(scores["per_query"]["as shipped"]["mrr@10"])
    assert len(queries) > 20 and {query.split(":")[0] for query in queries} == {"heading", "inverse-cloze", "crop"}
    assert (tmp_path / "out" / "model" / "model.safetensors").exists() and (
        tmp_path / "out" / "index" / "docid"
    ).exists()
    page = (tmp_path / "out" / "report.md").read_text()
    assert f"{len(queries)} written queries of split test, over " in page
    assert "The model was trained on queries generated from the passages, not asked by users." in page
    card = (tmp_path / "out" / "model" / "README.md").read_text()
    assert re.search(r"- Dataset: [\d,]+ passages, [\d,]+ training queries, generated from them\n", card)
    assert f"Means over {len(queries)} written queries of split test." in card
