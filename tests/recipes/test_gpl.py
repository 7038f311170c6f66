"""The preset `paper` of gpl-passage on a small collection with tiny models: what reaches its loss."""

import json
import re
from pathlib import Path

import pytest
from recipes.recipes import NEEDS_PAPERS, write_recipe
from tiny import tiny_encoder, tiny_reranker
from typer.testing import CliRunner

from hardneg.cli.main import app
from hardneg.formats.negatives import read_negatives
from hardneg.formats.runs import stream_run
from hardneg.recipes import artifacts_of, recipe_tree
from hardneg.store import Store

WORDS = ["river", "bridge", "harbour", "lantern", "meadow", "orchard"]


@pytest.fixture
def collection(tmp_path):
    """30 passages of four sentences, and six test queries by two words of one of them."""
    folder = tmp_path / "data"
    (folder / "qrels").mkdir(parents=True)
    texts = [
        " ".join(
            f"The {WORDS[(i + j) % 6]} of town {i} was seen near {WORDS[(i * j) % 6]} number {j}." for j in range(4)
        )
        for i in range(30)
    ]
    rows = [{"_id": f"d{i}", "title": "", "text": text} for i, text in enumerate(texts)]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    queries = [{"_id": f"q{i}", "text": f"{WORDS[i % 6]} town {i}"} for i in range(6)]
    (folder / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries))
    (folder / "qrels/test.tsv").write_text(
        "query-id\tcorpus-id\tscore\n" + "".join(f"q{i}\td{i}\t1\n" for i in range(6))
    )
    return folder


@pytest.mark.slow
def test_gpl_learns_margins_of_what_several_retrievers_bring(collection, tmp_path, monkeypatch):
    """Each negative is one of the first of a retriever; the cross-encoder scores it and the positive."""
    monkeypatch.setenv("HARDNEG_STORE", str(tmp_path / "store"))
    first, second, judge = (tmp_path / name for name in ("first", "second", "judge"))
    for folder, seed in ((first, 1), (second, 2)):
        tiny_encoder(folder, seed=seed)
    settings = {
        "dataset": f"beir:{collection}",
        "model.name": first,
        "stages.first.model.name": first,
        "stages.second.model.name": second,
        "stages.teacher.plugin.source": tiny_reranker(judge),
        "stages.teacher.plugin.length": 64,
        "stages.first-train.depth": 6,
        "stages.second-train.depth": 6,
        "stages.negatives.miner.depth": 6,
        "stages.gpl.options.max_steps": 4,
        "stages.gpl.options.warmup_steps": 1,
        "stages.gpl.options.batch_size": 8,
        "stages.gpl.options.evaluate_every": 2,
        "stages.written.dev_share": 0.2,
        "model.query_length": 32,
        "model.document_length": 48,
    }
    words = [word for path, value in settings.items() for word in ("--set", f"{path}={value}")]
    out, tree = tmp_path / "out", recipe_tree("gpl-passage", "paper")
    for name in ("bm25-index", "bm25"):
        del tree["stages"][name]
    del tree["stages"]["scores"]["runs"]["BM25"]
    tree["stages"]["scores"]["baselines"] = ["as shipped"]
    recipe = write_recipe(tmp_path / "without-bm25.yaml", tree)
    ended = CliRunner().invoke(app, ["recipe", "run", str(recipe), *words, "--device", "cpu", "--output", str(out)])
    assert ended.exit_code == 0, (ended.output, ended.exception)
    made = artifacts_of(out, Store(tmp_path / "store"))
    runs = {
        name: {query: list(ranked.doc_ids) for query, ranked in stream_run(made[name].path / "run.trec.gz")}
        for name in ("first-train", "second-train", "teacher")
    }
    taken = {"first": 0, "second": 0}
    for mined in read_negatives(made["negatives"].path / "negatives.arrow"):
        tops = runs["first-train"][mined.query_id], runs["second-train"][mined.query_id]
        assert {*mined.negatives} == {*tops[0], *tops[1]} - {*mined.positives}
        assert {*mined.negatives, *mined.positives} <= {*runs["teacher"][mined.query_id]}
        taken["first"] += len({*tops[0]} - {*tops[1]})
        taken["second"] += len({*tops[1]} - {*tops[0]})
    assert min(taken.values()) > 0
    history = [json.loads(line) for line in Path(made["gpl"].path / "history.jsonl").read_text().splitlines()]
    assert history and all(row["loss"] > 0 for row in history if "loss" in row)
    assert [*json.loads((out / "metrics.json").read_text())["metrics"]] == ["GPL", "as shipped"]


pytestmark = NEEDS_PAPERS

TRAINED = ("all-t-1", "all-t-2", "all-t-1000", "alone-docstrings", "alone-code")


@pytest.mark.slow
def test_one_report_has_each_collection_and_their_mean(tmp_path, monkeypatch):
    monkeypatch.setenv("HARDNEG_STORE", str(tmp_path / "store"))
    small = ["stages.docstrings.loader.max_passages=400", "stages.code.loader.max_passages=300", "seeds=[1]"]
    small += [f"{place}.packages=[networkx]" for place in ("dataset", "stages.docstrings.loader", "stages.code.loader")]
    small += ["dataset.max_passages=400", *(f"stages.{name}.options.max_steps=5" for name in TRAINED)]
    settings = [word for setting in small for word in ("--set", setting)]
    ended = CliRunner().invoke(app, ["recipe", "run", "many-collections", *settings, "--output", str(tmp_path / "out")])
    assert ended.exit_code == 0, ended.output
    page = (tmp_path / "out" / "report.md").read_text()
    assert re.findall("^## (.*)$", page, re.MULTILINE)[-5:-2] == ["mean: all collections", "docstrings", "code"]
    scores = {
        "docstrings": json.loads((tmp_path / "out" / "metrics.json").read_text())["metrics"],
        "code": json.loads((tmp_path / "out" / "metrics-scores-code.json").read_text())["metrics"],
    }
    measured = json.loads((tmp_path / "out" / "analyses" / "across" / "across-collections.json").read_text())
    assert [*measured["systems"]] == [
        "as shipped",
        *(f"all, T = {temperature}" for temperature in (1, 2, 1000)),
        "docstrings alone",
        "code alone",
    ]
    for system, means in measured["systems"].items():
        both = {name: rows[system]["mrr@10"] for name, rows in scores.items()}
        assert means["means"] == pytest.approx(both) and means["mean"] == pytest.approx(sum(both.values()) / 2)
