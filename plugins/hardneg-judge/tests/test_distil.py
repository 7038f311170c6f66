"""A cross-encoder that learns the order of a language model, by the recipe of the package and a server of one's own."""

import json
import re
from pathlib import Path

import pytest
from chat_server import Served
from test_judge import QUERIES, RELEVANT, TEXTS, tree_of
from tiny_bert import tiny_bert

from hardneg.formats.runs import read_run
from hardneg.recipes import Options, Watcher, execute, load_recipe, make_plan, publish
from hardneg.store import Store

RECIPE = Path(__file__).parents[1] / "recipes" / "distil-listwise.yaml"
_LISTED = re.compile(r"^\[(\d+)\] (.*)$", re.MULTILINE)


def backwards(message: str) -> str:
    """All passages, the last of the alphabet first."""
    listed = _LISTED.findall(message.partition("\n\nQuery")[0])
    return " > ".join(f"[{number}]" for number, _ in sorted(listed, key=lambda each: each[1], reverse=True))


@pytest.mark.slow
def test_the_order_of_a_server_is_learnt(tmp_path: Path, served: Served) -> None:
    """Which of "which river" BM25 finds are d1 and d3; of "which harbor" d4 and d5; of "which meadow" nothing."""
    served.says = backwards
    tree_of(tmp_path, served)  # writes the collection
    source, options = tiny_bert(tmp_path / "bert"), "{max_steps: 6, batch_size: 2, negatives_per_query: 1}"
    settings = [f"dataset=beir:{tmp_path / 'data'}", f"stages.ordered.plugin.url={served.url}"]
    for name in ("student", "labelled"):
        settings += [f"stages.{name}.reranker.source={source}", f"stages.{name}.options={options}"]
        settings += [f"stages.{name}.reranker.length=48"]
    plan, store = make_plan(load_recipe(RECIPE, settings=settings)), Store(tmp_path / "store")
    made = execute(plan, store, Options(device="cpu"), Watcher()).artifacts
    ordered = read_run(made["ordered"].path / "run.trec.gz")
    expected = {"q1": {"d1": 2.0, "d3": 1.0}, "q2": {"d4": 2.0, "d5": 1.0}, "q3": {"d7": 1.0}}
    assert TEXTS["d1"] > TEXTS["d3"] and TEXTS["d4"] > TEXTS["d5"] and RELEVANT["q3"] == "d7" and len(QUERIES) == 3
    found = {query: dict(zip(each.doc_ids, map(float, each.scores), strict=True)) for query, each in ordered.items()}
    assert found == expected
    assert len(served.requests) == 2  # of q3 there is one passage: nothing to put in order
    student = made["student"]
    losses = [json.loads(line)["loss"] for line in (student.path / "history.jsonl").read_text().splitlines()]
    assert len(losses) == 6 and all(loss > 0 for loss in losses)
    assert "Teacher: the scores of ordered" in (student.path / "model" / "README.md").read_text()
    publish(plan, made, store, tmp_path / "out")
    assert "taught by the order" in (tmp_path / "out" / "report.md").read_text()
    other = make_plan(load_recipe(RECIPE, settings=[*settings, "stages.student.loss.name=listmle"]))
    assert other.keys["ordered"] == plan.keys["ordered"] and other.keys["student"] != plan.keys["student"]
