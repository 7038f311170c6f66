"""Stage `search`: candidates, blocks, positives, and the texts of positives."""

import json
from collections import Counter

import numpy as np
import pytest
from recipes.recipes import artifacts_of, plan_in, recipe_in, small_collection, small_part, stored_collection

from hardneg.formats.collection import Queries, StoredCollection
from hardneg.formats.qrels import positives
from hardneg.formats.runs import read_run
from hardneg.formats.vectors import FlatVectors
from hardneg.recipes import make_plan
from hardneg.records import DataError, RecipeError
from hardneg.stages import search as searching
from hardneg.stages.search import Search, SearchBlocks, positive_texts
from tests.run_lists import doc_lists, score_lists

SEARCH = {"stage": "search", "index": "start-index", "split": "test"}


@pytest.fixture
def made(tmp_path, tiny_model):
    """The artifacts of some searches by name, made in a store of their own."""
    data = small_collection(tmp_path / "data")

    def make(stages):
        tree = small_part(data, tiny_model, "start-index", **stages)
        plan = plan_in(tmp_path, tree)
        return artifacts_of(plan, tmp_path / "store")

    return make


def run_of(artifact):
    return read_run(artifact.path / "run.trec.gz")


def test_candidates_are_ranked_as_the_index_ranks_them(made):
    stages = {"all": {**SEARCH, "depth": 60}, "few": {**SEARCH, "depth": 7}}
    stages |= {"again": {**stages["few"], "candidates": "few"}, "top": {**SEARCH, "candidates": "all", "depth": 3}}
    artifacts = made(stages)
    for name, source, depth in (("again", "few", 7), ("top", "all", 3)):
        found, expected = run_of(artifacts[name]), run_of(artifacts[source])
        assert list(found) == list(expected)
        for ids, scores, other_ids, others in zip(
            doc_lists(found), score_lists(found), doc_lists(expected), score_lists(expected), strict=True
        ):
            np.testing.assert_allclose(scores, others[:depth], atol=1e-5)
            assert set(ids[: depth - 1]) <= set(other_ids)
    assert artifacts["again"].facts["queries without candidates"] == 0
    assert all(artifacts["all"].facts[f"seconds of search: {name}"] > 0 for name in ("encode queries", "search"))
    assert "queries without candidates" not in artifacts["few"].facts


KINDS = {
    "exact": {},
    "hnsw": {"index": {"stage": "index", "vectors": "start-index", "backend": "hnsw"}},
    "bm25": {"index": {"stage": "index", "backend": "bm25"}},
}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow if kind == "bm25" else ()) for kind in KINDS]
)
def test_blocks_of_queries_that_were_searched_are_not_searched_again(made, monkeypatch, kind):
    monkeypatch.setattr(searching, "_BLOCK", 4)
    monkeypatch.setattr(searching, "_PRODUCTS", 0)  # each block is a pass of its own
    stages = {**KINDS[kind], "test": {**SEARCH, "index": "index" if KINDS[kind] else "start-index", "depth": 9}}
    hits, searched = SearchBlocks._hits, list[int]()

    def stops(blocks, searcher, wanted, lists, count):
        searched.append(count)
        if len(searched) == 3:
            raise KeyboardInterrupt
        return hits(blocks, searcher, wanted, lists, count)

    monkeypatch.setattr(SearchBlocks, "_hits", stops)
    with pytest.raises(KeyboardInterrupt):
        made(stages)
    again = made(stages)["test"]
    assert searched == [4, 4, 4, 4, 2]
    monkeypatch.undo()
    whole = made({**stages, "test": {**stages["test"], "depth": 10}})["test"]
    assert doc_lists(run_of(again)) == [ids[:9] for ids in doc_lists(run_of(whole))]


@pytest.mark.slow
def test_queries_that_find_nothing_are_counted(made, tmp_path):
    (tmp_path / "queries.tsv").write_text("none1\tqqqq zzzz\nnone2\txxxx\n")
    search = {**SEARCH, "index": "index", "queries": str(tmp_path / "queries.tsv")}
    facts = made({**KINDS["bm25"], "test": {**search}})["test"].facts
    assert facts["queries without results"] == 2 and facts["queries"] == 2


def test_angular_scores_are_those_of_the_cosines(made):
    artifacts = made({"own": {**SEARCH, "depth": 9}, "angular": {**SEARCH, "depth": 9, "scores": "angular"}})
    cosines, found = run_of(artifacts["own"]), run_of(artifacts["angular"])
    assert doc_lists(found) == doc_lists(cosines)
    for scores, expected in zip(score_lists(found), score_lists(cosines), strict=True):
        np.testing.assert_allclose(scores, 1 - np.arccos(expected.clip(-1, 1)) / np.pi, atol=1e-5)
    assert "scores" not in Search(stage="search", index="i").identity()


def test_candidates_of_another_split_are_refused(made):
    with pytest.raises(DataError, match="rerun the search of this split"):
        made({"train": {**SEARCH, "split": "train"}, "again": {**SEARCH, "candidates": "train"}})


def test_known_positives_stand_behind_the_list_that_lacks_them_at_their_own_scores(made):
    train = {**SEARCH, "split": "train"}
    artifacts = made({"all": {**train, "depth": 60}, "few": {**train, "depth": 2, "positives": True}})
    every, few = run_of(artifacts["all"]), run_of(artifacts["few"])
    assert list(few) == list(every)
    longer = 0
    for query_id, ids, scores, all_ids, others in zip(
        list(few), doc_lists(few), score_lists(few), doc_lists(every), score_lists(every), strict=True
    ):
        positive = "d" + query_id[1:]
        known = dict(zip(all_ids, others.tolist(), strict=True))
        assert list(ids[:2]) == list(all_ids[:2]) and ids.count(positive) == 1
        np.testing.assert_allclose(scores, [known[doc_id] for doc_id in ids], atol=1e-6)
        longer += list(ids[2:]) == [positive]
    assert 0 < longer < 36 and sum(map(len, doc_lists(few))) == 72 + longer


def test_positives_behind_candidates_in_segments_count_by_their_best_one(made):
    cut = {"stage": "encode", "segments": {"length": 6, "count": 3}}
    train = {**SEARCH, "split": "train", "index": "cut"}
    few = {**train, "candidates": "all", "depth": 1, "positives": True}
    artifacts = made({"cut": cut, "all": {**train, "depth": 60}, "few": few})
    every, found = run_of(artifacts["all"]), run_of(artifacts["few"])
    for ids, scores, all_ids, others in zip(
        doc_lists(found), score_lists(found), doc_lists(every), score_lists(every), strict=True
    ):
        known = dict(zip(all_ids, others.tolist(), strict=True))
        np.testing.assert_allclose(scores, [known[doc_id] for doc_id in ids], atol=1e-5)
    assert {len(ids) for ids in doc_lists(found)} == {1, 2}


SECOND = {
    "reranked": {"stage": "rerank", "plugin": "cross-encoder:packaged:all-MiniLM-L6-v2", "run": "run"},
    "again": {**SEARCH, "candidates": "run"},
    "hop": {**SEARCH, "candidates": "reranked"},
}
FUSED, PLAIN = {"a": "TARGET", "b": "plain"}, {"stage": "fuse", "runs": {"a": "plain", "b": "plain"}}
ALONE = {"stage": "train", "loss": "infonce", "options": {"negatives_per_query": 0}}
MEASURES = {
    "runs.r": {"stage": "evaluate", "runs": {"r": "TARGET"}},
    "runs.a": {"stage": "fuse", "runs": FUSED},
    "tuning.runs.a": {**PLAIN, "tuning": {"runs": FUSED, "metric": "mrr@10"}},
    "validation_run": {**ALONE, "validation_run": "TARGET"},
    "analysis.query-wins.run": {"stage": "analyze", "analysis": {"query-wins": {"run": "TARGET", "against": "plain"}}},
    "analysis.recall-at-depth.runs.a": {"stage": "analyze", "analysis": {"recall-at-depth": {"runs": {"a": "TARGET"}}}},
}


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("target", ["reranked", "again", "hop"])
def test_nor_do_runs_whose_documents_come_from_them(tmp_path, tiny_model, target, measure):
    asked = json.loads(json.dumps(MEASURES[measure]).replace("TARGET", target))
    stages = {"plain": SEARCH, "run": {**SEARCH, "positives": True}, **SECOND, "asked": asked}
    with pytest.raises(RecipeError) as caught:
        recipe_in(tmp_path, small_part(small_collection(tmp_path / "data"), tiny_model, "start-index", **stages))
    told = f"{target!r} comes from 'run', which has added positives; use a run without `positives`"
    assert f"stages.asked.{measure}: {told}" in str(caught.value)


OF_TRAIN = {"stage": "search", "index": "start-index", "split": "train", "depth": 5}
LOOKAHEAD = {**OF_TRAIN, "text_of": "positive"}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("collection")
    stored_collection(folder)
    return StoredCollection.open(folder / "stored")


@pytest.fixture
def recipe(tmp_path, tiny_model):
    def load(stages):
        return recipe_in(tmp_path, small_part(small_collection(tmp_path / "data"), tiny_model, "start-index", **stages))

    return load


def test_the_first_positive_that_the_corpus_has_stands_in_place_of_the_query(stored):
    facts, queries = Counter(), Queries(["q1", "q2", "q3", "q4"], ["one", "two", "three", "four"])
    first, second = stored.corpus.doc_ids[3], stored.corpus.doc_ids[0]
    known = {"q1": ["not there", first, second], "q2": [], "q4": [second], "q5": [first]}
    found = positive_texts(queries, known, stored.corpus, facts)
    assert found.query_ids == ["q1", "q4"] and facts == {"queries without positives": 2}
    three, none = stored.corpus.contents(np.array([3, 0]))
    assert len(found.texts) == 2 and list(found.texts) == [three, none]
    assert found.texts[0:1] == [three] and found.texts[-1] == none and found.texts[5:] == []


def test_a_search_with_positives_finds_their_neighbours(recipe, tmp_path, stored):
    """Scores are the products of documents' own vectors; a document's nearest neighbour is itself."""
    plan = make_plan(recipe({"ahead": LOOKAHEAD, "plain": OF_TRAIN}))
    made = artifacts_of(plan, tmp_path / "store")
    vectors, known = FlatVectors.open(made["start-index"].path), positives(stored.all_qrels())
    rows, found = vectors.read(0, len(stored.corpus)), read_run(made["ahead"].path / "run.trec.gz")
    asked = stored.queries("train").query_ids
    assert list(found) == [query_id for query_id in asked if query_id in known]
    for query_id, ranked in found.items():
        own = rows[stored.corpus.rows(known[query_id][:1])[0]]
        expected = np.sort(rows @ own)[::-1][:5]
        np.testing.assert_allclose(ranked.scores, expected, atol=1e-5)
        assert ranked.doc_ids[0] == known[query_id][0] or ranked.scores[0] == pytest.approx(float(own @ own), abs=1e-5)
    assert made["ahead"].facts["queries"] == len(found)
    assert made["ahead"].key != made["plain"].key
    assert read_run(made["plain"].path / "run.trec.gz") != found


@pytest.mark.parametrize(
    ("stages", "told"),
    [
        ({"ahead": {**LOOKAHEAD, "positives": True}}, "ahead.positives: cannot be combined with text_of"),
        ({"ahead": {**LOOKAHEAD, "query_vectors": "v.npy"}}, "ahead.text_of: cannot be combined with query_vectors"),
        ({"ahead": {**LOOKAHEAD, "queries": "q.tsv"}}, "ahead.queries: cannot be combined with text_of"),
        (
            {"scores": {"stage": "evaluate", "split": "train", "runs": {"r": "ahead"}}},
            "scores.runs.r: 'ahead' has added positives; use a run without `positives` or `text_of`",
        ),
        (
            {"n": {"stage": "mine", "miner": "denoised", "runs": {"a": "ahead", "scores": "ahead"}}},
            "n.runs.scores: 'ahead' searches with positives, not with queries; use a run with `text_of: query`",
        ),
    ],
)
def test_what_does_not_go_together_is_told(recipe, stages, told):
    with pytest.raises(RecipeError) as caught:
        recipe({"ahead": LOOKAHEAD, **stages})
    assert f"stages.{told}" in str(caught.value)
