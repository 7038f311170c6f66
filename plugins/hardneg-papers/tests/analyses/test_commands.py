import json

import pytest
from cli.analyze_command import call, printed
from command_line import hardneg
from recipe.recipes import small_collection


@pytest.fixture(scope="module")
def plain(tmp_path_factory, tiny_model):
    folder = tmp_path_factory.mktemp("plain")
    data = small_collection(folder / "data")
    words = ["--dataset", f"beir:{data}", "--model", tiny_model, "--device", "cpu", "--store", folder / "store"]
    hardneg("encode", "--output", folder / "index", *words)
    hardneg("search", "--depth", 60, "--output", folder / "r.trec.gz", *words)
    return folder


def files(plain):
    return ["--qrels", plain / "data" / "qrels" / "test.tsv", "--queries", plain / "data" / "queries.jsonl"]


def test_errors_of_an_index_are_those_of_its_whole_run(plain, tiny_model, tmp_path):
    given = [*files(plain), "--index", plain / "index", "--model", tiny_model, "--device", "cpu", "--depth", 60]
    found = printed("errors", *given, "--run", plain / "r.trec.gz", "--plot", tmp_path / "errors.svg")
    assert found["index"]["queries"] == 14
    assert found["index"]["total_errors"] == found["r.trec.gz"]["top_errors"] > 0
    assert (tmp_path / "errors.svg").read_text().count("<svg") == 1
    table = call("errors", *given).stdout
    assert "top-K errors" in table and f"{found['index']['total_errors']:.2f}" in table


def test_errors_of_a_compressed_index_near_those_of_the_flat_one(plain, tiny_model, tmp_path):
    pytest.importorskip("faiss", reason="compressed indexes need faiss")
    hardneg("index", "build", "--vectors", plain / "index", "--backend", "fp16", "--output", tmp_path / "half")
    given = [*files(plain), "--model", tiny_model, "--device", "cpu"]
    whole, half = (printed("errors", *given, "--index", path) for path in (plain / "index", tmp_path / "half"))
    assert half["half"]["total_errors"] == pytest.approx(whole["index"]["total_errors"], rel=0.1)
    told = call("errors", *given, "--index", tmp_path)
    assert "no dense index" in str(told.exception)


def test_a_projection_of_one_index_before_and_after(plain, tiny_model, tmp_path):
    models = ["--index", plain / "index", "--model", tiny_model, "--model", tiny_model, "--device", "cpu"]
    asked = ["projection", "--query", "q50", *files(plain), *models, "--count", 8, "--plot", tmp_path / "q.png"]
    (found,) = printed(*asked)
    assert found["points"]["before"] == found["points"]["after"]
    assert len(found["documents"]["negatives"]) == 8 and "d50" not in found["documents"]["negatives"]
    assert (tmp_path / "q.png").stat().st_size > 1000
    told = call("projection", "--query", "q1", *files(plain), *models)
    assert told.exit_code and "no positive" in str(told.exception)


def test_a_projection_of_two_queries_with_what_a_run_ranks_highest(plain, tiny_model, tmp_path):
    models = ["--index", plain / "index", "--model", tiny_model, "--device", "cpu"]
    asked = ["projection", *files(plain), *models, "--query", "q50", "--query", "q51", "--count", 9]
    asked += ["--run", f"run={plain / 'r.trec.gz'}"]
    found = printed(*asked, "--plot", tmp_path / "q.svg")
    assert [each["query_id"] for each in found] == ["q50", "q51"]
    assert [len(each["documents"]["run"]) for each in found] == [9, 9]
    assert (tmp_path / "q.svg").read_text().count("<svg") == 1 and "9 at " in call(*asked).stdout


def test_drift_of_histories(tmp_path):
    for name, overlap in (("static", 0.2), ("dynamic", 1.0)):
        (tmp_path / name).mkdir()
        drifts = [{"step": step, "drift": {"overlap": share}} for step, share in ((0, 1.0), (5, overlap))]
        lines = [drifts[0], {"step": 4, "loss": 1}, drifts[1]]
        (tmp_path / name / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    paths = [tmp_path / name / "history.jsonl" for name in ("static", "dynamic")]
    found = printed("drift", *paths, "--plot", tmp_path / "drift.pdf")
    assert found["static/history.jsonl"] == {"overlap": [[0.0, 1.0], [5.0, 0.2]]}
    assert "dynamic/history.jsonl" in call("drift", *paths).stdout
    (tmp_path / "static" / "history.jsonl").write_text('{"step": 1, "loss": 2}\n')
    assert "holds no `drift`" in str(call("drift", *paths).exception)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("errors --qrels q", "give --index"),
        ("errors --qrels q --index i", "--index needs --queries and --model"),
        ("errors --qrels q --run r --plot x.txt", "a figure's name ends in"),
        ("projection --query 1 --qrels q --queries f --index i --model m", "--model twice"),
    ],
)
def test_mistakes_of_the_command_are_told_first(words, told):
    result = call(*words.split())
    assert result.exit_code and told in str(result.exception)
