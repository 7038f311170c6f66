import pytest
from cli.analyze_command import call, printed

from hardneg.formats.negatives import recorded, write_negatives
from hardneg.formats.runs import write_run
from hardneg.mining.miners.thresholds import Denoised
from hardneg.records.types import Candidates
from tests.run_lists import ranked

DENSE = ["p", "h", "a", "b"]
SCORES = {"p": 0.9, "h": 0.8, "a": 0.3, "b": 0.05}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
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


def test_what_a_filter_dropped_with_texts(files, tmp_path):
    asked = ["denoising", files / "dropped.arrow", "--queries", files / "queries.jsonl"]
    asked += ["--corpus", files / "corpus.jsonl"]
    found = printed(*asked, "--plot", tmp_path / "d.svg")
    assert (tmp_path / "d.svg").read_text().count("<svg") == 1
    assert found["filters"]["dropped.arrow"]["filtered"] == [None, 1.0, 1.0, 0.0]
    (case,) = found["examples"]
    assert (case["text"], case["dropped"]["text"], case["kept"]["text"]) == ("what is h", "the letter", "another")
    text = call(*asked).stdout
    assert "66.7%" in text and "rank 2 h the letter" in text
    assert printed("denoising", files / "dropped.arrow", "--limit", 0)["examples"] == []
    assert "no such file" in str(call("denoising", files / "missing.arrow").exception)
    (tmp_path / "alone.arrow").write_bytes((files / "dropped.arrow").read_bytes())
    told = str(call("denoising", tmp_path / "alone.arrow").exception)
    assert "negatives.arrow: not there, and examples need it; give --limit 0" in told


def test_hidden_positives_by_runs_and_judgements(files, tmp_path):
    asked = ["false-negative-recall", "--run", files / "dense.trec", "--qrels", files / "known.txt"]
    asked += ["--withheld", files / "hidden.txt"]
    words = ["--filter-by", files / "ce.trec", "--threshold", "denoised=0.1", "--threshold", "denoised=0.5"]
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
def test_thresholds_that_make_no_sense(files, threshold, told):
    asked = ["--run", files / "dense.trec", "--qrels", files / "known.txt", "--withheld", files / "hidden.txt"]
    assert told in str(call("false-negative-recall", *asked, "--threshold", threshold).exception)
