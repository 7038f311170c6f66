"""A verb and an analysis of another package: what breaks in them is told as theirs, and the Tab key knows them."""

import importlib.util
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
from recipes.recipes import small_collection, small_tree, write_recipe
from typer.testing import CliRunner

from hardneg.cli.main import app
from hardneg.recipes import Options, Watcher, estimate, execute, load_recipe, make_plan
from hardneg.records import PluginError
from hardneg.store import Store

ROOT = Path(__file__).parents[2]


@pytest.fixture
def example(tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recipe with the verb and the analysis of plugins/hardneg-example, which is as good as installed."""
    package = ROOT / "plugins" / "hardneg-example"
    shutil.copytree(package / "src", tmp_path / "site")
    groups = tomllib.loads((package / "pyproject.toml").read_text())["project"]["entry-points"]
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {at}\n" for name, at in points.items()) for group, points in groups.items()
    ]
    installed = tmp_path / "site" / "hardneg_example-0.1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: hardneg-example\nVersion: 0.1.0\n")
    (installed / "entry_points.txt").write_text("".join(lines))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    tree = small_tree(small_collection(tmp_path / "data"), tiny_model)
    kept = {name: tree["stages"][name] for name in ("start-index", "start-test")}
    runs = {"start": "start-test"}
    added = {"to-judge": {"stage": "pool", "runs": runs}}
    added["found"] = {"stage": "analyze", "analysis": {"lengths": {"runs": runs}}}
    return write_recipe(tmp_path / "judging.yaml", {**tree, "stages": {**kept, **added}})


def boom(*_: Any, **__: Any) -> Any:
    raise ValueError("not this")


def told(where: str, recipe: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What is said of a recipe where a name of the package breaks."""
    with monkeypatch.context() as patched, pytest.raises(PluginError) as caught:
        patched.setattr(f"hardneg_example.{where}", boom, raising=False)
        plan, store = make_plan(load_recipe(recipe)), Store(recipe.parent / "store")
        estimate(plan, store)
        execute(plan, store, Options(device="cpu"), Watcher())
    return str(caught.value)


def test_what_breaks_is_told_as_the_packages(example, monkeypatch):
    for where, name in (
        ("pool.getattr", "Pool"),  # in `problems`
        ("pool.len", "Pool"),  # in `estimate`
        ("pool.pool", "Pool"),  # in `make`
        ("lengths._mean", "Lengths"),  # in `measure`
    ):
        line = told(where, example, monkeypatch)
        assert line.startswith(f"plugin {name} failed (") and "ValueError: not this" in line and "\n" not in line


def test_an_analysis_that_breaks_in_its_command_is_told_as_the_packages(example, monkeypatch):
    run = example.parent / "a.trec"
    run.write_text("q1 Q0 d1 1 1.0 x\n")
    corpus = example.parent / "data" / "corpus.jsonl"
    command = ["analyze", "lengths", "--run", str(run), "--corpus", str(corpus)]
    assert CliRunner().invoke(app, command).exit_code == 0
    monkeypatch.setattr("hardneg_example.lengths._mean", boom)
    assert isinstance(CliRunner().invoke(app, command).exception, PluginError)


def complete(line: str) -> list[str]:
    words = line.split(" ")
    env = {"_HARDNEG_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    return CliRunner().invoke(app, [], prog_name="hardneg", env=env).stdout.split()


def test_the_tab_key_knows_them(example):
    assert complete("hardneg plugins show stage po") == ["pool"]
    assert complete("hardneg analyze len") == ["lengths"]
    assert "--depth" in complete("hardneg analyze lengths --d")
    assert complete(f"hardneg recipe run {example} --until to") == ["to-judge"]


def test_the_reference_has_them_and_says_whose_they_are(example):
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs" / "reference.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pages = module.pages()
    _, verb = pages["verbs"].split("## `pool`\n")
    assert "Makes: pool." in verb and "| `depth` | whole number | `10` | number of documents per list. |" in verb
    _, analysis = pages["plugins"].split("### `lengths`\n")
    assert analysis.lstrip().startswith("From the package hardneg-example.")
    assert "| `depth` | `int` | `10` | The number of top documents to measure. |" in analysis
    assert pages["commands/analyze/lengths"].startswith("# `hardneg analyze lengths`\n")
