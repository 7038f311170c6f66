import numpy as np

from hardneg.analysis.query_wins import RecallAtDepth, recall_at_depth
from hardneg.records.types import RankedList


def run(**lists):
    scores = [np.arange(len(ids), 0, -1, np.float32) for ids in lists.values()]
    return {q: RankedList(list(lists[q]), each) for q, each in zip(lists, scores, strict=True)}


QRELS = {"q": {"a": 2, "d": 3, "c": 1}, "r": {"x": 2}}


def test_depths_by_hand():
    found = recall_at_depth({"BM25": run(q="abcd", r="yx"), "dense": run(q="dbca")}, QRELS, [1, 2, 4], level=2)
    assert found["runs"]["BM25"]["recall"] == [0.25, 0.75, 1.0]
    assert found["runs"]["dense"]["recall"] == [0.25, 0.25, 0.5]
    table = RecallAtDepth.model_construct().table(found)
    assert table.columns == ("run", "ndcg@4", "recall@1", "recall@2", "recall@4")
    assert table.rows[0][2:] == ["0.2500", "0.7500", "1.0000"]
