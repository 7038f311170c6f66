import pytest
from recipes.recipes import plan_in, recipe_in, small_collection, small_tree

from hardneg.records import RecipeError
from tests.stages.analyzed import content, refused, stored_runs


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    return stored_runs(tmp_path_factory.mktemp("stored"))


def test_overlap_of_runs_and_of_negatives_with_those_met_in_testing(stored, tmp_path):
    spec = {"overlap": {"runs": {"a": "x", "b": "y"}, "negatives": {"t": "m"}, "met": {"t": "y"}, "depth": 1}}
    inputs = {"runs__a": "sparse", "runs__b": "dense"}
    found, section = content(stored, tmp_path, spec, **inputs, negatives__t="mined", met__t="dense")
    shares = {"q46": 0.0, "q47": 0.0, "q48": 1.0}
    shared = {"overlap": pytest.approx(1 / 3), "queries": 3, "left_out": {}, "per_query": shares}
    assert found["runs"] == [{"run": "a", "against": "b", **shared}]
    assert found["negatives"] == [{"training": "t", "overlap": 0.5, "queries": 1, "left_out": {}}]
    rows = [["a", "b", "33.3%", "3", "0"], ["t", "its training negatives", "50.0%", "1", "0"]]
    assert section.tables[0].rows == rows


def test_wins_come_with_the_texts_of_queries_and_documents(stored, tmp_path):
    spec = {"query-wins": {"run": "dense", "against": "bm25", "metric": "mrr@10", "examples": 1}}
    found, section = content(stored, tmp_path, spec, run="dense", against="sparse")
    assert (found["wins"], found["losses"], found["ties"]) == (1, 1, 12)
    best = found["queries"][0]
    assert (best["query_id"], best["ours"], best["theirs"], best["rank"]) == ("q47", 1.0, 0.5, 1)
    assert best["text"] == "bright copper"
    assert best["documents"][0]["doc_id"] == "d47" and "was seen again" in best["documents"][0]["text"]
    assert [row[0].split()[0] for row in section.tables[0].rows] == ["q47", "q46"]


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"overlap": {"runs": {"a": "start-test"}, "against": "b"}}, "no run is labelled b; available: a"),
        ({"recall-at-depth": {"runs": {"a": "static"}}}, "is of type negatives, expected run"),
        ({"overlap": {"runs": {"a": "start-test"}}}, "give two runs"),
        ({"overlap": {"negatives": {"a": "static"}, "met": {"b": "start-train"}}}, "the same labels"),
    ],
)
def test_mistakes_are_told_before_anything_runs(tmp_path, tiny_model, spec, told):
    assert told in refused(tmp_path, tiny_model, spec)


def test_stages_are_inputs_by_their_path(tmp_path, tiny_model):
    wins = {"run": "star-test", "against": "start-test"}
    part = {"negatives": {"STAR": "static"}, "met": {"STAR": "start-train"}}
    tree = small_tree(small_collection(tmp_path / "data"), tiny_model)
    tree["stages"]["behind"] = {"stage": "analyze", "analysis": {"overlap": part, "query-wins": wins}, "split": "test"}
    inputs = plan_in(tmp_path, tree).steps["behind"].inputs
    wanted = {"overlap.negatives.STAR": "static", "overlap.met.STAR": "start-train", "query-wins.run": "star-test"}
    assert {path: inputs[f"analysis.{path}"] for path in wanted} == wanted


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([{"name": "overlap", "runs": {}}], "must map names of analyses to their options"),
        ({"overlaps": {"runs": {}}}, "unknown analysis 'overlaps'; did you mean 'overlap'"),
        ({}, "must have a length of at least 1"),
    ],
)
def test_what_is_no_analysis_is_told(tmp_path, tiny_model, given, told):
    tree = small_tree(small_collection(tmp_path / "data"), tiny_model)
    tree["stages"]["behind"] = {"stage": "analyze", "analysis": given}
    with pytest.raises(RecipeError) as failed:
        recipe_in(tmp_path, tree)
    assert told in str(failed.value)
