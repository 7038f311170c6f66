"""Stage `search` with the text of each query's positive."""

from collections import Counter

import numpy as np
import pytest
from recipes.recipes import artifacts_of, recipe_in, small_collection, small_part, stored_collection

from hardneg.formats.collection import StoredCollection
from hardneg.formats.qrels import positives
from hardneg.formats.queries import Queries
from hardneg.formats.runs import read_run
from hardneg.formats.vectors.flat_vectors import FlatVectors
from hardneg.recipes.plan import make_plan
from hardneg.records.errors import RecipeError
from hardneg.stages.search import positive_texts

SEARCH = {"stage": "search", "index": "start-index", "split": "train", "depth": 5}
LOOKAHEAD = {**SEARCH, "text_of": "positive"}


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
    plan = make_plan(recipe({"ahead": LOOKAHEAD, "plain": SEARCH}))
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


def test_an_ordinary_search_keeps_its_key(recipe):
    keys = make_plan(recipe({"plain": SEARCH, "said": {**SEARCH, "text_of": "query"}})).keys
    assert keys["plain"] == keys["said"]


@pytest.mark.parametrize(
    ("stages", "told"),
    [
        ({"ahead": {**LOOKAHEAD, "positives": True}}, "ahead.positives: not beside text_of: positive; leave one out"),
        ({"ahead": {**LOOKAHEAD, "query_vectors": "v.npy"}}, "ahead.text_of: not beside query_vectors; leave one out"),
        ({"ahead": {**LOOKAHEAD, "queries": "q.tsv"}}, "ahead.queries: not beside text_of: positive; leave one out"),
        (
            {"scores": {"stage": "evaluate", "split": "train", "runs": {"r": "ahead"}}},
            "scores.runs.r: 'ahead' lists positives that were not found; name one without `positives` or `text_of`",
        ),
        (
            {"n": {"stage": "mine", "miner": "denoised", "runs": {"a": "ahead", "scores": "ahead"}}},
            "n.runs.scores: 'ahead' is of the texts of positives, not of queries; name one whose `text_of` is query",
        ),
        (
            {"n": {"stage": "mine", "miner": "union", "runs": {"a": "ahead"}}},
            "n.miner: union joins several runs: give another one, or take miner sampled",
        ),
    ],
)
def test_what_does_not_go_together_is_told(recipe, stages, told):
    with pytest.raises(RecipeError) as caught:
        recipe({"ahead": LOOKAHEAD, **stages})
    assert f"stages.{told}" in str(caught.value)
