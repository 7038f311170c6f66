"""`hardneg analyze`: on files and run folders, and by an entry point of another package alone."""

import re
from importlib.metadata import EntryPoints
from pathlib import Path

import numpy as np
import pytest
from cli.analyze_command import call, printed, run_files
from recipes.recipes import plan_in, recipe_in, small_collection, small_tree

from hardneg.formats.runs import write_run
from hardneg.records import RankedList, RecipeError
from hardneg.registry import list_plugins
from hardneg.stages import ArtifactInput
from tests.stages.analyzed import context, made


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return run_files(tmp_path_factory.mktemp("files"))


def runs(files):
    return ["--run", files / "bm25.trec", "--run", files / "dense.trec"]


def test_recall_at_depths(files, tmp_path):
    asked = ["recall-at-depth", "--qrels", files / "qrels.txt", *runs(files), "--depth", 1, "--depth", 2]
    found = printed(*asked, "--relevance-level", 2, "--plot", tmp_path / "d.svg")
    assert (tmp_path / "d.svg").read_text().count("<svg") == 1
    assert found["depths"] == [1, 2] and found["runs"]["bm25.trec"]["recall"] == [0.0, 0.5]
    assert "recall@2" in call(*asked).stdout


def test_overlap_of_runs_and_of_negatives(files):
    (pair,) = printed("overlap", *runs(files), "--depth", 1)["runs"]
    assert (pair["run"], pair["against"], pair["overlap"]) == ("bm25.trec", "dense.trec", 0.5)
    asked = ["overlap", "--run", files / "dense.trec", "--negatives", files / "negatives.arrow"]
    (met,) = printed(*asked)["negatives"]
    assert (met["training"], met["overlap"], met["queries"]) == ("negatives.arrow", 0.5, 1)
    assert "its training negatives" in call(*asked).stdout
    assert "give --run at least twice" in str(call("overlap", "--run", files / "dense.trec").exception)
    assert "1 --negatives, but 2 --run" in str(call(*asked, "--run", files / "bm25.trec").exception)


def test_wins_with_texts(files, tmp_path):
    asked = ["--run", files / "dense.trec", "--baseline", files / "bm25.trec", "--metric", "mrr@10"]
    asked = ["query-wins", "--qrels", files / "qrels.txt", *asked, "--corpus", files / "corpus.jsonl"]
    asked += ["--queries", files / "queries.jsonl"]
    found = printed(*asked, "--plot", tmp_path / "w.png")
    assert (found["wins"], found["losses"], found["ties"]) == (1, 0, 1)
    first = found["queries"][0]
    assert (first["text"], first["ours"], first["theirs"], first["rank"]) == ("what is b", 1.0, 0.5, 1)
    assert [(each["doc_id"], each["relevance"], each["text"]) for each in first["documents"]] == [
        ("b", 2, "B the letter"),
        ("a", 0, ""),
    ]
    text = call(*asked).stdout
    assert "b (grade 2) B the letter" in text and "1 won, 0 lost, 1 tied by mrr@10" in text


def test_a_baseline_that_is_none_of_the_runs_is_told_with_its_option(files):
    found = call("overlap", "--qrels", files / "qrels.txt", *runs(files), "--baseline", "bm52.trec")
    told = "--baseline: no run is labelled bm52.trec; did you mean 'bm25.trec'?; available: bm25.trec, dense.trec"
    assert str(found.exception) == f"analyze overlap: {told}"


@pytest.fixture
def outside(tmp_path, monkeypatch):
    """The analysis of docs/write-a-plugin.md, installed."""
    source = tmp_path / "package" / "src"
    (source / "hardneg_list_lengths").mkdir(parents=True)
    page = (Path(__file__).parents[2] / "docs" / "write-a-plugin.md").read_text(encoding="utf-8")
    *_, analysis = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (source / "hardneg_list_lengths" / "list_lengths.py").write_text(analysis)
    installed = source / "hardneg_list_lengths-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: hardneg-list-lengths\nVersion: 1.0\n")
    point = "list-lengths = hardneg_list_lengths.list_lengths:ListLengths\nlist-gone = hardneg_list_lengths:Gone\n"
    (installed / "entry_points.txt").write_text(f"[hardneg.analyses]\n{point}")
    monkeypatch.syspath_prepend(str(source))
    (tmp_path / "made").mkdir()
    write_run(tmp_path / "made" / "run.trec.gz", [("q", RankedList(["a", "b", "c"], np.array([3, 2, 1], np.float32)))])
    return tmp_path


def test_one_of_another_package_is_listed_and_called(outside):
    assert "list-lengths" in [plugin.name for plugin in list_plugins("analyses")]
    told = call("--help").stdout
    assert "list-lengths" in told
    assert [row for row in told.splitlines() if "list-gone" in row and "No summary." in row]
    run = ["--run", outside / "made" / "run.trec.gz"]
    assert printed("list-lengths", *run, "--depth", 2, "--plot", outside / "l.svg") == {"run.trec.gz": 2.0}
    assert (outside / "l.svg").read_text().count("<svg") == 1
    assert printed("list-lengths", "--run", f"ours={outside / 'made' / 'run.trec.gz'}") == {"ours": 3.0}
    assert "Means over the queries" in call("list-lengths", *run).stdout
    assert "Missing option '--run'" in call("list-lengths").stderr


def test_one_of_another_package_stands_in_a_recipe_and_in_a_report(outside, tiny_model):
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
    told = "'drift' is in package hardneg-papers, which is not installed; run pip install ./plugins/hardneg-papers"
    assert told in str(call("drift", "history.jsonl").exception)
