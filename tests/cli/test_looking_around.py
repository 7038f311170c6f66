"""Recipes, plans, plugins, datasets and the store, as text and JSON; packages from templates."""

import json
import os
from pathlib import Path

import pytest
from command_line import call, hardneg
from recipes.recipes import small_collection, small_tree, write_recipe
from typer.testing import CliRunner

from hardneg.cli.plugins import app, write_package
from hardneg.recipes import find_recipe, load_recipe, make_plan, named_recipes
from hardneg.records import UsageError
from hardneg.registry import list_plugins
from hardneg.store import Store


def printed(*arguments):
    return json.loads(hardneg(*arguments, "--json").stdout)


def test_recipes_and_plugins():
    found = printed("recipe", "list")
    assert [row["name"] for row in found] == named_recipes()
    star = next(row for row in found if row["name"] == "star-passage")
    assert star["about"].startswith("STAR") and star["path"].endswith("star-passage.yaml")
    assert {row["name"] for row in printed("plugins", "list", "loss")} == {one.name for one in list_plugins("losses")}


def test_artifacts_whole_and_damaged(tmp_path):
    small_collection(tmp_path / "data")
    store = tmp_path / "store"
    assert printed("artifacts", "list", "--store", store) == []
    printed("data", "show", f"beir:{tmp_path / 'data'}", "--store", store)
    (row,) = printed("artifacts", "list", "--store", store)
    (artifact,) = Store(store).artifacts()
    assert row.keys() == {"key", "kind", "name", "bytes", "path"}
    assert (row["key"], row["kind"], row["path"]) == (artifact.key, artifact.artifact_type, str(artifact.path))
    assert row["bytes"] == sum(path.stat().st_size for path in artifact.path.rglob("*") if path.is_file())
    (artifact.path / "manifest.json").write_text("{")
    (row,) = printed("artifacts", "list", "--store", store)
    assert row.keys() == {"damaged"} and artifact.key in row["damaged"]


def test_datasets(tmp_path):
    rows = {row["name"]: row["reads"] for row in printed("data", "list")}
    assert rows["beir"] == "A folder in BEIR's format" and all(rows.values())
    assert "ir-datasets" in hardneg("data", "list").stdout
    small_collection(tmp_path / "data")
    queries = (tmp_path / "data" / "queries.jsonl").read_text().splitlines()
    first = json.loads(queries[0]) | {"answers": ["a river"]}
    (tmp_path / "data" / "queries.jsonl").write_text("\n".join([json.dumps(first), *queries[1:]]) + "\n")
    words = ["data", "show", f"beir:{tmp_path}/data", "--store", tmp_path / "store"]
    out = hardneg(*words, "--limit", 1).stdout
    assert "documents: 60; words: mean " in out and f"query {first['_id']} (" in out and "= a river" in out
    assert "\ntrain: queries 36, judgements 36, highest grade 1, with answers 1\n" in out
    shown = printed(*words)
    assert shown["documents"] == 60 and len(shown["first"]["documents"]) == 2


@pytest.fixture
def plan(tmp_path: Path, tiny_model: Path):
    path = write_recipe(tmp_path / "r.yaml", small_tree(small_collection(tmp_path / "data"), tiny_model))

    def asked(*words: object) -> tuple[int, str]:
        done = call("recipe", "plan", path, "--store", tmp_path / "store", *words)
        told = str(done.exception) if done.exception and not isinstance(done.exception, SystemExit) else ""
        return done.exit_code, done.output + told

    return asked


def test_each_step_has_its_key_and_a_plan_of_many_documents_their_items(plan):
    code, told = plan("--documents", "1e9")
    assert code == 0, told
    (head,) = (line for line in told.splitlines() if line.startswith("step"))
    assert head.split() == ["step", "stage", "state", "key", "items", "disk"]
    assert "1,000,000,000 passages" in told and "\nto run: " in told
    code, told = plan("--json")
    content = json.loads(told[told.index("{") :])
    steps = {step["step"]: step for step in content["steps"]}
    index = steps["start-index"]
    assert code == 0 and index["stored"] is False and index["unit"] == "passages" and index["seconds"] is None
    assert len(index["key"]) == 32 and index["key"][:8] in plan()[1]
    assert content["to run"] == {"steps": len(steps), "disk": sum(step["disk"] for step in steps.values())}


def test_every_step_of_the_shipped_recipes_has_a_purpose():
    for name in ("star-passage", "adore-star-passage", "ance-passage", "rocketqa-passage", "cort-electra-passage"):
        steps = make_plan(load_recipe(find_recipe(name)), []).steps.values()
        assert [step.name for step in steps if not step.spec.purpose] == []


pytest_plugins = ["pytester"]
KINDS = {"dataset": "datasets", "loss": "losses", "miner": "miners", "stage": "stages"}


def test_what_is_written_passes_its_own_tests(pytester, monkeypatch):
    for kind, plural in KINDS.items():
        folder = pytester.path / kind
        done = CliRunner().invoke(app, ["new", kind, f"my-{kind}", "--output", str(folder)])
        assert done.exit_code == 0, done.output
        project = (folder / "pyproject.toml").read_text()
        assert f'my-{kind} = "hardneg_my_{kind}.my_{kind}:My{kind.capitalize()}"' in project
        assert f'entry-points."hardneg.{plural}"' in project
        assert "$" not in "".join(path.read_text() for path in folder.rglob("*.*"))
    sources = [str(pytester.path / kind / "src") for kind in KINDS]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sources))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # of pytest: they take a second to load
    result = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider", "--import-mode=importlib")
    outcomes = result.parseoutcomes()
    assert set(outcomes) == {"passed"} and outcomes["passed"] > 20, result.stdout.str()


def test_mistakes_are_told(tmp_path):
    with pytest.raises(UsageError, match="did you mean 'miner'"):
        write_package("minre", "own", tmp_path / "new")
    with pytest.raises(UsageError, match="'search': hardneg has a stage with this name; choose another"):
        write_package("stage", "search", tmp_path / "new")
    with pytest.raises(UsageError, match="no template for filters; available: dataset, loss, miner, stage"):
        write_package("filter", "own", tmp_path / "new")
    for name in ("Own", "my_own", "1st", "class", "own-", "../own"):
        with pytest.raises(UsageError, match="is not a valid plugin name"):
            write_package("miner", name, tmp_path / "new")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="not an empty folder"):
        write_package("miners", "own", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
