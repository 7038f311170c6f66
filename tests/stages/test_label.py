"""Withheld labels, labels by scores, and training on both, as a recipe runs them."""

import json

import pytest
from recipes.recipes import artifacts_of, plan_in, small_collection, small_part

from hardneg.formats.collection import StoredCollection
from hardneg.formats.negatives import read_negatives
from hardneg.formats.runs import stream_run
from hardneg.records import RecipeError

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


def test_labels_are_those_of_the_scores(finished):
    artifacts = finished[2]
    collection = StoredCollection.open(artifacts["dataset"].path)
    found, left = {item.query_id: item for item in negatives_of(artifacts, "labels")}, {"positive": 0, "negative": 0}
    for query_id, ranked in stream_run(artifacts["start-new"].path / "run.trec.gz"):
        doc_ids, scores = ranked.doc_ids, ranked.scores
        top = dict(zip(doc_ids[:20], scores[:20].tolist(), strict=True))
        texts = dict(zip(top, collection.corpus.contents(collection.corpus.rows(list(top))), strict=True))
        sure = [doc_id for doc_id, score in top.items() if score < 0.75 and texts[doc_id] != texts[doc_ids[0]]][:4]
        if scores[0] <= 0.8 or not sure:
            left["positive" if scores[0] <= 0.8 else "negative"] += 1
            assert query_id not in found
        else:
            item = found.pop(query_id)
            assert (item.positives, item.negatives) == ([doc_ids[0]], sure)
    facts = artifacts["labels"].facts
    assert not found and facts["queries"] == len(negatives_of(artifacts, "labels")) > 3
    assert facts.get("queries without a pseudo-positive", 0) == left["positive"]
    assert facts.get("queries without a pseudo-negative", 0) == left["negative"]


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
    assert finished[2]["few"].facts["queries left out by size"] == len(all_ids) - 3


def test_what_is_withheld_is_not_trained_on(finished):
    artifacts = finished[2]
    collection = StoredCollection.open(artifacts["dataset"].path)
    assert set(collection.withheld()) == set(collection.queries("unlabelled").query_ids)
    assert not set(collection.withheld()) & set(collection.all_qrels())
    assert negatives_of(artifacts, "static").query_ids == collection.queries("train").query_ids
    assert artifacts["dataset"].facts["withheld"]["judgements"] == 36 - len(collection.queries("train"))


def test_models_of_both(finished):
    artifacts = finished[2]
    card = (artifacts["both"].path / "model" / "README.md").read_text()
    assert "3 more queries from few" in card
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
    with pytest.raises(RecipeError, match=r"stages\.labels: below: 0\.9 is more than above: 0\.8"):
        keys("stages.labels.below=0.9")
    spec = plan_in(tmp_path, tree).steps["labels"].spec
    [line] = spec.missing({"splits": {"train": {}}})
    assert line.startswith("split: no split 'unlabelled' in this dataset; set the share")
    assert not list(spec.missing(artifacts["dataset"].facts))
