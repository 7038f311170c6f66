"""Stage `mine` with judgements beside the dataset's."""

import pytest
from recipes.recipes import stored_collection
from typer.testing import CliRunner

from hardneg.cli.main import app
from hardneg.fields import Trait
from hardneg.formats.collection import StoredCollection, extended
from hardneg.formats.negatives import read_negatives
from hardneg.formats.runs import write_run
from hardneg.recipes.load import check_recipe
from hardneg.recipes.plan import make_plan
from hardneg.records.errors import DataError
from hardneg.stages.training import pseudo_positives
from tests.run_lists import falling


@pytest.fixture
def stored(tmp_path):
    stored_collection(tmp_path)
    return StoredCollection.open(tmp_path / "stored")


def test_positives_are_those_known_and_those_that_files_tell(stored, tmp_path):
    first, second = tmp_path / "a.qrels", tmp_path / "b.qrels"
    first.write_text("q0 0 d3 1\nq0 0 d5 0\nq1 0 d7 2\n")
    second.write_text("q0 0 d3 0\nq0 0 d0 1\n")
    found = extended({"q0": ["d0"], "q2": ["d2"]}, [first, second], stored)
    assert found == {"q0": ["d0", "d3"], "q1": ["d7"], "q2": ["d2"]}


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("q0 0 d3 1\nnobody 0 d3 1\n", "judges what the dataset does not have: line 2, query 'nobody'"),
        ("q0 0 nothing 1\n", "judges what the dataset does not have: line 1, document 'nothing'"),
        ("x 0 d1 1\n" * 12, "line 10, query 'x'; and 2 more lines"),
        ("q0 0 d3\n", "relevance 'd3' is not a whole number"),
        ("", "holds no judgements; leave it out"),
    ],
)
def test_what_the_dataset_lacks_is_one_line(stored, tmp_path, lines, told):
    (tmp_path / "marks.qrels").write_text(lines)
    with pytest.raises(DataError) as error:
        extended({}, [tmp_path / "marks.qrels"], stored)
    assert told in str(error.value) and "\n" not in str(error.value) and "marks.qrels" in str(error.value)


def mined(folder, *more):
    lists = {"q0": ["d0", "d1", "d2", "d3"], "q1": ["d5", "d4", "d1"]}
    write_run(folder / "run.trec", falling(lists).items())
    words = ["mine", "--dataset", f"beir:{folder / 'data'}", "--run", str(folder / "run.trec"), "--form", "hardneg"]
    words += ["--output", str(folder / "mined.arrow"), "--store", str(folder / "store"), *more]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, (result.output, result.exception)
    return {item.query_id: item for item in read_negatives(folder / "mined.arrow")}


def test_a_marked_negative_is_mined_no_more_and_is_a_positive(stored, tmp_path):
    before = mined(tmp_path)
    assert "d2" in before["q0"].negatives and "d2" not in before["q0"].positives
    marks, others = tmp_path / "marks.qrels", tmp_path / "others.qrels"
    marks.write_text("q0 0 d2 1\n")
    others.write_text("q1 0 d4 1\n")
    after = mined(tmp_path, "--also-qrels", str(marks), "--also-qrels", str(others))
    assert "d2" not in after["q0"].negatives and list(after["q0"].positives) == [*before["q0"].positives, "d2"]
    assert "d4" in before["q1"].negatives and "d4" not in after["q1"].negatives
    rest = [doc_id for doc_id in before["q0"].negatives if doc_id != "d2"]
    assert list(after["q0"].negatives) == rest


def plan_of(folder, **options):
    tree = {
        "dataset": f"beir:{folder / 'data'}",
        "model": {"name": "none"},
        "stages": {"mined": {"stage": "mine", "miner": "random", **options}},
    }
    return make_plan(check_recipe(tree, folder / "r.yaml"))


def test_files_count_by_their_content_and_only_where_there_are_some(stored, tmp_path):
    first, second = tmp_path / "a.qrels", tmp_path / "b.qrels"
    first.write_text("q0 0 d2 1\n")
    second.write_text("q0 0 d2 1\n")
    without = plan_of(tmp_path).steps["mined"]
    assert without.key == plan_of(tmp_path, also_qrels=[]).keys["mined"] and "also_qrels" not in str(without.origin)
    one = plan_of(tmp_path, also_qrels=str(first)).steps["mined"]
    assert one.key != without.key and one.key == plan_of(tmp_path, also_qrels=[str(second)]).keys["mined"]
    assert one.key != plan_of(tmp_path, also_qrels=[str(first), str(second)]).keys["mined"]
    second.write_text("q0 0 d3 1\n")
    assert one.key != plan_of(tmp_path, also_qrels=[str(second)]).keys["mined"]


def test_what_is_trained_on_them_takes_the_positives_too(stored, tmp_path):
    (tmp_path / "a.qrels").write_text("q0 0 d2 1\n")
    plan = plan_of(tmp_path, also_qrels=str(tmp_path / "a.qrels"))
    assert plan.recipe.view("mined").traits("mined") == {Trait.MORE_POSITIVES: "mined"}

    class Made:
        traits = frozenset({Trait.MORE_POSITIVES})
        folder = tmp_path

    assert pseudo_positives(Made()) == tmp_path / "negatives.arrow"
    Made.traits = frozenset()
    assert pseudo_positives(Made()) is None
