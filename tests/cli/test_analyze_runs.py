import pytest
from cli.analyze_command import call, printed, run_files


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return run_files(tmp_path_factory.mktemp("files"))


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
