"""Stage `label`, and queries of a file through search, rerank, label and training."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recipes.recipes import artifacts_of, plan_in, recipe_in, small_collection, small_part
from tiny import tiny_reranker

from hardneg.formats.collection import StoredCollection
from hardneg.formats.corpus import Corpus, write_corpus
from hardneg.formats.negatives import read_negatives
from hardneg.formats.runs import read_run, stream_run, write_run
from hardneg.formats.source_files import OWN, SAME_TEXT, read_query_file
from hardneg.recipes import Options, Watcher, execute, make_plan
from hardneg.records import DataError, Document, HardnegError, Query, RankedList, RecipeError
from hardneg.runtime import Silent
from hardneg.stages.mine import NO_NEGATIVE, NO_POSITIVE, pseudo_labels, sure_positive
from hardneg.store import Artifact, Store
from tests.run_lists import doc_lists, ranked

TRAIN = {"stage": "train", "loss": "infonce", "options": {"max_steps": 2, "batch_size": 8}}


def tree_of(collection, model):
    """The scores are those of the same encoder, so their thresholds are cosines."""
    label = {"stage": "label", "run": "start-new", "scores": "start-new", "above": 0.8, "below": 0.75, "depth": 20}
    stages = {
        "start-new": {"stage": "search", "index": "start-index", "split": "unlabelled", "depth": 30},
        "labels": label,
        "few": {**label, "size": 3},
        "fewer": {**label, "size": 2},
        "both": {**TRAIN, "negatives": "static", "augmented": "few"},
        "alone": {**TRAIN, "negatives": "labels"},
        "in-batch": {**TRAIN, "augmented": "labels", "options": {**TRAIN["options"], "negatives_per_query": 0}},
    }
    tree = small_part(collection, model, "start-index", "start-train", "static", **stages)
    return tree | {"dataset": {"name": "beir", "source": str(collection), "withheld": {"unlabelled": 0.5}}}


@pytest.fixture(scope="module")
def finished(tmp_path_factory, tiny_model):
    folder = tmp_path_factory.mktemp("label")
    tree = tree_of(small_collection(folder / "data"), tiny_model)
    return folder, tree, artifacts_of(plan_in(folder, tree), folder / "store")


def negatives_of(artifacts, name):
    return read_negatives(artifacts[name].path / "negatives.arrow")


def test_labels_are_checked_against_what_was_withheld(finished):
    artifacts = finished[2]
    withheld = StoredCollection.open(artifacts["dataset"].path).withheld()
    items = list(negatives_of(artifacts, "labels"))
    right = sum(item.positives[0] in withheld[item.query_id] for item in items)
    facts = artifacts["labels"].facts
    assert facts["queries with withheld labels"] == len(items)
    assert facts["pseudo-positives that are withheld positives"] == right > 0
    assert facts["precision of pseudo-positives"] == pytest.approx(right / len(items), abs=1e-4)
    wrong = sum(bool(set(item.negatives) & set(withheld[item.query_id])) for item in items)
    assert facts["pseudo-negatives that are withheld positives"] == wrong


def test_a_size_keeps_some_and_a_larger_one_the_same(finished):
    all_ids, few, fewer = (negatives_of(finished[2], name).query_ids for name in ("labels", "few", "fewer"))
    assert len(few) == 3 and len(fewer) == 2 and set(fewer) < set(few) < set(all_ids)
    assert few == [query_id for query_id in all_ids if query_id in few]
    assert finished[2]["few"].facts["queries above size"] == len(all_ids) - 3


def test_what_is_withheld_is_not_trained_on(finished):
    artifacts = finished[2]
    collection = StoredCollection.open(artifacts["dataset"].path)
    assert set(collection.withheld()) == set(collection.queries("unlabelled").query_ids)
    assert not set(collection.withheld()) & set(collection.all_qrels())
    assert negatives_of(artifacts, "static").query_ids == collection.queries("train").query_ids
    assert artifacts["dataset"].facts["withheld"]["judgements"] == 36 - len(collection.queries("train"))


def test_models_of_both(finished):
    artifacts = finished[2]
    assert "3 more queries from few" in (artifacts["both"].path / "model" / "README.md").read_text()
    for name in ("both", "alone", "in-batch"):
        history = [json.loads(line) for line in (artifacts[name].path / "history.jsonl").read_text().splitlines()]
        assert [record["step"] for record in history if "loss" in record] == [1, 2]
    unlabelled = StoredCollection.open(artifacts["dataset"].path).queries("unlabelled")
    skipped = len(unlabelled) - artifacts["labels"].facts["queries"]
    assert artifacts["alone"].facts["left out: queries without positives"] == skipped
    assert not [fact for fact in artifacts["both"].facts if fact.startswith("left out")]


def test_keys_and_mistakes(finished, tmp_path):
    _, tree, artifacts = finished

    def keys(*settings):
        return plan_in(tmp_path, tree, *settings).keys

    assert keys("stages.labels.seed=7")["labels"] == keys()["labels"]
    assert keys("stages.labels.above=0.9")["labels"] != keys()["labels"]
    assert all(keys("stages.few.seed=7")[name] != keys()[name] for name in ("few", "both"))
    with pytest.raises(RecipeError, match=r"stages\.labels: below: must be at most `above` \(0\.8\), not 0\.9"):
        keys("stages.labels.below=0.9")
    view = (recipe := plan_in(tmp_path, tree).recipe).view("labels")
    [line] = recipe.stages["labels"].problems(replace(view, collection={"splits": {"train": {}}}))
    assert line.startswith("split: this dataset has no split 'unlabelled'; withhold a share")
    assert not list(recipe.stages["labels"].problems(replace(view, collection=artifacts["dataset"].facts)))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Documents 1 to 60 and 3124; 60 is a copy of 1."""
    folder = tmp_path_factory.mktemp("corpus")
    names = [*range(1, 61), 3124]
    write_corpus([Document(str(i), f"text {1 if i == 60 else i}") for i in names], folder, Silent())
    return Corpus.open(folder)


def lists(order: list[str], scores: dict[str, float]) -> dict[str, RankedList]:
    """A list in the given order, and the run of a scorer, best first."""
    best_first = sorted(scores, key=lambda doc_id: (-scores[doc_id], doc_id))
    listed = ranked({doc_id: 1 - 0.01 * place for place, doc_id in enumerate(order)})
    return {"run": listed, "scores": ranked({doc_id: scores[doc_id] for doc_id in best_first})}


def test_the_best_document_and_the_first_sure_negatives(corpus):
    order = ["5", "4", "3", "2", "7", "6", "8", "9"]
    scores = dict(zip(order, [0.05, 0.95, 0.1, 0.099, 0.97, 0.0, 0.02, 0.03], strict=True))
    [item] = pseudo_labels([("q", lists(order, scores))], corpus, Counter(), count=3)
    assert (item.positives, item.negatives) == (["7"], ["5", "2", "6"])
    assert item.scores.tolist() == pytest.approx([1.0, 0.97, 0.95])


def test_thresholds_are_strict(corpus):
    left_out: Counter[str] = Counter()
    just = {"1": float(np.float32(0.9)), "2": 0.0}
    none = {"1": 0.95, "2": float(np.float32(0.1))}
    limits = {"above": float(np.float32(0.9)), "below": float(np.float32(0.1))}
    queries = [("a", lists(["1", "2"], just)), ("b", lists(["1", "2"], none)), ("c", lists([], {}))]
    assert not list(pseudo_labels(queries, corpus, left_out, **limits))
    assert left_out == {NO_POSITIVE: 2, NO_NEGATIVE: 1}


def test_only_the_top_is_looked_at(corpus):
    order = [str(i) for i in range(1, 8)]
    scores = dict(zip(order, [0.5, 0.92, 0.01, 0.5, 0.99, 0.0, 0.0], strict=True))
    [item] = pseudo_labels([("q", lists(order, scores))], corpus, Counter(), depth=4)
    assert (item.positives, item.negatives) == (["2"], ["3"])


def test_of_equal_ones_the_best_ranked_is_the_positive(corpus, tmp_path):
    """A written run tells equal scores apart by the smallest steps, in the order of the ids."""
    path = tmp_path / "run.trec.gz"
    scores = {"1": 0.98, "2": 0.98, "3": 0.98, "4": 0.9799, "5": 0.01}
    write_run(path, [("q", ranked(scores))])
    [(_, found)] = stream_run(path)
    assert found.doc_ids == ["1", "2", "3", "4", "5"] and len(set(found.scores.tolist())) == 5
    hits = {"run": lists(["4", "3", "2", "5", "1"], scores)["run"], "scores": found}
    assert sure_positive(hits, 0.9, 5) == "3"


def test_a_document_without_a_score_is_nothing(corpus):
    hits = lists(["9", "1", "8", "2"], {"1": 0.95, "2": 0.05})
    [item] = pseudo_labels([("q", hits)], corpus, Counter())
    assert (item.positives, item.negatives, item.dropped) == (["1"], ["2"], {"unscored": 2, "positive": 1})


def test_ids_are_compared_whole_and_copies_of_the_positive_are_no_negatives(corpus):
    order = ["12", "3124", "60", "1"]
    sure = lists(order, {"12": 0.05, "3124": 0.99, "60": 0.5, "1": 0.4})
    [item] = pseudo_labels([("q", sure)], corpus, Counter())
    assert (item.positives, item.negatives) == (["3124"], ["12"])
    sure = lists(order, {"12": 0.05, "3124": 0.5, "60": 0.01, "1": 0.99})
    [item] = pseudo_labels([("q", sure)], corpus, Counter())
    assert (item.positives, item.negatives) == (["1"], ["12"])


STEPS = {"max_steps": 2, "batch_size": 8}
OUTSIDE = [("o1", "heavy violin"), ("o2", "the fast engine"), ("o3", "quiet garden"), ("o4", "blue copper bridge")]


def tsv(path: Path, queries: list[tuple[str, str]]) -> Path:
    path.write_text("".join(f"{query_id}\t{text}\n" for query_id, text in queries))
    return path


def tree_of_own(folder: Path, model: Path, file: Path) -> dict[str, Any]:
    plugin = {"name": "cross-encoder", "source": str(tiny_reranker(folder / "reranker")), "length": 32}
    label = {"stage": "label", "run": "found", "scores": "found", "above": 0.5, "below": 0.45, "depth": 20}
    stages = {
        "found": {"stage": "search", "index": "start-index", "queries": str(file), "depth": 30},
        "scored": {"stage": "rerank", "plugin": plugin, "run": "found", "depth": 4},
        "labels": label,
        "scored-labels": {**label, "scores": "scored", "above": 0.0, "below": 0.0},
        "both": {"stage": "train", "loss": "infonce", "negatives": "static", "augmented": "labels", "options": STEPS},
    }
    return small_part(small_collection(folder / "data"), model, "start-index", "start-train", "static", **stages)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> dict[str, Artifact]:
    folder = tmp_path_factory.mktemp("outside")
    tree = tree_of_own(folder, tiny_model, tsv(folder / "outside.tsv", OUTSIDE))
    return artifacts_of(plan_in(folder, tree), folder / "store")


def test_a_file_is_searched_as_a_split_would_be(made: dict[str, Artifact], tmp_path: Path, tiny_model: Path) -> None:
    """The same queries as a split of another collection with the same corpus: the same bytes."""
    data = small_collection(tmp_path / "data")
    with (data / "queries.jsonl").open("a") as file:
        file.writelines(json.dumps({"_id": query_id, "text": text}) + "\n" for query_id, text in OUTSIDE)
    (data / "qrels" / "outside.tsv").write_text("".join(f"{query_id}\td0\t1\n" for query_id, _ in OUTSIDE))
    searched = {"stage": "search", "index": "start-index", "split": "outside", "depth": 30}
    tree = small_part(data, tiny_model, "start-index", found=searched)
    other = artifacts_of(plan_in(tmp_path, tree), tmp_path / "store")
    assert made["found"].facts["queries"] == 4
    name = "run.trec.gz"
    assert (made["found"].path / name).read_bytes() == (other["found"].path / name).read_bytes()


def test_its_queries_are_reranked_labelled_and_learnt_from(made: dict[str, Artifact]) -> None:
    ids = [query_id for query_id, _ in OUTSIDE]
    scored = read_run(made["scored"].path / "run.trec.gz")
    assert list(scored) == ids and {len(found) for found in doc_lists(scored)} == {4}
    assert doc_lists(scored) != [found[:4] for found in doc_lists(read_run(made["found"].path / "run.trec.gz"))]
    labels = read_negatives(made["labels"].path / "negatives.arrow")
    assert labels.query_ids and set(labels.query_ids) <= set(ids)
    assert made["scored-labels"].facts["queries without a pseudo-negative"] == 4
    assert f"{len(labels)} more queries from labels" in (made["both"].path / "model" / "README.md").read_text()
    assert StoredCollection.open(made["dataset"].path).splits == ("train", "dev", "test")
    assert not [fact for fact in made["both"].facts if fact.startswith("left out")]


def test_they_count_by_content(tmp_path: Path, tiny_model: Path) -> None:
    one = tsv(tmp_path / "one.tsv", OUTSIDE)
    tree = tree_of_own(tmp_path, tiny_model, one)
    keys = plan_in(tmp_path, tree).keys
    tree["stages"]["found"]["queries"] = str(tsv(tmp_path / "same.tsv", OUTSIDE))
    assert plan_in(tmp_path, tree).keys == keys
    tree["stages"]["found"]["queries"] = str(tsv(tmp_path / "fewer.tsv", OUTSIDE[:3]))
    changed = plan_in(tmp_path, tree).keys
    own = {"found", "scored", "labels", "scored-labels", "both"}
    assert {name for name in keys if keys[name] != changed[name]} == own


def test_a_file_that_is_not_there_is_told_by_the_plan(tmp_path: Path, tiny_model: Path) -> None:
    recipe = recipe_in(tmp_path, tree_of_own(tmp_path, tiny_model, Path("nowhere.tsv")))
    problems: list[HardnegError] = []
    make_plan(recipe, problems)
    (problem,) = map(str, problems)
    assert problem.startswith("stages.found.queries: file nowhere.tsv does not exist; set stages.found.queries=FILE, ")


def test_all_mistakes_of_a_file_are_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "queries.tsv"
    file.write_text("a\tone\nb\na\tagain\nq1\tother words\nc\t \nd\tfine\n")
    with pytest.raises(DataError) as caught:
        list(read_query_file(file, {"q1": "known words"}, Counter()))
    assert str(caught.value).splitlines() == [
        f"{file}:2: expected 2 columns (id and text, separated by a tab), found 1",
        f"{file}:3: query 'a' repeats the id of line 1; make ids unique",
        f"{file}:4: query 'q1' has another text in the dataset; give it a new id",
        f"{file}:5: query 'c' has no text",
    ]


def test_the_datasets_own_queries_are_left_out_and_equal_texts_counted(tmp_path: Path) -> None:
    file, facts = tmp_path / "queries.jsonl", Counter[str]()
    rows = [{"_id": "q1", "text": "known words"}, {"id": "n1", "text": "known words"}, {"qid": 7, "query": "new ones"}]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = list(read_query_file(file, {"q1": "known words"}, facts))
    assert found == [Query("n1", "known words"), Query("7", "new ones")]
    assert facts == {OWN: 1, SAME_TEXT: 1}


def test_a_file_of_the_datasets_own_queries_alone_is_refused(tmp_path: Path, tiny_model: Path) -> None:
    tree = tree_of_own(tmp_path, tiny_model, tsv(tmp_path / "own.tsv", [("q50", "fast bridge")]))
    queries = [json.loads(line) for line in (tmp_path / "data" / "queries.jsonl").read_text().splitlines()]
    tsv(tmp_path / "own.tsv", [(row["_id"], row["text"]) for row in queries])
    tree["stages"] = {name: tree["stages"][name] for name in ("start-index", "found")}
    with pytest.raises(DataError, match="all queries are already in the dataset"):
        execute(plan_in(tmp_path, tree), Store(tmp_path / "store"), Options(device="cpu"), Watcher())
