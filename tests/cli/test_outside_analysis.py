"""An analysis of another package has its command, its form in a recipe and its section by its entry point alone."""

import re
from importlib.metadata import EntryPoints
from pathlib import Path
from string import Template

import numpy as np
import pytest
from cli.analyze_command import call, printed
from recipes.recipes import plan_in, recipe_in, small_collection, small_tree

from hardneg.formats.runs import write_run
from hardneg.records import RankedList, RecipeError
from hardneg.registry import list_plugins
from hardneg.stages.base import ArtifactInput
from tests.stages.analyzed import context, made

POINTS = Template("[hardneg.analyses]\nlist-lengths = $module:ListLengths\n")


@pytest.fixture
def outside(tmp_path, monkeypatch):
    source = tmp_path / "package" / "src"
    (source / "hardneg_list_lengths").mkdir(parents=True)
    page = (Path(__file__).parents[2] / "docs" / "write-a-plugin.md").read_text(encoding="utf-8")
    *_, analysis = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (source / "hardneg_list_lengths" / "list_lengths.py").write_text(analysis)
    installed = source / "hardneg_list_lengths-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: hardneg-list-lengths\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(POINTS.substitute(module="hardneg_list_lengths.list_lengths"))
    monkeypatch.syspath_prepend(str(source))
    (tmp_path / "made").mkdir()
    scores = np.array([3, 2, 1], np.float32)
    write_run(tmp_path / "made" / "run.trec.gz", [("q", RankedList(["a", "b", "c"], scores))])
    return tmp_path


def test_it_is_listed_and_called(outside):
    assert "list-lengths" in [plugin.name for plugin in list_plugins("analyses")]
    assert "list-lengths" in call("--help").stdout
    run = ["--run", outside / "made" / "run.trec.gz"]
    assert printed("list-lengths", *run, "--depth", 2, "--plot", outside / "l.svg") == {"run.trec.gz": 2.0}
    assert (outside / "l.svg").read_text().count("<svg") == 1
    assert printed("list-lengths", "--run", f"ours={outside / 'made' / 'run.trec.gz'}") == {"ours": 3.0}
    assert "Means over the queries" in call("list-lengths", *run).stdout
    assert "Missing option '--run'" in call("list-lengths").stderr


def test_one_whose_class_is_not_there_is_listed_all_the_same(outside):
    (installed,) = (outside / "package" / "src").glob("*.dist-info")
    (installed / "entry_points.txt").write_text("[hardneg.analyses]\nlist-lengths = hardneg_list_lengths:Gone\n")
    rows = [line for line in call("--help").stdout.splitlines() if "list-lengths" in line]
    assert len(rows) == 1 and "It has no summary." in rows[0]


def test_it_stands_in_a_recipe_and_in_a_report(outside, tiny_model):
    tree = small_tree(small_collection(outside / "data"), tiny_model)
    asked = {"list-lengths": {"runs": {"start": "start-test"}}}
    tree["stages"]["behind"] = {"stage": "analyze", "analysis": asked}
    plan = plan_in(outside, tree)
    assert plan.steps["behind"].inputs["analysis.list-lengths.runs.start"] == "start-test"
    tree["stages"]["behind"]["analysis"] = {"list-lengths": {**asked["list-lengths"], "deep": 3}}
    with pytest.raises(RecipeError, match=r"analysis\.list-lengths\.deep: no such option; did you mean 'depth'"):
        recipe_in(outside, tree)
    source = ArtifactInput("start-test", "", outside / "made")
    found, section = made(context(outside / "out", asked, {"list-lengths.runs.start": source}))
    assert found == {"start": 3.0} and section.title == "Behind: length of lists"
    assert section.tables[0].rows == [["start", "3.0"]]


def test_the_command_of_an_analysis_that_is_not_installed_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.metadata.entry_points", EntryPoints)
    told = "'drift' is in package hardneg-papers, which is not installed: pip install ./plugins/hardneg-papers"
    assert told in str(call("drift", "history.jsonl").exception)
