"""Documents that do not count for a query: none of its results, of its negatives, of what it is measured by."""

import numpy as np
import pytest
from recipes.recipes import artifacts_of, plan_in, small_collection, small_part

from hardneg.formats.collection import StoredCollection
from hardneg.formats.negatives import read_negatives
from hardneg.formats.qrels import without_excluded
from hardneg.formats.runs import read_run
from hardneg.mining.listing import exclude
from hardneg.records import Hits
from tests.run_lists import ranked


class Rows:
    """A corpus whose documents d0, d1, ... stand in these rows."""

    def list_rows(self, lists):
        return np.array([[int(doc_id[1:]) for doc_id in doc_ids] or [-1] for doc_ids in lists], np.int64)


def test_hits_lose_what_is_excluded_and_keep_their_depth():
    rows = np.array([[4, 2, 7, 1], [4, 2, 7, 1], [3, -1, -1, -1]])
    scores = np.array([[4, 3, 2, 1], [4, 3, 2, 1], [9, -np.inf, -np.inf, -np.inf]], np.float32)
    left = exclude(Hits(rows, scores), [["d2"], [], ["d3"]], Rows(), 2)
    assert left.rows.tolist() == [[4, 7], [4, 2], [-1, -1]]
    assert left.scores.tolist() == [[4, 2], [4, 3], [-np.inf, -np.inf]]


def test_a_run_loses_them_too():
    run = {"q1": ranked({"a": 3.0, "b": 2.0, "c": 1.0}), "q2": ranked({"a": 1.0})}
    left = without_excluded(run, {"q1": ["b", "x"], "q2": ["a"], "q3": ["a"]})
    assert {query_id: list(each.doc_ids) for query_id, each in left.items()} == {"q1": ["a", "c"], "q2": []}
    assert left["q1"].scores.tolist() == [3.0, 1.0]


@pytest.fixture
def artifacts(tmp_path, tiny_model):
    """The artifacts of a search and minings, by whether the first documents of the plain lists are excluded."""
    data = small_collection(tmp_path / "data")

    def make(exclusions=()):
        if exclusions:
            lines = "".join(f"{query_id}\t{doc_id}\n" for query_id, doc_id in exclusions)
            (data / "excluded.tsv").write_text(f"query_id\tdoc_id\n{lines}")
        stages = {
            "shallow": {"stage": "search", "index": "start-index", "split": "train", "depth": 3},
            "drawn": {"stage": "mine", "miner": {"name": "random", "count": 40}, "runs": {"dense": "start-train"}},
        }
        tree = small_part(data, tiny_model, "start-index", "start-train", "static", **stages)
        return artifacts_of(plan_in(tmp_path, tree), tmp_path / "store")

    return make


def test_what_is_excluded_is_neither_listed_nor_mined(artifacts):
    plain = artifacts()
    before = read_run(plain["shallow"].path / "run.trec.gz")
    relevant = StoredCollection.open(plain["dataset"].path).qrels("train")
    exclusions = [
        (query_id, next(doc_id for doc_id in each.doc_ids if doc_id not in relevant[query_id]))
        for query_id, each in before.items()
    ]
    made = artifacts([*exclusions, ("no-such-query", "d1"), (exclusions[0][0], "no-such-document")])
    assert made["dataset"].facts["excluded"] == len(exclusions)
    notes = made["dataset"].facts["notes"]
    assert "2 exclusions are left out: of queries or documents that the collection lacks" in notes
    out = dict(exclusions)
    deep, lists = read_run(plain["start-train"].path / "run.trec.gz"), read_run(made["shallow"].path / "run.trec.gz")
    for query_id, each in lists.items():
        expected = [doc_id for doc_id in deep[query_id].doc_ids if doc_id != out[query_id]][:3]
        assert list(each.doc_ids) == expected and len(expected) == 3
    for name in ("static", "drawn"):
        negatives = read_negatives(made[name].path / "negatives.arrow")
        assert len(negatives) > 3 and all(out[item.query_id] not in item.negatives for item in negatives)
    drawn = read_negatives(plain["drawn"].path / "negatives.arrow")
    assert any(out[item.query_id] in item.negatives for item in drawn)
    assert made["drawn"].facts["dropped as excluded"] > 0
