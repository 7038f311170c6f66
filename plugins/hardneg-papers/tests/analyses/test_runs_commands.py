import pytest
from cli.analyze_command import call, printed, run_files


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return run_files(tmp_path_factory.mktemp("files"))


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
