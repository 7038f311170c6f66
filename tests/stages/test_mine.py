"""Stage `mine`: a second run's scores, judgements beside the dataset's, and documents that do not count."""

from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest
from recipes.recipes import artifacts_of, plan_in, small_collection, small_part, stored_collection
from typer.testing import CliRunner

from hardneg.cli.main import app
from hardneg.fields import Trait
from hardneg.formats.collection import StoredCollection, extended
from hardneg.formats.negatives import drop_batches, drops_at, read_negatives
from hardneg.formats.qrels import without_excluded
from hardneg.formats.runs import read_run, write_run
from hardneg.mining.choosing import exclude
from hardneg.mining.ranks import TopK
from hardneg.mining.thresholds import Denoised
from hardneg.recipes import check_recipe, make_plan
from hardneg.records import DataError, Hits, RankedList
from hardneg.runtime import Silent
from hardneg.stages import ArtifactInput, Local, StageContext
from hardneg.stages.mine import Mine
from hardneg.stages.work import pseudo_positives
from tests.run_lists import falling, ranked

DENSE = {"q0": ["d0", "d1", "d2", "d3"], "q1": ["d5", "d4", "d1"], "q3": ["d9"]}
SCORES = {"q0": {"d1": 0.99, "d0": 0.5, "d3": 0.01, "d2": 0.0}, "q1": {"d4": 0.3, "d5": 0.2}, "q3": {"d3": 0.9}}


@pytest.fixture
def mined(tmp_path):
    """Mines, and gives the facts, the negatives by query, and the folder."""
    stored_collection(tmp_path)
    lists = {name: tmp_path / name for name in ("dense", "rerank")}
    for folder in (*lists.values(), tmp_path / "out"):
        folder.mkdir()
    write_run(lists["dense"] / "run.trec.gz", falling(DENSE).items())
    scored = {name: RankedList(list(each), np.array(list(each.values()), np.float32)) for name, each in SCORES.items()}
    write_run(lists["rerank"] / "run.trec.gz", scored.items())

    def run(miner, **options):
        options = {"runs": {"dense": "a", "scores": "b"}} | options
        spec = Mine(stage="mine", miner="denoised", **options)
        runs = {"runs.dense": ArtifactInput("a", "", lists["dense"])}
        runs["runs.scores"] = ArtifactInput("b", "", lists["rerank"])
        runs = runs if spec.runs else {}
        inputs = {"dataset": ArtifactInput("dataset", "", tmp_path / "stored"), **runs}
        folder = Path(mkdtemp(dir=tmp_path / "out"))
        facts = Local().make(StageContext("mined", spec, folder, inputs, {"miner": miner}, Silent()))
        found = {item.query_id: list(item.negatives) for item in read_negatives(folder / "negatives.arrow")}
        return facts, found, folder / "dropped.arrow"

    return run


def test_the_run_labelled_scores_decides_and_what_it_drops_is_recorded(mined):
    facts, found, dropped = mined(Denoised())
    assert found["q0"] == ["d2", "d3"] and found["q1"] == []
    reasons = {name: facts[f"dropped as {name}"] for name in ("positive", "score", "unscored")}
    assert reasons == {"positive": 2, "score": 3, "unscored": 1}
    (batch,) = drop_batches(dropped)
    assert batch.num_rows == facts["queries"] == 36
    query_id, drops = drops_at(batch, 0)
    assert query_id == "q0" and drops.candidates == 4
    assert drops.doc_ids == ["d0", "d1"] and drops.reasons == ["positive", "score"]
    assert drops.scores.tolist() == [0.5, pytest.approx(0.99)] and drops.chosen.tolist() == [3, 4]


def test_a_miner_that_tells_nothing_writes_no_record(mined):
    facts, found, dropped = mined(TopK(depth=2))
    assert found["q0"] == ["d1", "d2"] and facts["dropped as positive"] == 1
    assert not dropped.exists()


def test_positives_of_other_queries_stand_in_for_a_run(mined):
    facts, negatives, _ = mined(TopK(depth=3), runs={}, positives_of_others=3)
    assert facts["queries"] == 36 and all(len(drawn) == 3 for drawn in negatives.values())
    facts, negatives, _ = mined(TopK(depth=3), permuted=True)
    assert sum(map(len, negatives.values())) <= 3 + 3 + 1 and facts["queries"] == 36


def test_controls_that_the_lists_do_not_allow_are_refused(mined):
    with pytest.raises(DataError, match=r"mined\.planted: no positives of these queries are withheld; set"):
        mined(TopK(depth=3), planted=0.5)
    for options, message in (
        ({"permuted": True}, "runs: missing; permuted and planted need"),
        ({"runs": {"dense": "a"}, "positives_of_others": 3}, "positives_of_others: cannot be combined with `runs`"),
        ({"file": "n", "positives_of_others": 3}, "positives_of_others: cannot be combined with `runs` or `file`"),
    ):
        with pytest.raises(ValueError, match=message):
            Mine(stage="mine", miner="topk", **options)


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
        ("q0 0 d3 1\nnobody 0 d3 1\n", "qrels:2: query 'nobody' is not in the dataset"),
        ("q0 0 nothing 1\n", "qrels:1: document 'nothing' is not in the dataset"),
        ("", "contains no judgements; omit this file"),
    ],
)
def test_what_the_dataset_lacks_is_one_line(stored, tmp_path, lines, told):
    (tmp_path / "marks.qrels").write_text(lines)
    with pytest.raises(DataError) as error:
        extended({}, [tmp_path / "marks.qrels"], stored)
    assert told in str(error.value) and "\n" not in str(error.value) and "marks.qrels" in str(error.value)


def mined_by_command(folder, *more):
    lists = {"q0": ["d0", "d1", "d2", "d3"], "q1": ["d5", "d4", "d1"]}
    write_run(folder / "run.trec", falling(lists).items())
    words = ["mine", "--dataset", f"beir:{folder / 'data'}", "--run", str(folder / "run.trec"), "--form", "hardneg"]
    words += ["--output", str(folder / "mined.arrow"), "--store", str(folder / "store"), *more]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, (result.output, result.exception)
    return {item.query_id: item for item in read_negatives(folder / "mined.arrow")}


def test_a_marked_negative_is_mined_no_more_and_is_a_positive(stored, tmp_path):
    before = mined_by_command(tmp_path)
    assert "d2" in before["q0"].negatives and "d2" not in before["q0"].positives
    marks, others = tmp_path / "marks.qrels", tmp_path / "others.qrels"
    marks.write_text("q0 0 d2 1\n")
    others.write_text("q1 0 d4 1\n")
    after = mined_by_command(tmp_path, "--also-qrels", str(marks), "--also-qrels", str(others))
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


class Rows:
    """A corpus whose documents d0, d1, ... stand in these rows."""

    def list_rows(self, lists):
        return np.array([[int(doc_id[1:]) for doc_id in doc_ids] or [-1] for doc_ids in lists], np.int64)


def test_hits_lose_what_is_excluded_and_keep_their_depth():
    rows = np.array([[4, 2, 7, 1], [4, 2, 7, 1], [3, -1, -1, -1]])
    scores = np.array([[4, 3, 2, 1], [4, 3, 2, 1], [9, -np.inf, -np.inf, -np.inf]], np.float32)
    left = exclude(Hits(rows, scores), [["d2"], [], ["d3"]], Rows(), 2)
    assert left.rows.tolist() == [[4, 7], [4, 2], [-1, -1]]
    assert left.scores.tolist() == [[4, 2], [4, 3], [-np.inf, -np.inf]]


def test_a_run_loses_them_too():
    run = {"q1": ranked({"a": 3.0, "b": 2.0, "c": 1.0}), "q2": ranked({"a": 1.0})}
    left = without_excluded(run, {"q1": ["b", "x"], "q2": ["a"], "q3": ["a"]})
    assert {query_id: list(each.doc_ids) for query_id, each in left.items()} == {"q1": ["a", "c"], "q2": []}
    assert left["q1"].scores.tolist() == [3.0, 1.0]


@pytest.fixture
def artifacts(tmp_path, tiny_model):
    """The artifacts of a search and minings, by whether the first documents of the plain lists are excluded."""
    data = small_collection(tmp_path / "data")

    def make(exclusions=()):
        if exclusions:
            lines = "".join(f"{query_id}\t{doc_id}\n" for query_id, doc_id in exclusions)
            (data / "excluded.tsv").write_text(f"query_id\tdoc_id\n{lines}")
        stages = {
            "shallow": {"stage": "search", "index": "start-index", "split": "train", "depth": 3},
            "drawn": {"stage": "mine", "miner": {"name": "random", "count": 40}, "runs": {"dense": "start-train"}},
        }
        tree = small_part(data, tiny_model, "start-index", "start-train", "static", **stages)
        return artifacts_of(plan_in(tmp_path, tree), tmp_path / "store")

    return make


def test_what_is_excluded_is_neither_listed_nor_mined(artifacts):
    plain = artifacts()
    before = read_run(plain["shallow"].path / "run.trec.gz")
    relevant = StoredCollection.open(plain["dataset"].path).qrels("train")
    exclusions = [
        (query_id, next(doc_id for doc_id in each.doc_ids if doc_id not in relevant[query_id]))
        for query_id, each in before.items()
    ]
    made = artifacts([*exclusions, ("no-such-query", "d1"), (exclusions[0][0], "no-such-document")])
    assert made["dataset"].facts["excluded"] == len(exclusions)
    notes = made["dataset"].facts["notes"]
    assert "left out: 2 exclusions of unknown queries or documents" in notes
    out = dict(exclusions)
    deep, lists = read_run(plain["start-train"].path / "run.trec.gz"), read_run(made["shallow"].path / "run.trec.gz")
    for query_id, each in lists.items():
        expected = [doc_id for doc_id in deep[query_id].doc_ids if doc_id != out[query_id]][:3]
        assert list(each.doc_ids) == expected and len(expected) == 3
    for name in ("static", "drawn"):
        negatives = read_negatives(made[name].path / "negatives.arrow")
        assert len(negatives) > 3 and all(out[item.query_id] not in item.negatives for item in negatives)
    drawn = read_negatives(plain["drawn"].path / "negatives.arrow")
    assert any(out[item.query_id] in item.negatives for item in drawn)
    assert made["drawn"].facts["dropped as excluded"] > 0
