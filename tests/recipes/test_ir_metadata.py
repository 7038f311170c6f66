"""`ir-metadata.yml` of a run folder by the published checklist, and runs written for a shared task."""

from dataclasses import replace

import pytest
import yaml
from recipes.recipes import recipe_in, small_collection, small_tree

from hardneg.recipes.execute import Options, Watcher, execute
from hardneg.recipes.load import load_recipe
from hardneg.recipes.plan import make_plan
from hardneg.recipes.run_folder import ir_metadata, publish
from hardneg.recipes.yaml_load import find_recipe
from hardneg.stages.rerank import Rerank
from hardneg.stages.sources import ReadDataset
from hardneg.store.artifacts import Store

CHECKLIST = {
    "schema-version": float,
    "run-version": float,
    "tag": str,
    "platform/hardware/cpu/model": str,
    "platform/hardware/cpu/architecture": str,
    "platform/hardware/cpu/number of cores": int,
    "platform/hardware/ram": str,
    "platform/operating system/kernel": str,
    "platform/operating system/distribution": str,
    "platform/software/libraries/python": list,
    "platform/software/retrieval toolkit": list,
    "research goal/evaluation/reported measures": list,
    "research goal/evaluation/significance test": list,
    "implementation/executable/cmd": str,
    "implementation/source/lang": list,
    "method/automatic": bool,
    "method/score ties": str,
    "method/retrieval": list,
    "actor/role": str,
    "data/test collection/name": str,
    "data/training data": list,
}
"""Types of the fields, from the checklists of https://www.ir-metadata.org, version 0.1."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory, tiny_model):
    folder = tmp_path_factory.mktemp("metadata")
    recipe = recipe_in(folder, small_tree(small_collection(folder / "data"), tiny_model))
    plan, store = make_plan(recipe), Store(folder / "store")
    artifacts = execute(plan, store, Options(device="cpu"), Watcher()).artifacts
    publish(plan, artifacts, store, folder / "out")
    return recipe, artifacts, folder / "out"


def at(tree, path):
    for name in path.split("/"):
        tree = tree[name]
    return tree


def test_each_field_of_the_checklist_has_its_type(finished):
    tree = yaml.safe_load((finished[2] / "ir-metadata.yml").read_text())
    assert {path: type(at(tree, path)) for path in CHECKLIST} == CHECKLIST
    assert [*tree] == [
        *("schema-version", "run-version", "tag", "platform", "research goal", "implementation", "method", "actor"),
        *("data", "resources"),
    ]


def test_it_holds_what_was_computed(finished):
    _, artifacts, out = finished
    tree = yaml.safe_load((out / "ir-metadata.yml").read_text())
    assert at(tree, "research goal/evaluation/reported measures") == ["mrr@10", "recall@10"]
    retrieval = {each["name"]: each for each in at(tree, "method/retrieval")}
    assert retrieval["star-test"] == {"name": "star-test", "method": "search", "index": "star-index", "depth": 20}
    assert at(tree, "data/test collection/name") == "beir:data" and str(out.parent) not in str(tree)
    seconds = sum(artifact.facts["seconds"] for artifact in artifacts.values())
    assert at(tree, "resources/runtime/wallclock") == f"{seconds:.1f} s"
    assert at(tree, "resources/steps").keys() == {name for name, made in artifacts.items() if made.facts["seconds"]}


def test_a_recipe_of_runs_alone_has_neither_training_data_nor_tests(finished):
    recipe, artifacts, _ = finished
    searched = {name: recipe.stages[name] for name in ("dataset", "start-index", "start-test")}
    tree = ir_metadata(replace(recipe, stages=searched), {name: artifacts[name] for name in searched})
    assert "training data" not in tree["data"] and tree["research goal"]["evaluation"] == {}


def test_every_collection_stands_among_the_training_data(finished):
    recipe, artifacts, _ = finished
    other = ReadDataset.model_validate({"stage": "dataset", "loader": "beir:/some/folder/other"})
    again = other.model_copy(update={"loader": recipe.dataset.loader})
    tree = ir_metadata(replace(recipe, stages={**recipe.stages, "other": other, "again": again}), artifacts)
    assert tree["data"]["test collection"] == {"name": "beir:data"}
    assert tree["data"]["training data"] == [{"name": "beir:data"}, {"name": "beir:other"}]


def test_no_path_of_this_machine_stands_in_it(finished):
    recipe, artifacts, _ = finished
    plugin = {"name": "cross-encoder", "source": "/home/anna/secret-client/model"}
    fields = {"plugin": plugin, "run": "start-test", "split": "test"}
    rerank = Rerank.model_validate({"stage": "rerank", **fields})
    search = recipe.stages["start-test"].model_copy(update={"query_vectors": "secret-client/q.npy"})
    tree = ir_metadata(replace(recipe, stages={**recipe.stages, "start-test": search, "star-test": rerank}), artifacts)
    retrieval = {each["name"]: each for each in at(tree, "method/retrieval")}
    assert retrieval["star-test"]["plugin"]["source"] == "model" and retrieval["start-test"]["query_vectors"] == "q.npy"
    assert "secret" not in str(tree)


def test_the_command_names_the_file_of_a_recipe_of_ones_own(finished):
    recipe, artifacts, _ = finished
    shipped = load_recipe(find_recipe("star-passage"))
    commands = [at(ir_metadata(each, artifacts), "implementation/executable/cmd") for each in (recipe, shipped)]
    names = [recipe.source.name, "star-passage"]
    assert commands == [f"hardneg recipe run {name} --preset demo" for name in names]
