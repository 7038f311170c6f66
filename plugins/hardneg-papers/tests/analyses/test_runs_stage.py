import numpy as np
import pytest

from hardneg.formats.runs import write_run
from hardneg.records.errors import DataError
from hardneg.records.types import RankedList
from tests.verbs.analyzed import content, refused, stored_runs


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    return stored_runs(tmp_path_factory.mktemp("stored"))


def test_what_nobody_judged_is_counted_by_the_judgements_of_the_split(stored, tmp_path):
    spec = {"unjudged": {"runs": {"BM25": "a", "dense": "b"}, "against": "BM25", "depth": 1, "overlap_depth": 2}}
    found, section = content(stored, tmp_path, spec, runs__BM25="sparse", runs__dense="dense")
    sparse, dense = found["runs"]["BM25"], found["runs"]["dense"]
    assert sparse["per_query"] == {"q46": 0.0, "q47": 1.0, "q48": 1.0}
    assert dense["overlap"] == pytest.approx((1 + 0.5 + 1) / 3) and found["judged_zero"] == 0
    assert section.tables[0].columns == ("run", "ndcg@10", "unjudged at 1", "overlap with BM25 at 2", "queries")
    assert section.tables[0].rows[1][2:] == ["66.7%", "83.3%", "3"] and "may be a miss" in section.explained


def test_tails_of_scores_and_a_run_that_is_too_short(stored, tmp_path):
    (stored / "long").mkdir(exist_ok=True)
    entry = ("q46", RankedList([f"d{i}" for i in range(12)], np.arange(12, 0, -1, np.float32)))
    write_run(stored / "long" / "run.trec.gz", [entry])
    spec = {"scores": {"runs": {"long": "x"}, "queries": ["q46"]}}
    found, section = content(stored, tmp_path / "long", spec, runs__long="long")
    assert found["long"][0]["single"] == {"q46": found["long"][0]["mean"]}
    assert found["long"][0]["ranks"] == list(range(1, 11)) and section.tables[0].rows[0][:3] == ["long", "10", "6"]
    with pytest.raises(DataError, match=r"behind\.analysis\.scores\.runs\.short: no query has 10 documents"):
        content(stored, tmp_path / "short", {"scores": {"runs": {"short": "x"}}}, runs__short="dense")


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"unjudged": {"runs": {"a": "start-test"}, "against": "b"}}, "no run is labelled b; runs has a"),
        ({"unjudged": {"runs": {"a": "static"}}}, "makes negatives, but run is needed"),
        ({"scores": {"depth": 3}}, "scores.depth: no such option; did you mean 'depths'"),
        ({"matrix": {"axis": 1}}, "matrix.axis: no such option; did you mean 'axes'"),
    ],
)
def test_mistakes_are_told_before_anything_runs(tmp_path, tiny_model, spec, told):
    assert told in refused(tmp_path, tiny_model, spec)
