"""Both recipes of the package on tiny data of the published columns, and the verb."""

import json
from pathlib import Path
from typing import Any

import pytest
from hardneg_instructions.lists import CandidateLists, JudgedNegatives
from published import bright, followir, json_lines, promptriever_rows

from hardneg.formats.negatives import read_negatives
from hardneg.formats.runs import read_run
from hardneg.plugin import errors, stores
from hardneg.recipes import Options, Plan, Watcher, execute, load_recipe, make_plan, publish
from hardneg.testing import StageTests

RECIPES = Path(__file__).parents[1] / "recipes"


class TestJudgedNegatives(StageTests):
    stage = JudgedNegatives
    mapping = {"stage": "judged-negatives", "split": "train"}  # noqa: RUF012


class TestCandidateLists(StageTests):
    stage = CandidateLists
    mapping = {"stage": "candidate-lists", "file": "top_ranked.jsonl"}  # noqa: RUF012


def planned(name: str, dataset: str, model: Path, *settings: str) -> Plan:
    lengths = ("model.query_length=24", "model.document_length=24", f"model.name={model}", f"dataset.source={dataset}")
    return make_plan(load_recipe(RECIPES / name, settings=[*lengths, *settings]))


def small(model: Path, data: Path, rows: list[dict[str, Any]] | None = None) -> Plan:
    """The recipe of negatives, cut down to seconds."""
    json_lines(data / "train.jsonl", promptriever_rows() if rows is None else rows)
    options = "{max_steps: 2, batch_size: 4, negatives_per_query: 1, warmup_steps: 0}"
    trained = (f"stages.{name}.options={options}" for name in ("bm25-neg", "instructed"))
    return planned("instruction-negatives.yaml", str(data), model, "dataset.dev=0.2", "dataset.test=0.4", *trained)


@pytest.mark.slow
def test_instruction_negatives_are_trained_on(tmp_path: Path, tiny_model: Path) -> None:
    plan, store = small(tiny_model, tmp_path / "data"), stores.Store(tmp_path / "store")
    made = execute(plan, store, Options(device="cpu"), Watcher()).artifacts
    ruled_out = read_run(made["ruled-out"].path / "run.trec.gz")
    assert ruled_out and all(query_id.endswith("-instruct") for query_id in ruled_out)
    assert made["ruled-out"].facts["documents"] == 2 * len(ruled_out)
    for query_id, each in ruled_out.items():
        number = query_id.removesuffix("-instruct")
        assert each.doc_ids[0] == f"{number}C" and each.doc_ids[1].startswith("g.") and list(each.scores) == [-1, -2]
    mined = {item.query_id: item for item in read_negatives(made["mined-and-ruled-out"].path / "negatives.arrow")}
    assert all({*ruled_out[query_id].doc_ids} <= {*mined[query_id].negatives} for query_id in ruled_out)
    assert all(f"{query_id}C" not in mined[query_id].negatives for query_id in mined if "-" not in query_id)
    publish(plan, made, store, tmp_path / "out")
    assert "With instruction negatives" in (tmp_path / "out" / "report.md").read_text()


@pytest.mark.slow
def test_followir_is_measured(tmp_path: Path, tiny_model: Path) -> None:
    plan, store = (
        planned("followir.yaml", str(followir(tmp_path / "data")), tiny_model),
        stores.Store(tmp_path / "store"),
    )
    made = execute(plan, store, Options(device="cpu"), Watcher()).artifacts
    measured = json.loads((made["following"].path / "p-mrr.json").read_text())
    assert measured["queries"] == 2 and set(measured["runs"]["BM25"]["by_query"]) == {"310", "311"}
    assert measured["runs"]["model"]["documents"] == 2
    publish(plan, made, store, tmp_path / "out")
    report = (tmp_path / "out" / "report.md").read_text()
    assert "## Instructions: p-MRR" in report and "| model | " in report and "2 of 2" in report


@pytest.mark.slow
def test_the_lists_of_followir_alone_are_ranked(tmp_path: Path, tiny_model: Path) -> None:
    """In both published forms; query 311 has no list, and document d9 is not in the corpus."""
    folder = followir(tmp_path / "data")
    by_pair = [{"qid": "310", "pid": doc_id} for doc_id in ("d4", "d1", "d9", "d4")]
    by_query = [{"query-id": f"310{end}", "corpus-ids": ["d4", "d1", "d9"]} for end in ("-og", "-changed")]
    for form, rows in {"pairs": by_pair, "lists": by_query}.items():
        json_lines(folder / f"{form}.jsonl", rows)
        tree = f"""
dataset: {{name: followir, source: {folder}}}
model: {{name: {tiny_model}, query_length: 16, document_length: 16}}
stages:
  index: {{stage: encode, model: start}}
  listed: {{stage: candidate-lists, file: {folder / form}.jsonl}}
  run: {{stage: search, index: index, candidates: listed, depth: 5}}
"""
        (tmp_path / "listed.yaml").write_text(tree)
        plan, store = make_plan(load_recipe(tmp_path / "listed.yaml")), stores.Store(tmp_path / "store")
        made = execute(plan, store, Options(device="cpu"), Watcher()).artifacts
        listed, run = (read_run(made[name].path / "run.trec.gz") for name in ("listed", "run"))
        assert [[query, *each.doc_ids] for query, each in listed.items()] == [
            ["310-og", "d4", "d1"],
            ["310-changed", "d4", "d1"],
        ]
        assert all({*each.doc_ids} == {"d4", "d1"} for query, each in run.items() if query.startswith("310"))
        assert not [each for query, each in run.items() if query.startswith("311") and each.doc_ids]
        facts = made["listed"].facts
        assert (facts["queries without a list"], facts["documents that are not in the corpus"]) == (2, 2)
    json_lines(folder / "lists.jsonl", [{**by_query[0], "query-id": "999"}])
    other = make_plan(load_recipe(tmp_path / "listed.yaml"))
    assert other.keys["listed"] != plan.keys["listed"] and other.keys["index"] == plan.keys["index"]
    with pytest.raises(
        errors.DataError, match=r"lists.jsonl: has no documents of the corpus for the queries of split test"
    ):
        execute(other, store, Options(device="cpu"), Watcher())


@pytest.mark.slow
def test_what_bright_excludes_is_in_no_run(tmp_path: Path, tiny_model: Path) -> None:
    tree = f"""
dataset: {{name: bright, source: {bright(tmp_path / "data")}, domain: biology}}
model: {{name: {tiny_model}, query_length: 16, document_length: 16}}
stages:
  index: {{stage: encode, model: start}}
  run: {{stage: search, index: index, depth: 3}}
"""
    (tmp_path / "bright.yaml").write_text(tree)
    plan = make_plan(load_recipe(tmp_path / "bright.yaml"))
    made = execute(plan, stores.Store(tmp_path / "store"), Options(device="cpu"), Watcher()).artifacts
    run = read_run(made["run"].path / "run.trec.gz")
    assert {query_id: {*each.doc_ids} for query_id, each in run.items()} == {
        "0": {"moss.txt", "fern.txt", "old%20oak.txt"},
        "1": {"fern.txt"},
    }


def test_runs_of_files_and_judgements_lack_what_is_excluded(tmp_path: Path, tiny_model: Path) -> None:
    """Of query q's list b is excluded, of its judgements c."""
    json_lines(tmp_path / "corpus.jsonl", [{"_id": doc_id, "text": doc_id} for doc_id in "abcd"])
    json_lines(tmp_path / "queries.jsonl", [{"_id": "q", "text": "water"}])
    json_lines(tmp_path / "lists.jsonl", [{"query-id": "q", "corpus-ids": ["b", "a", "d"]}])
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("q 0 a 1\nq 0 c 0\nq 0 d 0\n")
    (tmp_path / "excluded.tsv").write_text("q\tb\nq\tc\n")
    (tmp_path / "r.yaml").write_text(f"""
dataset: beir:{tmp_path}
model: {tiny_model}
stages:
  listed: {{stage: candidate-lists, file: {tmp_path / "lists.jsonl"}}}
  judged: {{stage: judged-negatives, split: test}}
""")
    plan = make_plan(load_recipe(tmp_path / "r.yaml"))
    made = execute(plan, stores.Store(tmp_path / "store"), Options(device="cpu"), Watcher()).artifacts
    runs = {name: read_run(made[name].path / "run.trec.gz")["q"].doc_ids for name in ("listed", "judged")}
    assert {name: [*doc_ids] for name, doc_ids in runs.items()} == {"listed": ["a", "d"], "judged": ["d"]}
    assert made["listed"].facts["documents excluded"] == 1 and made["judged"].facts["documents excluded"] == 1


@pytest.mark.slow
def test_a_dataset_without_such_judgements_is_refused(tmp_path: Path, tiny_model: Path) -> None:
    rows = [{**row, "new_negatives": []} for row in promptriever_rows()]
    plan, store = small(tiny_model, tmp_path / "data", rows), stores.Store(tmp_path / "store")
    with pytest.raises(errors.DataError, match="ruled-out: no query of split train has a document judged 0 or below"):
        execute(plan, store, Options("ruled-out", device="cpu"), Watcher())
