"""Figures over all judgements of a source, by hand and as trec_eval -c has them, whatever form a run or dataset has."""

import json
import math

import pytest
from recipes.recipes import artifacts_of, plan_in, small_part

import hardneg as hn
from hardneg.evaluation.metrics_json import read_metrics
from hardneg.stages.indexing import ReadDataset

METRICS = ["ndcg@10", "recall@10", "mrr@10"]
QRELS = {"q1": {"d1": 1, "gone": 1}, "q2": {"gone": 1}, "q3": {"d3": 1}, "unasked": {"d1": 1}}
RUN = {"q1": {"d1": 2.0, "d3": 1.0}, "q2": {"d1": 1.0}, "q3": {"d1": 2.0, "d3": 1.0}}
EXPECTED = {
    "ndcg@10": (1 / (1 + 1 / math.log2(3)) + 1 / math.log2(3)) / 4,
    "recall@10": (0.5 + 1) / 4,
    "mrr@10": (1 + 0.5) / 4,
}


@pytest.fixture
def folder(tmp_path):
    """A collection that lacks a document and a query of its judgements."""
    (tmp_path / "data" / "qrels").mkdir(parents=True)
    corpus = [{"_id": f"d{i}", "text": f"text {i}"} for i in range(1, 5)]
    queries = [{"_id": f"q{i}", "text": f"query {i}"} for i in range(1, 4)]
    for name, rows in (("corpus", corpus), ("queries", queries)):
        (tmp_path / "data" / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    lines = "".join(f"{name}\t{doc}\t{grade}\n" for name, judged in QRELS.items() for doc, grade in judged.items())
    (tmp_path / "data" / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{lines}")
    return tmp_path / "data"


def test_what_a_dataset_lacks_is_missed(folder, tmp_path):
    by_dataset = hn.evaluate(RUN, dataset=folder, split="test", metrics=METRICS, store=tmp_path / "store")
    assert by_dataset.metrics["run 1"] == pytest.approx(EXPECTED)
    assert hn.evaluate(RUN, QRELS, metrics=METRICS).metrics["run 1"] == pytest.approx(EXPECTED)


def test_the_stage_and_an_analysis_measure_by_them_too(folder, tmp_path, tiny_model):
    """All four documents are found for each query that has a text."""
    stages = {
        "scores": {"stage": "evaluate", "runs": {"start": "start-test"}, "metrics": ["recall@10"]},
        "depth": {
            "stage": "analyze",
            "analysis": {"recall-at-depth": {"runs": {"start": "start-test"}, "depths": [4]}},
        },
    }
    tree = small_part(folder, tiny_model, "start-index", "start-test", **stages)
    made = artifacts_of(plan_in(tmp_path, tree), tmp_path / "store")
    found = read_metrics(made["scores"].path / "metrics.json").results["start"]
    assert found["recall@10"] == {"q1": 0.5, "q2": 0, "q3": 1, "unasked": 0}
    content = json.loads((made["depth"].path / "recall-at-depth.json").read_text())
    assert content["runs"]["start"]["recall"] == [1.5 / 4]


def test_a_dict_breaks_ties_as_a_file_of_it_does(tmp_path):
    """Descending by id, as trec_eval: c before b."""
    (tmp_path / "run").write_text("q1 Q0 b 1 1.0 t\nq1 Q0 c 2 1.0 t\nq1 Q0 a 3 2.0 t\n")
    runs = {"file": tmp_path / "run", "dict": {"q1": {"b": 1.0, "c": 1.0, "a": 2.0}}}
    found = hn.evaluate(runs, {"q1": {"b": 1}}, metrics=["mrr", "ndcg"]).metrics
    assert found["file"] == found["dict"] == pytest.approx({"mrr": 1 / 3, "ndcg": 0.5})
    fused = hn.fuse([runs["dict"], runs["dict"]], store=tmp_path / "store")
    assert fused["q1"].doc_ids == ["a", "c", "b"]


@pytest.mark.parametrize(
    ("loader", "own", "excludes"),
    [
        ("hf:BeIR/ArguAna", None, True),
        ("ir-datasets:beir/quora/test", None, True),
        ("beir:/data/quora", None, True),
        ("beir:/data/quora", False, False),
        ("beir:/data/quora-like", None, False),
        ("beir:/data/mine", True, True),
    ],
)
def test_own_documents_are_excluded_by_name_or_where_that_is_said(loader, own, excludes):
    stage = ReadDataset.model_validate({"loader": loader, "exclude_own": own})
    assert stage._excludes == excludes


def test_measures_leave_own_documents_out(folder, tmp_path):
    """q3 is a document that its list begins with; its figure is that of the rest."""
    with (folder / "corpus.jsonl").open("a") as file:
        file.write('{"_id": "q3", "text": "query 3"}\n')
    run = {**RUN, "q3": {"q3": 3.0, "d3": 1.0}}
    arguments = {"dataset": folder, "split": "test", "metrics": ["mrr@10"], "store": tmp_path / "store"}
    plain = hn.evaluate(run, **arguments).metrics["run 1"]["mrr@10"]
    left = hn.evaluate(run, **arguments, settings={"dataset.exclude_own": True}).metrics["run 1"]["mrr@10"]
    assert (plain, left) == (pytest.approx((1 + 0.5) / 4), pytest.approx((1 + 1) / 4))
