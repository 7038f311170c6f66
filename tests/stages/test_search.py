"""Stage `search` over the candidates of a run."""

from collections import Counter

import numpy as np
import pytest
from recipe.recipes import small_collection, small_tree, write_recipe

from hardneg.artifacts import Store
from hardneg.data.queries import Queries
from hardneg.data.runs import read_run, write_run
from hardneg.errors import DataError
from hardneg.progress import Silent
from hardneg.recipe.execute import Options, Watcher, execute
from hardneg.recipe.load import load_recipe
from hardneg.recipe.plan import make_plan
from hardneg.stages.search import _candidates
from hardneg.stages.specs import SearchSpec
from hardneg.stages.work import Input, Work

SEARCH = {"stage": "search", "index": "start-index", "split": "test"}


@pytest.fixture
def made(tmp_path, tiny_model):
    """The artifacts of some searches by name, made in a store of their own."""

    def make(stages):
        tree = small_tree(small_collection(tmp_path / "data"), tiny_model)
        tree["stages"] = {"start-index": tree["stages"]["start-index"], **stages}
        plan = make_plan(load_recipe(write_recipe(tmp_path / "r.yaml", tree)))
        return execute(plan, Store(tmp_path / "store"), Options(device="cpu"), Watcher()).artifacts

    return make


def run_of(artifact):
    return read_run(artifact.path / "run.trec.gz")


def test_candidates_are_ranked_as_the_index_ranks_them(made):
    artifacts = made(
        {
            "all": {**SEARCH, "depth": 60},
            "few": {**SEARCH, "depth": 7},
            "again": {**SEARCH, "candidates": "few", "depth": 7},
            "top": {**SEARCH, "candidates": "all", "depth": 3},
        }
    )
    for name, source, depth in (("again", "few", 7), ("top", "all", 3)):
        found, expected = run_of(artifacts[name]), run_of(artifacts[source])
        assert found.query_ids == expected.query_ids
        for ids, scores, other_ids, others in zip(
            found.doc_ids, found.scores, expected.doc_ids, expected.scores, strict=True
        ):
            np.testing.assert_allclose(scores, others[:depth], atol=1e-5)
            assert set(ids[: depth - 1]) <= set(other_ids)
    assert artifacts["again"].facts["queries without candidates"] == 0
    assert "queries without candidates" not in artifacts["few"].facts


def test_candidates_in_segments_count_by_their_best_one(made):
    cut = {"stage": "encode", "segments": {"length": 6, "count": 3}}
    search = {**SEARCH, "index": "cut", "depth": 60}
    artifacts = made({"cut": cut, "all": search, "again": {**search, "candidates": "all", "depth": 9}})
    assert artifacts["cut"].facts["segments"] > 60
    found, expected = run_of(artifacts["again"]), run_of(artifacts["all"])
    for scores, others in zip(found.scores, expected.scores, strict=True):
        np.testing.assert_allclose(scores, others[:9], atol=1e-5)


def test_candidates_of_another_split_are_refused(made):
    with pytest.raises(DataError, match="search the same split again"):
        made({"train": {**SEARCH, "split": "train"}, "again": {**SEARCH, "candidates": "train"}})


def test_a_search_of_the_whole_corpus_keeps_its_identity():
    spec = SearchSpec(stage="search", index="i")
    assert spec.identity() == {"split": "test", "depth": 100, "precision": "fp32"}
    given = SearchSpec(stage="search", index="i", candidates="r")
    assert given.identity() == spec.identity()
    assert [path for path, _, _ in given.references()] == ["index", "candidates"]


def test_each_process_takes_its_queries_candidates_and_counts_all(tmp_path):
    entries = [(f"q{i}", [f"d{i}", "d9"], np.array([2, 1], np.float32)) for i in (0, 2, 3)]
    write_run(tmp_path / "run.trec.gz", entries)
    work = Work("again", None, tmp_path, {"candidates": Input("run", "key", tmp_path)}, {}, Silent())
    queries = Queries(["q0", "q1", "q2", "q3"], [""] * 4)
    facts = Counter()
    lists = [list(ranked.doc_ids) for ranked in _candidates(work, queries, range(1, 3), facts)]
    assert lists == [[], ["d2", "d9"]]
    assert facts == {"queries without candidates": 1}
