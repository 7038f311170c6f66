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


def test_overlap_of_runs_and_of_negatives(files):
    (pair,) = printed("overlap", *runs(files), "--depth", 1)["runs"]
    assert (pair["run"], pair["against"], pair["overlap"]) == ("bm25.trec", "dense.trec", 0.5)
    asked = ["overlap", "--run", files / "dense.trec", "--negatives", files / "negatives.arrow"]
    (met,) = printed(*asked)["negatives"]
    assert (met["training"], met["overlap"], met["queries"]) == ("negatives.arrow", 0.5, 1)
    assert printed(*asked, "--qrels", files / "qrels.txt")["negatives"][0]["overlap"] == 0.5
    assert "negatives met in testing" in call(*asked).stdout
    assert "give --run twice" in str(call("overlap", "--run", files / "dense.trec").exception)
    assert "1 --negatives for 2 --run" in str(call(*asked, "--run", files / "bm25.trec").exception)


def test_wins_with_texts(files, tmp_path):
    asked = ["--run", files / "dense.trec", "--baseline", files / "bm25.trec", "--metric", "mrr@10"]
    asked = ["query-wins", "--qrels", files / "qrels.txt", *asked, "--corpus", files / "corpus.jsonl"]
    asked += ["--queries", files / "queries.jsonl"]
    found = printed(*asked, "--plot", tmp_path / "w.png")
    assert (found["wins"], found["losses"], found["ties"]) == (1, 0, 1)
    first = found["queries"][0]
    assert (first["text"], first["ours"], first["theirs"], first["rank"]) == ("what is b", 1.0, 0.5, 1)
    assert first["documents"] == [
        {"doc_id": "b", "relevance": 2, "text": "B the letter"}, {"doc_id": "a", "relevance": 0, "text": ""},
    ]  # fmt: skip
    text = call(*asked).stdout
    assert "b (grade 2) B the letter" in text and "1 won, 0 lost, 1 equal by mrr@10" in text


def test_a_baseline_that_is_none_of_the_runs_is_told_with_its_option(files):
    found = call("overlap", "--qrels", files / "qrels.txt", *runs(files), "--baseline", "bm52.trec")
    told = "--baseline: no run is labelled bm52.trec; did you mean 'bm25.trec'?; runs has bm25.trec, dense.trec"
    assert str(found.exception) == f"analyze overlap: {told}"
