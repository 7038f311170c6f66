import numpy as np
import pytest
from cli.analyze_command import call, printed

from hardneg.formats.negatives import write_negatives
from hardneg.formats.runs import write_run
from hardneg.records.types import Negatives, RankedList

SPARSE = {"q1": ["a", "b", "c"], "q2": ["d", "a", "b"]}


DENSE = {"q1": ["b", "x", "a"], "q2": ["d", "y", "z"]}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name, lists in (("bm25", SPARSE), ("dense", DENSE)):
        entries = [(query_id, RankedList(ids, np.array([9, 3, 1], np.float32))) for query_id, ids in lists.items()]
        write_run(folder / f"{name}.trec", entries)
    (folder / "qrels.txt").write_text("q1 0 b 2\nq1 0 a 0\nq2 0 d 1\n")
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "what is b"}\n{"_id": "q2", "text": "d"}\n')
    rows = ['{"_id": "b", "title": "B", "text": "the letter"}', '{"_id": "z", "text": "last"}']
    (folder / "corpus.jsonl").write_text("\n".join(rows) + "\n")
    mined = [Negatives("q1", ["b"], ["a", "c"], np.zeros(2, np.float32))]
    write_negatives(folder / "negatives.arrow", mined)
    return folder


def runs(files):
    return ["--run", files / "bm25.trec", "--run", files / "dense.trec"]


def test_unjudged_and_overlap_with_one_of_the_runs(files, tmp_path):
    asked = ["unjudged", "--qrels", files / "qrels.txt", *runs(files), "--baseline", "bm25.trec", "--depth", 2]
    found = printed(*asked, "--plot", tmp_path / "h.svg")
    assert (tmp_path / "h.svg").read_text().count("<svg") == 1
    assert found["runs"]["bm25.trec"]["unjudged"] == 0.25 and found["runs"]["dense.trec"]["unjudged"] == 0.5
    assert found["runs"]["dense.trec"]["overlap"] == 0.5 and found["judged_zero"] == 1
    assert "25.0%" in call(*asked).stdout


def test_tails_of_scores(files, tmp_path):
    found = printed("scores", *runs(files), "--depth", 3, "--plot", tmp_path / "s.svg", "--single", 1)
    assert found["dense.trec"][0]["mean"] == [1.0, 0.25, 0.0]
    assert list(found["dense.trec"][0]["single"].values()) == [[1.0, 0.25, 0.0]]
    assert "no query has 10 documents" in str(call("scores", *runs(files)).exception)


def test_an_unknown_metric_is_one_mistake(files):
    found = call("unjudged", "--qrels", files / "qrels.txt", *runs(files), "--metric", "foo@x")
    assert str(found.exception).startswith("analyze unjudged: --metrics: unknown metric 'foo@x'")
    assert "at least" not in str(found.exception)


def test_a_baseline_that_is_none_of_the_runs_is_told_with_its_option(files):
    found = call("unjudged", "--qrels", files / "qrels.txt", *runs(files), "--baseline", "bm52.trec")
    told = "--baseline: no run is labelled bm52.trec; did you mean 'bm25.trec'?; runs has bm25.trec, dense.trec"
    assert str(found.exception) == f"analyze unjudged: {told}"
