"""Stage `evaluate`: answers, depths, levels and groups; what cannot be measured is refused before anything runs."""

import json
from pathlib import Path
from typing import Any

import pytest
from recipes.questions import questions
from recipes.recipes import artifacts_of, plan_in, recipe_in, small_collection, small_part, small_tree
from tiny import tiny_encoder

from hardneg.datasets.beir import Beir
from hardneg.evaluation.metrics_json import read_metrics
from hardneg.formats.collection import StoredCollection, write_collection
from hardneg.formats.negatives import read_negatives
from hardneg.formats.runs import stream_run, write_run
from hardneg.recipes import Options, Recipe, Watcher, execute, make_plan
from hardneg.records import METRICS, HardnegError, RecipeError, UsageError
from hardneg.runtime import Silent
from hardneg.stages import ArtifactInput, StageContext
from hardneg.stages.evaluate import Evaluate
from hardneg.store import Store
from tests.run_lists import falling

PASSAGES = {"1": ("London", "Londres is large"), "2": ("Paris", "Paris is not"), "3": ("Tokyo", "the capital of Japan")}
ALIASES = ["London", "Londres", "Llundain", "The City of London"]
QUESTIONS = [("what is the capital of England", ALIASES), ("what is the capital of Japan", ["Tokyo", "東京", "["])]


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
    assert found == {"answer@2": {"test-0": 1.0, "test-1": 0.0}}
    assert facts == {"queries": 2, "passages": 3, "systems": 1, "patterns that cannot be compiled": 1}


def test_judgements_are_asked_for_where_a_metric_needs_them(collection: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the qrels have no queries"):
        scores(collection, tmp_path, "test", metrics=("answer@2", "mrr@10"))


ANSWERED = ["answer@1", "mrr@10", "answer@5", "answer@20"]


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
    stages["scores"]["metrics"] = ANSWERED
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
    assert list(found["metrics"]["STAR"]) == ANSWERED
    assert 0 < found["metrics"]["start"]["answer@1"] < found["metrics"]["start"]["answer@20"] == 1
    assert {item["metric"] for item in found["comparisons"]} == set(ANSWERED)
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
        "stages.static.without_answers: needs answers, but split train has none; remove it, or use another dataset",
        "stages.refreshed.refresh.without_answers: needs answers, but split train has none; remove it",
        "stages.scores.metrics: answer@1 needs answers, but split test has none; use another dataset or metric",
        "stages.drawn.without_answers: needs answers, but split train has none; remove it, or use another dataset",
    }
    assert len(list((tmp_path / "store").glob("*/manifest.json"))) == 1


def test_options_count_where_they_are_not_the_default(finished, tmp_path):
    _, tree, _ = finished

    def keys(*settings):
        return plan_in(tmp_path, tree, *settings).keys

    assert keys("stages.static.answer_match=string") == keys()
    assert keys("stages.static.without_answers=false")["static"] != keys()["static"]
    assert keys("stages.scores.answer_match=regex")["scores"] != keys()["scores"]


@pytest.fixture
def tree(tmp_path: Path) -> dict[str, Any]:
    tree = small_part(
        small_collection(tmp_path / "data"), tiny_encoder(tmp_path / "model"), "start-index", "start-test"
    )
    tree["stages"]["bm25-index"] = {"stage": "index", "backend": "bm25"}
    tree["stages"]["bm25"] = {"stage": "search", "index": "bm25-index", "depth": 10}
    tree["stages"]["scores"] = {"stage": "evaluate", "runs": {"start": "start-test"}, "metrics": ["mrr@10"]}
    return tree


def loaded(tmp_path: Path, tree: dict[str, Any], **scores: Any) -> Recipe:
    tree["stages"]["scores"] |= scores
    return recipe_in(tmp_path, tree)


def test_a_metric_cut_deeper_than_a_search(tmp_path, tree):
    told = r"stages.scores.runs.start: 'start-test' has at most 20 documents per query, too few for recall@100; "
    with pytest.raises(RecipeError, match=told + "raise its depth to 100, or list the row's metrics in metrics_of"):
        loaded(tmp_path, tree, metrics=["mrr@10", "recall@20", "recall@100"])
    loaded(tmp_path, tree, metrics=["mrr@10", "recall@20", "map"])


@pytest.mark.parametrize(
    ("stage", "longest"),
    [
        ({"stage": "fuse", "runs": {"a": "start-test", "b": "bm25"}}, 30),
        ({"stage": "fuse", "runs": {"a": "start-test", "b": "bm25"}, "depth": 12}, 12),
        ({"stage": "rerank", "run": "start-test", "plugin": "cross-encoder:nowhere"}, 20),
        ({"stage": "rerank", "run": "start-test", "plugin": "cross-encoder:nowhere", "depth": 15}, 15),
        ({"stage": "search", "index": "start-index", "candidates": "bm25"}, 10),
    ],
)
def test_through_what_is_made_of_runs(tmp_path, tree, stage, longest):
    tree["stages"]["made"] = stage
    with pytest.raises(RecipeError, match=f"'made' has at most {longest} documents per query"):
        loaded(tmp_path, tree, runs={"made": "made"}, metrics=[f"recall@{longest + 1}"])
    loaded(tmp_path, tree, runs={"made": "made"}, metrics=[f"recall@{longest}"])


def test_tuning_by_a_metric_cut_deeper_than_its_runs(tmp_path, tree):
    stages = tree["stages"]
    for name, index in {"start-dev": "start-index", "bm25-dev": "bm25-index"}.items():
        stages[name] = {"stage": "search", "index": index, "split": "dev", "depth": 5}
    tuning = {"runs": {"a": "start-dev", "b": "bm25-dev"}, "metric": "recall@20"}
    stages["made"] = {"stage": "fuse", "runs": {"a": "start-test", "b": "bm25"}, "tuning": tuning}
    with pytest.raises(RecipeError, match=r"stages.made.tuning.metric: recall@20 needs more than 10 documents"):
        loaded(tmp_path, tree)


def test_a_row_with_fewer_metrics(tmp_path, tree):
    rows = {"start": "start-test", "BM25": "bm25"}
    asked = {"runs": rows, "metrics": ["mrr@10", "recall@20"], "baselines": ["BM25"]}
    with pytest.raises(RecipeError, match=r"metrics_of.BM52: no row 'BM52'; did you mean"):
        loaded(tmp_path, tree, **asked, metrics_of={"BM52": ["mrr@10"], "BM25": ["mrr@10"]})
    with pytest.raises(RecipeError, match=r"metrics_of.BM25: mrr@5 is not in metrics"):
        loaded(tmp_path, tree, **asked, metrics_of={"BM25": ["mrr@5"]})
    plan = make_plan(loaded(tmp_path, tree, **asked, metrics_of={"BM25": ["mrr@10"]}))
    made = artifacts_of(plan, tmp_path / "store", until="scores")["scores"]
    measured = read_metrics(made.path / METRICS)
    assert [*measured.results["BM25"]] == ["mrr@10"] and [*measured.results["start"]] == ["mrr@10", "recall@20"]
    assert {each.metric for each in measured.comparisons} == {"mrr@10"} and measured.notes == ()


def test_a_level_that_no_judgement_reaches(tmp_path, tree):
    plan = make_plan(loaded(tmp_path, tree, relevance_level=2))
    told = r"stages.scores.relevance_level: must be at most 1, the highest grade in split test"
    with pytest.raises(RecipeError, match=told):
        execute(plan, Store(tmp_path / "store"), Options(until="scores", device="cpu"), Watcher())
    loaded(tmp_path, tree, relevance_level=2, metrics=["ndcg@10"])


def test_judgements_that_are_of_nothing_in_the_dataset(tmp_path, tree):
    plan = make_plan(loaded(tmp_path, tree))
    path = Path(plan.recipe.dataset.loader.options["source"]) / "qrels" / "test.tsv"
    head, *lines = path.read_text().splitlines()
    path.write_text("\n".join([head, *(line.replace("\td", "\tnone-d") for line in lines)]) + "\n")
    plan = make_plan(loaded(tmp_path, tree))
    with pytest.raises(
        RecipeError, match=r"stages.scores.split: no relevance judgement of split test has both its query and its doc"
    ):
        execute(plan, Store(tmp_path / "store"), Options(until="scores", device="cpu"), Watcher())


def test_groups_are_drawn_where_the_dataset_has_some(tmp_path, tree):
    asked = {"runs": {"start": "start-test", "BM25": "bm25"}, "by_group": "where_known"}
    plan = make_plan(loaded(tmp_path, tree, **asked))
    folder = Path(plan.recipe.dataset.loader.options["source"])
    without = artifacts_of(plan, tmp_path / "store", until="scores")
    collection = StoredCollection.open(without["dataset"].path)
    queries = [query.query_id for query in collection.queries("test")]
    (folder / "groups.tsv").write_text("".join(f"{name}\t{number // 2}\n" for number, name in enumerate(queries)))
    grouped = artifacts_of(make_plan(loaded(tmp_path, tree, **asked)), tmp_path / "store", until="scores")
    groups = [
        {each.groups for each in read_metrics(made["scores"].path / METRICS).comparisons} for made in (without, grouped)
    ]
    assert groups == [{None}, {len(queries) // 2}]


def test_margin_and_groups_are_kept_and_move_no_key_where_they_are_not_said(tmp_path, tree):
    runs = {"start": "start-test", "BM25": "bm25"}
    before = make_plan(loaded(tmp_path, tree, runs=runs)).keys["scores"]
    same = {"equivalence_margin": 0.005, "by_group": False}
    assert make_plan(loaded(tmp_path, tree, runs=runs, **same)).keys["scores"] == before
    assert make_plan(loaded(tmp_path, tree, runs=runs, equivalence_margin=0.01)).keys["scores"] != before
    groups = tmp_path / "groups.tsv"
    groups.write_text("nobody\tx\n")
    asked = {"runs": runs, "equivalence_margin": 0.01, "query_groups": str(groups)}
    plan = make_plan(loaded(tmp_path, tree, **asked))
    with pytest.raises(HardnegError, match="have no group"):
        execute(plan, Store(tmp_path / "store"), Options(until="scores", device="cpu"), Watcher())
    collection = StoredCollection.open(Store(tmp_path / "store").find(plan.keys["dataset"]).path)
    queries = [query.query_id for query in collection.queries("test")]
    groups.write_text("".join(f"{name}\t{position // 2}\n" for position, name in enumerate(queries)))
    again = make_plan(loaded(tmp_path, tree, **asked))
    assert again.keys["scores"] != plan.keys["scores"]
    made = execute(again, Store(tmp_path / "store"), Options(until="scores", device="cpu"), Watcher())
    measured = read_metrics(made.artifacts["scores"].path / METRICS)
    assert measured.equivalence_margin == 0.01 and {each.groups for each in measured.comparisons} == {len(queries) // 2}
    with pytest.raises(RecipeError, match="by_group: cannot be combined with query_groups"):
        loaded(tmp_path, tree, **asked, by_group=True)
    grouped = make_plan(loaded(tmp_path, tree, by_group=True, query_groups=None))
    with pytest.raises(RecipeError, match="by_group: no query of this dataset has a group"):
        execute(grouped, Store(tmp_path / "store"), Options(until="scores", device="cpu"), Watcher())
