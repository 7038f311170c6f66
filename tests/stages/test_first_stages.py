"""Fusions with tuning, and analyses of first stages, on a small collection."""

import json

import pytest
from pydantic import ValidationError
from recipes.recipes import stored_collection

from hardneg.formats.runs import stream_run, write_run
from hardneg.runtime.progress import Silent
from hardneg.stages.base import ArtifactInput, StageContext
from hardneg.stages.fuse import Fuse
from tests.run_lists import falling
from tests.stages.analyzed import analyze, content

SPARSE = {"q46": ["d46", "d1"], "q47": ["d1", "d47"]}
DENSE = {"q46": ["d1", "d46"], "q47": ["d47", "d3", "d1"]}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stored")
    stored_collection(folder)
    dev = write_dev(folder)
    for name, lists in {"sparse": SPARSE, "dense": DENSE, **dev}.items():
        (folder / name).mkdir()
        write_run(folder / name / "run.trec.gz", falling(lists).items())
    return folder


def write_dev(folder):
    """Two runs over training queries: the one that is right, and the one that is not."""
    from hardneg.formats.collection import StoredCollection

    qrels = StoredCollection.open(folder / "stored").qrels("train")
    right = {query_id: [*judged, "none"] for query_id, judged in qrels.items()}
    return {"right": right, "wrong": {query_id: ids[::-1] for query_id, ids in right.items()}}


def work_of(stored, folder, spec, **inputs):
    folder.mkdir(exist_ok=True)
    given = {path.replace("__", "."): ArtifactInput(name, "", stored / name) for path, name in inputs.items()}
    given["dataset"] = ArtifactInput("d", "", stored / "stored")
    return StageContext("made", spec, folder, given, {}, Silent())


def fused(stored, folder, runs=("dense", "sparse"), **values):
    spec = Fuse.model_validate({"stage": "fuse", "runs": {"x": "a", "y": "b"}, **values})
    tuned = {"tuning__runs__x": "wrong", "tuning__runs__y": "right"} if "tuning" in values else {}
    facts = spec.make(work_of(stored, folder, spec, runs__x=runs[0], runs__y=runs[1], **tuned))
    return facts, {query_id: ranked.doc_ids for query_id, ranked in stream_run(folder / "run.trec.gz")}


def test_runs_are_zipped_the_first_one_first(stored, tmp_path):
    facts, lists = fused(stored, tmp_path, method="zip", depth=3)
    assert lists == {"q46": ["d1", "d46"], "q47": ["d47", "d1", "d3"]}
    assert facts["queries that x lacks"] == facts["queries"] - 2


def test_weights_are_tuned_on_another_split(stored, tmp_path):
    tuning = {"runs": {"x": "a", "y": "b"}, "split": "train", "metric": "mrr@10", "grid": {"y": [0.5, 2.0]}}
    facts, lists = fused(stored, tmp_path, method="weighted-sum", tuning=tuning)
    assert facts["tuned"] == {"weights": {"x": 1.0, "y": 2.0}, "mrr@10": 1.0} and facts["tried"] == 2
    assert lists["q46"] == ["d46", "d1"]
    told = json.loads((tmp_path / "tuning.json").read_text())
    assert [each["weights"]["y"] for each in told["tried"]] == [2.0, 0.5] and told["split"] == "train"


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"method": "zip", "weights": {"x": 2}}, "weights: zip has none"),
        ({"tuning": {"runs": {"x": "a", "y": "b"}, "split": "test"}}, "test is what is fused"),
        ({"tuning": {"runs": {"x": "a", "z": "b"}}}, "must have the labels of runs: x, y"),
        ({"tuning": {"runs": {"x": "a", "y": "b"}, "grid": {"z": [1]}}}, "weighted-sum has no 'z'"),
        ({"tuning": {"runs": {"x": "a", "y": "b"}, "metric": "ndgc@10"}}, "did you mean ndcg@10"),
    ],
)
def test_mistakes_are_told_before_anything_runs(values, told):
    with pytest.raises(ValidationError, match=told):
        Fuse.model_validate({"stage": "fuse", "runs": {"x": "a", "y": "b"}, **values})


def test_what_counts_in_a_fusion():
    def identity(**values):
        return Fuse.model_validate({"stage": "fuse", "runs": {"x": "a", "y": "b"}, **values}).identity()

    assert not {"norm", "tuning", "order"} & identity().keys()
    assert identity(method="zip")["order"] == ["x", "y"] != identity(method="zip", runs={"y": "b", "x": "a"})["order"]
    assert identity() == identity(runs={"y": "b", "x": "a"})
    tuning = identity(tuning={"runs": {"x": "a", "y": "b"}})["tuning"]
    assert tuning["runs"] == ["x", "y"] and tuning["split"] == "dev"


def test_depths_and_candidates(stored, tmp_path):
    runs = {"runs": {"BM25": "a"}, "depths": [1, 2]}
    found, section = content(stored, tmp_path / "1", {"recall-at-depth": runs}, runs__BM25="sparse")
    assert section.tables[0].columns == ("run", "ndcg@2", "recall@1", "recall@2")
    one, two = found["runs"]["BM25"]["recall"]
    assert two == 2 * one > 0
    pair = {"first": {"BM25": "a"}, "reranked": {"BM25": "b"}, "counts": [2, 1], "metric": "mrr@10"}
    inputs = {"first__BM25": "sparse", "reranked__BM25": "dense"}
    found, section = content(stored, tmp_path / "2", {"candidates": pair}, **inputs)
    assert found["counts"] == [1, 2] and [row[0] for row in section.tables[0].rows] == ["1", "2"]


def test_what_counts_in_an_analysis():
    spec = analyze({"overlap-curve": {"negatives": {"ANCE": {0: "n"}}, "met": {"ANCE": {64: "b", 32: "a"}}}})
    of = "analysis.overlap-curve"
    named = {f"{of}.negatives.ANCE.0": "n", f"{of}.met.ANCE.32": "a", f"{of}.met.ANCE.64": "b"}
    assert {path: name for path, name, _ in spec.references()} == named
    ((_, identity),) = spec.identity()["analyses"]
    paths = ["negatives.ANCE.0", "met.ANCE.64", "met.ANCE.32"]
    assert identity == {"version": 1, "depth": 100, "references": paths}
    with pytest.raises(ValidationError, match="the same labels"):
        analyze({"candidates": {"first": {"a": "x"}, "reranked": {"b": "x"}}})
