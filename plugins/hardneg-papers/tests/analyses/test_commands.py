"""Tests of the analysis commands on plain files: options, output, and mistakes reported before any work."""

import json

import numpy as np
import pytest
from cli.analyze_command import call, printed, run_files
from command_line import hardneg
from recipes.recipes import small_collection

from hardneg.formats.negatives import recorded, write_negatives
from hardneg.formats.runs import write_run
from hardneg.mining.thresholds import Denoised
from hardneg.records import Candidates, RankedList
from hardneg.store import Store
from tests.run_lists import ranked

DENSE = ["p", "h", "a", "b"]
SCORES = {"p": 0.9, "h": 0.8, "a": 0.3, "b": 0.05}


@pytest.fixture(scope="module")
def plain(tmp_path_factory, tiny_model):
    folder = tmp_path_factory.mktemp("plain")
    data = small_collection(folder / "data")
    words = ["--dataset", f"beir:{data}", "--model", tiny_model, "--device", "cpu", "--store", folder / "store"]
    hardneg("encode", "--output", folder / "index", *words)
    hardneg("search", "--depth", 60, "--output", folder / "r.trec.gz", *words)
    return folder


def judged(plain):
    return ["--qrels", plain / "data" / "qrels" / "test.tsv", "--queries", plain / "data" / "queries.jsonl"]


def test_errors_of_an_index_are_those_of_its_whole_run(plain, tiny_model, tmp_path):
    given = [*judged(plain), "--index", plain / "index", "--model", tiny_model, "--device", "cpu", "--depth", 60]
    found = printed("errors", *given, "--run", plain / "r.trec.gz", "--plot", tmp_path / "errors.svg")
    assert found["index"]["queries"] == 14
    assert found["index"]["total_errors"] == found["r.trec.gz"]["top_errors"] > 0
    assert (tmp_path / "errors.svg").read_text().count("<svg") == 1
    table = call("errors", *given).stdout
    assert "top-K errors" in table and f"{found['index']['total_errors']:.2f}" in table


def test_a_projection_of_one_index_before_and_after(plain, tiny_model, tmp_path):
    models = ["--index", plain / "index", "--model", tiny_model, "--model", tiny_model, "--device", "cpu"]
    asked = ["projection", "--query", "q50", *judged(plain), *models, "--count", 8, "--plot", tmp_path / "q.png"]
    (found,) = printed(*asked)
    assert found["points"]["before"] == found["points"]["after"]
    assert len(found["documents"]["negatives"]) == 8 and "d50" not in found["documents"]["negatives"]
    assert (tmp_path / "q.png").stat().st_size > 1000
    told = call("projection", "--query", "q1", *judged(plain), *models)
    assert told.exit_code and "no positive" in str(told.exception)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("errors --qrels q", "give --index"),
        ("errors --qrels q --index i", "--index needs --queries and --model"),
        ("errors --qrels q --run r --plot x.txt", "x.txt: must end in"),
        ("projection --query 1 --qrels q --queries f --index i --model m", "--model twice"),
    ],
)
def test_mistakes_of_the_command_are_told_first(words, told):
    result = call(*words.split())
    assert result.exit_code and told in str(result.exception)


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


def test_candidates(tmp_path):
    for name, ids in (("bm25", "abcd"), ("bm25-reranked", "dcab"), ("dense", "dbca")):
        write_run(tmp_path / f"{name}.trec", [("q", RankedList(list(ids), np.array([9, 3, 1, 0], np.float32)))])
    (tmp_path / "qrels.txt").write_text("q 0 a 2\nq 0 d 3\nq 0 c 1\n")
    asked = ["candidates", "--qrels", tmp_path / "qrels.txt", "--run", tmp_path / "bm25.trec"]
    asked += ["--reranked", tmp_path / "bm25-reranked.trec", "--metric", "mrr@10", "--relevance-level", 3]
    found = printed(*asked, "--depth", 2, "--depth", 4, "--plot", tmp_path / "c.png")
    assert [row["quality"] for row in found["runs"]["bm25.trec"]] == [0.0, 1.0]
    assert "1,000" in call(*asked).stdout
    assert "2 --reranked, but 1 --run" in str(call(*asked, "--reranked", tmp_path / "dense.trec").exception)


def write(path, records):
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_refreshes_of_histories(tmp_path):
    records = [{"step": i, "loss": 4.0 / i, "refresh": i // 2, "lag": i % 2} for i in (1, 2, 3, 4)]
    path = write(tmp_path / "a" / "history.jsonl", [*records, {"step": 4, "dev": {"mrr@10": 0.25}}])
    found = printed("refreshes", path, "--plot", tmp_path / "r.png")["history.jsonl"]
    assert found["refreshes"] == [[2, 1], [4, 2]] and found["lag"] == {"mean": 0.5, "largest": 1}
    assert "best mrr@10" in call("refreshes", path).stdout
    other = write(tmp_path / "b" / "history.jsonl", [{"step": 1, "dev": {}}])
    assert "has no `loss`" in str(call("refreshes", other).exception)


def test_operations_of_a_run_folder(tmp_path):
    store, out = Store(tmp_path / "store"), tmp_path / "out"
    made = {"encoded": ("index", {"passages": 10, "seconds": 2.0}), "trained": ("model", {"steps": 4, "seconds": 2.0})}
    for key, (kind, facts) in {**made, "page": ("report", {"seconds": 1.0})}.items():
        store.workspace(key)
        store.commit(key, kind, facts, {})
    out.mkdir()
    (out / "recipe.lock.yaml").write_text("keys: {vectors: encoded, star: trained, report: page}")
    asked = ["operations", out, "--store", tmp_path / "store"]
    found = printed(*asked, "--plot", tmp_path / "o.png")
    assert [(row["operation"], row["milliseconds"]) for row in found] == [("vectors", 200.0), ("star", 500.0)]
    assert "200 ms per document" in call(*asked, "--stage", "vectors").stdout
    assert "no stage 'stars'; did you mean 'star'" in str(call(*asked, "--stage", "stars").exception)


@pytest.fixture(scope="module")
def filtered(tmp_path_factory):
    folder = tmp_path_factory.mktemp("filters")
    listed = {doc_id: float(4 - place) for place, doc_id in enumerate(DENSE)}
    for name, scores in (("dense", listed), ("ce", SCORES)):
        found = ranked(scores)
        write_run(folder / f"{name}.trec", [(query_id, found) for query_id in ("q1", "q2")])
    asked = Candidates("q1", ["p"], {"dense": ranked(listed), "scores": ranked(SCORES)}, [])
    mined = recorded(Denoised().mine([asked], seed=0), folder / "dropped.arrow")
    write_negatives(folder / "negatives.arrow", mined)
    (folder / "known.txt").write_text("q1 0 p 1\nq3 0 p 1\n")
    (folder / "hidden.txt").write_text("q1 0 h 1\nq2 0 h 1\n")
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "what is h"}\n')
    (folder / "corpus.jsonl").write_text('{"_id": "h", "text": "the letter"}\n{"_id": "b", "text": "another"}\n')
    return folder


def test_what_a_filter_dropped_with_texts(filtered, tmp_path):
    asked = ["denoising", filtered / "dropped.arrow", "--queries", filtered / "queries.jsonl"]
    asked += ["--corpus", filtered / "corpus.jsonl"]
    found = printed(*asked, "--plot", tmp_path / "d.svg")
    assert (tmp_path / "d.svg").read_text().count("<svg") == 1
    assert found["filters"]["dropped.arrow"]["filtered"] == [None, 1.0, 1.0, 0.0]
    (case,) = found["examples"]
    assert (case["text"], case["dropped"]["text"], case["kept"]["text"]) == ("what is h", "the letter", "another")
    text = call(*asked).stdout
    assert "66.7%" in text and "rank 2 h the letter" in text
    assert printed("denoising", filtered / "dropped.arrow", "--limit", 0)["examples"] == []
    assert "no such file" in str(call("denoising", filtered / "missing.arrow").exception)
    (tmp_path / "alone.arrow").write_bytes((filtered / "dropped.arrow").read_bytes())
    told = str(call("denoising", tmp_path / "alone.arrow").exception)
    assert "negatives.arrow: missing, but examples need it; set --limit 0" in told


def test_hidden_positives_by_runs_and_judgements(filtered, tmp_path):
    asked = ["false-negative-recall", "--run", filtered / "dense.trec", "--qrels", filtered / "known.txt"]
    asked += ["--withheld", filtered / "hidden.txt"]
    words = ["--filter-by", filtered / "ce.trec", "--threshold", "denoised=0.1", "--threshold", "denoised=0.5"]
    found = printed(*asked, *words, "--plot", tmp_path / "p.svg")
    assert (tmp_path / "p.svg").read_text().count("<svg") == 1
    strict, loose = found["scores"]["ce.trec"]["filters"]["denoised"]
    assert (strict["recall"], strict["precision"], strict["kept"]) == (1.0, 0.5, 0.5)
    assert (loose["recall"], loose["precision"], loose["kept"]) == (1.0, 1.0, 1.0)
    assert found["queries"] == 1 and "denoised by ce.trec" in call(*asked, *words).stdout
    own = printed(*asked, "--threshold", "pos-margin=1")["scores"]["dense.trec"]
    assert own["filters"]["pos-margin"][0]["removed"] == 0
    assert list(printed(*asked)["scores"]["dense.trec"]["filters"]) == ["denoised", "pos-margin", "pos-percent"]


@pytest.mark.parametrize(
    ("threshold", "told"), [("denoise=0.1", "did you mean 'denoised'"), ("denoised=high", "must be a number")]
)
def test_thresholds_that_make_no_sense(filtered, threshold, told):
    asked = ["--run", filtered / "dense.trec", "--qrels", filtered / "known.txt", "--withheld", filtered / "hidden.txt"]
    assert told in str(call("false-negative-recall", *asked, "--threshold", threshold).exception)


def test_costs_of_a_run_folder(tmp_path):
    store, out = Store(tmp_path / "store"), tmp_path / "out"
    usage = {"device": "cpu", "peak_memory": 10**9}
    for key, seconds in (("ance", 40.0), ("star", 8.0), ("adore", 2.0)):
        store.workspace(key)
        store.commit(key, "model", {"seconds": seconds, "steps": 3, "usage": usage}, {})
    out.mkdir()
    (out / "recipe.lock.yaml").write_text("keys: {slow: ance, star: star, adore: adore, gone: nokey}")
    both = ["--stage", "ANCE=slow", "--stage", "STAR+ADORE=star,adore", "--store", tmp_path / "store"]
    found = printed("costs", out, *both)
    rows = [(row["method"], row["seconds"], row["speedup"]) for row in found]
    assert rows == [("ANCE", 40, 1), ("STAR+ADORE", 10, 4)]
    assert [row["method"] for row in printed("costs", out, "--store", tmp_path / "store")] == ["slow", "star", "adore"]
    assert "no stage 'sta'; did you mean 'star'" in str(call("costs", out, "--stage", "a=sta", *both[4:]).exception)
    assert "give the folder of a finished recipe" in str(call("costs", tmp_path, *both[4:]).exception)
    assert "NAME=STAGE" in str(call("costs", out, "--stage", "a", *both[4:]).exception)
