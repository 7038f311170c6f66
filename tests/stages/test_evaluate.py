"""Stage `evaluate` by judgements and by answers, and what else goes by answers."""

import json
from pathlib import Path

import pytest
from recipes.questions import questions
from recipes.recipes import artifacts_of, plan_in, small_collection, small_tree

from hardneg.datasets.beir import Beir
from hardneg.formats.collection import write_collection
from hardneg.formats.negatives import read_negatives
from hardneg.formats.runs import stream_run, write_run
from hardneg.records import DataError, RecipeError, UsageError
from hardneg.runtime import Silent
from hardneg.stages.base import ArtifactInput, StageContext
from hardneg.stages.evaluate import Evaluate
from tests.run_lists import falling

PASSAGES = {"1": ("London", "Londres is large"), "2": ("Paris", "Paris is not"), "3": ("Tokyo", "the capital of Japan")}
ALIASES = ["London", "Londres", "Llundain", "The City of London"]
QUESTIONS = [("what is the capital of England", ALIASES), ("what is the capital of Japan", ["Tokyo", "東京"])]


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    source = tmp_path / "trivia"
    source.mkdir()
    (source / "qrels").mkdir()
    rows = [{"_id": name, "title": title, "text": text} for name, (title, text) in PASSAGES.items()]
    asked = [
        {"_id": f"{split}-{number}", "text": text, "answers": answers}
        for split in ("train", "test")
        for number, (text, answers) in enumerate(QUESTIONS)
    ]
    for name, lines in {"corpus": rows, "queries": asked}.items():
        (source / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (source / "qrels" / "train.tsv").write_text("train-0\t1\t1\ntrain-1\t2\t0\n")
    (source / "qrels" / "test.tsv").write_text("test-0\t2\t0\ntest-1\t2\t0\n")
    facts = write_collection(Beir(str(source)).load(), tmp_path / "stored", Silent())
    (tmp_path / "stored" / "qrels" / "test.txt").write_text("")  # a split without judgements
    assert facts["splits"]["train"]["with_answers"] == facts["splits"]["test"]["with_answers"] == 2
    return tmp_path / "stored"


def scores(collection: Path, folder: Path, split: str, **more: object) -> tuple[dict[str, object], dict[str, object]]:
    made = folder / "made"
    made.mkdir()
    lists = {f"{split}-0": ["2", "1", "3"], f"{split}-1": ["3", "2", "1"]}
    write_run(folder / "run.trec.gz", falling(lists).items())
    spec = Evaluate(stage="evaluate", runs={"row": "run"}, split=split, **more)
    inputs = {"dataset": ArtifactInput("dataset", "", collection), "runs.row": ArtifactInput("run", "", folder)}
    facts = spec.make(StageContext("scores", spec, made, inputs, {}, Silent()))
    return facts, json.loads((made / "metrics.json").read_text())["per_query"]["row"]


def test_any_alias_will_do_and_titles_are_not_looked_at(collection: Path, tmp_path: Path) -> None:
    facts, found = scores(collection, tmp_path, "test", metrics=("answer@1", "answer@2", "answer@100"))
    assert found == {
        "answer@1": {"test-0": 0.0, "test-1": 0.0},
        "answer@2": {"test-0": 1.0, "test-1": 0.0},
        "answer@100": {"test-0": 1.0, "test-1": 0.0},
    }
    assert facts == {"queries": 2, "passages": 3, "systems": 1}


def test_answers_as_patterns(collection: Path, tmp_path: Path) -> None:
    facts, found = scores(collection, tmp_path, "test", metrics=("answer@2",), answer_match="regex")
    assert found == {"answer@2": {"test-0": 1.0, "test-1": 0.0}} and facts["queries"] == 2


def test_judgements_are_asked_for_where_a_metric_needs_them(collection: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the qrels have no query"):
        scores(collection, tmp_path, "test", metrics=("answer@2", "mrr@10"))


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
