"""Every installed miner in the verb `mine`, in `train-refreshed`, and inside sentence-transformers' trainer."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from recipe.recipes import small_collection, small_tree, write_recipe
from typer.testing import CliRunner

import hardneg as hn
from hardneg.cli.main import app
from hardneg.doors.trainer.refresh_recipe import mine_with
from hardneg.encoders.encoder import Encoder
from hardneg.encoders.spec import ModelSpec
from hardneg.formats.negatives import NegativesFile, read_negatives
from hardneg.recipe.execute import Options, Watcher, execute
from hardneg.recipe.load import load_recipe
from hardneg.recipe.plan import make_plan
from hardneg.records.errors import RecipeError, UsageError
from hardneg.records.layout import DATASET
from hardneg.registry.plugins import list_plugins, load_plugin
from hardneg.store.artifacts import Artifact, Store
from hardneg.trainer import RefreshedNegatives
from hardneg.training.refresh import inferencer
from hardneg.training.refresh.folder import RefreshFolder
from hardneg.training.refresh.inferencer import Settings
from hardneg.training.refresh.mining import mine_refresh

GIVEN: Mapping[str, Mapping[str, Any]] = {
    "denoised": {"below": 100.0},
    "max-score": {"highest": 100.0},
    "pos-margin": {"margin": 0.0},
    "pos-percent": {"share": 1.0},
    "window": {"skip": 2, "depth": 9},
    "random": {"count": 5},
}
"""Options that a miner cannot do without, or by which it finds some here."""

MINERS = sorted({plugin.name for plugin in list_plugins("miners") if not plugin.problem})
JOINING = [name for name in MINERS if hasattr(load_plugin("miners", name), "problems")]
"""Those that select from several runs; a model that mines has one."""


def setting(name: str) -> dict[str, Any]:
    return {"name": name, **GIVEN.get(name, {})}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> dict[str, Any]:
    tree = small_tree(small_collection(tmp_path_factory.mktemp("every") / "data"), tiny_model)
    runs = {"dense": "start-train", "again": "start-train"}
    refreshed = {"stage": "train-refreshed", "loss": "infonce"}
    refreshed["refresh"] = {"policy": "never", "depth": 15, "negatives": 3}
    refreshed["options"] = {"batch_size": 4, "max_steps": 1, "precision": "fp32"}
    stages = {name: tree["stages"][name] for name in ("start-index", "start-train")}
    return {**tree, "stages": {**stages, "mined": {"stage": "mine", "runs": runs}, "ance": refreshed}, "presets": {}}


@pytest.fixture(scope="module")
def encoder(tiny_model: Path) -> Encoder:
    return Encoder.load(ModelSpec(str(tiny_model), query_length=16, document_length=24), "cpu")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("store"))


def make(folder: Path, tree: dict[str, Any], store: Store, stage: str, **more: Any) -> Artifact:
    stages = {name: each for name, each in tree["stages"].items() if name in ("start-index", "start-train", stage)}
    stages[stage] = {**stages[stage], **more}
    path = write_recipe(folder / "every.yaml", {**tree, "stages": stages})
    plan = make_plan(load_recipe(path))
    return execute(plan, store, Options(device="cpu", until=stage), Watcher()).artifacts[stage]


def check(rows: NegativesFile) -> None:
    """Query i has the document i as its positive."""
    assert len(rows) == 36 and sum(rows.counts) > 0
    for item in rows:
        assert f"d{item.query_id[1:]}" not in item.negatives


def test_there_are_those_of_hardneg_at_least():
    assert {"topk", "pos-percent", "simans", "union", "mixed"} <= {*MINERS} and len(MINERS) >= 11


@pytest.mark.parametrize("name", MINERS)
def test_the_verb_mine(name, tree, store, tmp_path):
    check(read_negatives(make(tmp_path, tree, store, "mined", miner=setting(name)).path / "negatives.arrow"))


@pytest.mark.parametrize("name", MINERS)
def test_train_refreshed(name, tree, store, tmp_path, encoder):
    """As its recipe says it, by what mines in it; positives that the search has missed have scores all the same."""
    stages = {"ance": {**tree["stages"]["ance"], "miner": setting(name)}}
    path = write_recipe(tmp_path / "every.yaml", {**tree, "stages": stages})
    if name in JOINING:
        with pytest.raises(RecipeError, match=r"stages.ance.miner: union joins several runs"):
            load_recipe(path)
        return
    plan = make_plan(load_recipe(path))
    spec: Any = plan.recipe.stages["ance"]
    stored = execute(plan, store, Options(device="cpu", until=DATASET), Watcher()).artifacts[DATASET].path
    folders = {"collection": str(stored), "checkpoints": str(tmp_path), "refreshes": str(tmp_path / "refreshes")}
    said = {"options": spec.refresh, "miner": spec.miner, "filters": spec.filters, "split": spec.split}
    settings = Settings(model=encoder.spec, seed=1, first=0, devices=["cpu"], threads=1, **folders, **said)
    made = mine_refresh([encoder], inferencer._mining(settings), RefreshFolder(tmp_path / "refreshes"), 0, 0)
    assert made is not None and "no scored positive" not in made.dropped
    rows = read_negatives(RefreshFolder(tmp_path / "refreshes").negatives(0))
    check(rows)
    assert max(rows.counts) <= 3


@pytest.mark.parametrize("name", MINERS)
def test_the_trainer(name, tree, store, tmp_path, tiny_model):
    arguments = SimpleNamespace(output_dir=tmp_path, device="cpu", seed=7)
    given: Any = {"depth": 15, "short": "repeat", "store": store.root, "miner": setting(name)}
    negatives = RefreshedNegatives(tree["dataset"], arguments, **given)
    if name in JOINING:
        with pytest.raises(RecipeError, match="union joins several runs"):
            negatives.recipe.plan(str(tiny_model), "cpu", 7)
        return
    made = mine_with(negatives.recipe, negatives.recipe.plan(str(tiny_model), "cpu", 7), negatives.workplace)
    assert made is not None and "queries with no scored positive" not in made.facts
    check(read_negatives(made.mined.path / "negatives.arrow"))


def test_filters_go_before_the_miner_in_all_three(tree, store, tmp_path, tiny_model):
    """Judgements that name what the miner would take first; keys count what they say, and not where they lie."""
    first = read_negatives(make(tmp_path, tree, store, "mined", miner=setting("topk")).path / "negatives.arrow")
    marks = tmp_path / "marks.qrels"
    marks.write_text("".join(f"{item.query_id} 0 {item.negatives[0]} 1\n" for item in first))
    filters = [{"name": "judged", "files": [str(marks)]}]
    mined = make(tmp_path, tree, store, "mined", miner=setting("topk"), filters=filters)
    for one, two in zip(first, read_negatives(mined.path / "negatives.arrow"), strict=True):
        assert list(two.negatives) == list(one.negatives[1:])
    assert mined.facts["dropped as judged relevant"] == 72  # in both runs
    refreshed = make(tmp_path, tree, store, "ance", filters=filters)
    assert refreshed.facts["dropped as judged relevant"] == 36
    moved = marks.rename(tmp_path / "moved.qrels")
    assert make(tmp_path, tree, store, "ance", filters=[{"name": "judged", "files": [str(moved)]}]).key == refreshed.key
    arguments = SimpleNamespace(output_dir=tmp_path, device="cpu", seed=7)
    filters = [{"name": "judged", "files": [str(moved)]}]
    given: Any = {"depth": 15, "short": "repeat", "store": store.root, "filters": filters}
    recipe = RefreshedNegatives(tree["dataset"], arguments, **given).recipe
    workplace = RefreshedNegatives(tree["dataset"], arguments, **given).workplace
    made = mine_with(recipe, recipe.plan(str(tiny_model), "cpu", 7), workplace)
    assert made is not None and made.facts["dropped as judged relevant"] == 36
    without = replace(recipe, filters=()).plan(str(tiny_model), "cpu", 7).keys
    assert recipe.plan(str(tiny_model), "cpu", 7).keys["negatives"] != without["negatives"]


def test_the_function_and_the_command_take_filters(tree, tmp_path):
    marks, run, written = tmp_path / "marks.qrels", tmp_path / "run.trec", tmp_path / "mined.arrow"
    marks.write_text("q0 0 d1 1\n")
    run.write_text("".join(f"q0 Q0 d{rank} {rank + 1} {9 - rank} x\n" for rank in range(5)))
    judged = {"name": "judged", "files": [str(marks)]}
    mined = hn.mine(tree["dataset"], run=run, filters=["near-copies", judged], store=tmp_path / "store")
    assert list(mined["q0"].negatives) == ["d2", "d3", "d4"] and mined.facts["dropped as judged relevant"] == 1
    given = ["mine", "--dataset", tree["dataset"], "--run", str(run), "--store", str(tmp_path / "store")]
    filters = ["--filter", "near-copies", "--filter", f"{{name: judged, files: [{marks}]}}"]
    done = CliRunner().invoke(app, [*given, *filters, "--form", "hardneg", "--count", "3", "--output", str(written)])
    assert done.exit_code == 0, done.output
    assert list(read_negatives(written)[0].negatives) == ["d2", "d3", "d4"]
    with pytest.raises(UsageError, match="filters: must be a name, or a dict of its options"):
        hn.mine(tree["dataset"], run=run, filters=[3], store=tmp_path / "store")  # type: ignore[list-item]
