"""Answers in recipes: coverage, negatives without them, positives by them."""

import json

import pytest
from recipes.questions import questions
from recipes.recipes import artifacts_of, plan_in, small_collection, small_tree

from hardneg.formats.negatives import read_negatives
from hardneg.formats.runs import stream_run
from hardneg.records import DataError, RecipeError

METRICS = ["answer@1", "mrr@10", "answer@5", "answer@20"]


def tree_of(collection, model):
    tree = small_tree(collection, model)
    stages = tree["stages"]
    stages["static"] |= {"without_answers": True, "miner": {"name": "topk", "depth": 5}}
    stages["drawn"] = {"stage": "mine", "miner": {"name": "random", "count": 30}, "without_answers": True}
    stages["refreshed"] = {
        "stage": "train-refreshed",
        "model": "star",
        "loss": "nll",
        "refresh": {"policy": "synchronous", "every": 1, "depth": 20, "negatives": 5, "without_answers": True},
        "options": {"max_steps": 2, "batch_size": 8},
    }
    stages["scores"]["metrics"] = METRICS
    tree["model"]["twins"] = True
    return tree


def made(folder, tree, settings=()):
    plan = plan_in(folder, tree, *settings)
    return plan, artifacts_of(plan, folder / "store")


@pytest.fixture(scope="module")
def finished(tmp_path_factory, tiny_model):
    folder = tmp_path_factory.mktemp("answers")
    tree = tree_of(questions(folder / "data"), tiny_model)
    return folder, tree, made(folder, tree)[1]


def facts_of(folder):
    corpus = [json.loads(line) for line in (folder / "data" / "corpus.jsonl").read_text().splitlines()]
    rows = [json.loads(line) for line in (folder / "data" / "queries.jsonl").read_text().splitlines()]
    texts = {row["_id"]: row["text"] for row in corpus}
    return texts, {row["_id"]: row["answers"][0].lower() for row in rows}


def test_coverage_is_that_of_the_words_in_the_texts(finished):
    folder, _, artifacts = finished
    texts, answers = facts_of(folder)
    found = json.loads((artifacts["scores"].path / "metrics.json").read_text())
    for label, stage in {"start": "start-test", "STAR": "star-test"}.items():
        lists = {query_id: ranked.doc_ids for query_id, ranked in stream_run(artifacts[stage].path / "run.trec.gz")}
        for k in (1, 5, 20):
            by_hand = {q: float(any(answers[q] in texts[i] for i in ids[:k])) for q, ids in lists.items()}
            assert found["per_query"][label][f"answer@{k}"] == by_hand
    assert list(found["metrics"]["STAR"]) == METRICS
    assert 0 < found["metrics"]["start"]["answer@1"] < found["metrics"]["start"]["answer@20"] == 1
    assert {item["metric"] for item in found["comparisons"]} == set(METRICS)
    assert artifacts["scores"].facts["queries"] == 14


@pytest.mark.parametrize("stage", ["static", "drawn"])
def test_no_negative_has_an_answer(finished, stage):
    folder, _, artifacts = finished
    texts, answers = facts_of(folder)
    mined = list(read_negatives(artifacts[stage].path / "negatives.arrow"))
    assert len(mined) == 36 and all(item.negatives for item in mined)
    assert not [i for item in mined for i in item.negatives if answers[item.query_id] in texts[i]]
    assert artifacts[stage].facts["dropped as answer"] > 36
    if stage == "static":
        assert {len(item.negatives) for item in mined} == {5}
        assert artifacts[stage].facts["dropped as positive"] > 0


def test_twins_learn_from_refreshed_negatives_without_answers(finished):
    facts = finished[2]["refreshed"].facts
    assert facts["refreshes used"] == 2 and facts["dropped as answer"] > 36
    assert (finished[2]["refreshed"].path / "model" / "document_0_Transformer").is_dir()


def test_without_answers_nothing_long_begins(tmp_path, tiny_model):
    tree = tree_of(small_collection(tmp_path / "data"), tiny_model)
    with pytest.raises(RecipeError) as raised:
        made(tmp_path, tree)
    assert set(raised.value.problems) == {
        "stages.static.without_answers: needs answers, and split train has none: leave it out, or take another dataset",
        "stages.refreshed.refresh.without_answers: needs answers, and split train has none: leave it out",
        "stages.scores.metrics: answer@1 needs answers, and split test has none: change the dataset or metric",
        "stages.drawn.without_answers: needs answers, and split train has none: leave it out, or take another dataset",
    }
    assert len(list((tmp_path / "store").glob("*/manifest.json"))) == 1


def test_options_count_where_they_are_not_the_default(finished, tmp_path):
    _, tree, _ = finished

    def keys(*settings):
        return plan_in(tmp_path, tree, *settings).keys

    assert keys("stages.static.answer_match=string") == keys()
    assert keys("stages.static.without_answers=false")["static"] != keys()["static"]
    assert keys("stages.scores.answer_match=regex")["scores"] != keys()["scores"]


def test_a_run_in_another_order_is_refused(finished, tmp_path):
    from hardneg.formats.runs import lists_in_order

    path = finished[2]["start-train"].path / "run.trec.gz"
    query_ids = [query_id for query_id, _ in stream_run(path)]
    assert len(list(lists_in_order(path, query_ids))) == 36
    with pytest.raises(DataError, match="q0 is not in the split or its order"):
        list(lists_in_order(path, query_ids[1:]))
