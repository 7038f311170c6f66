"""`hardneg diagnose`: a finished run, its store, and what is printed of both."""

import json

import pytest
from command_line import call, hardneg
from recipes.recipes import small_collection, small_tree, write_recipe

from hardneg.recipes import Options, Watcher, execute, load_recipe, make_plan, publish
from hardneg.records import DataError
from hardneg.store import Store


@pytest.fixture(scope="module")
def finished(tmp_path_factory, tiny_model):
    """A run folder, and its store."""
    folder = tmp_path_factory.mktemp("recipe")
    path = write_recipe(folder / "small.yaml", small_tree(small_collection(folder / "data"), tiny_model))
    store, plan = Store(folder / "store"), make_plan(load_recipe(path, settings=["title=A page"]))
    outcome = execute(plan, store, Options(device="cpu"), Watcher())
    publish(plan, outcome.artifacts, store, folder / "out")
    return folder / "out", store


def test_a_finished_run_is_diagnosed(finished):
    folder, store = finished
    answer = hardneg("diagnose", folder, "--store", store.root, "--json")
    results = {each["check"] + each["subject"]: each for each in json.loads(answer.stdout)["results"]}
    assert {name: each["state"] for name, each in results.items()} == {
        "outcomeSTAR": "unknown",
        "near copiesstatic": "fine",
        "above the positivestatic": "fine",
        "hidden positivesstatic": "fine",
        "learning curvestar": "unknown",
        "collapsestar-index": "fine",
    }
    (step,) = json.loads(answer.stdout)["next"]
    again = f"hardneg recipe run {folder.parent}/small.yaml --preset demo --set 'title=A page' --set "
    assert step["command"].startswith(again) and again.replace("'", "&#39;") in (folder / "report.html").read_text()


def test_a_diagnosis_without_the_store_says_what_it_lacks(finished, tmp_path):
    lines = hardneg("diagnose", finished[0], "--store", tmp_path).stdout.splitlines()
    lacking = [line for line in lines if f"is not in the store {tmp_path};" in line]
    assert len(lacking) == 5 and all(line.startswith("unknown") for line in lacking)


def test_a_folder_without_a_run_is_not_diagnosed(tmp_path):
    ended = call("diagnose", tmp_path)
    assert isinstance(ended.exception, DataError) and "give the folder of a finished recipe" in str(ended.exception)
