import numpy as np
from hardneg_papers.analyses.errors import Relevant, errors_in_index

from hardneg.indexes.exact_ranks import corpus_pass

ROWS = {"a": 0, "b": 1, "c": 2, "d": 3}


def rows(doc_ids):
    return np.array([ROWS.get(doc_id, -1) for doc_id in doc_ids], np.int64)


class Decoded:
    """An index that is not flat."""

    def search(self, queries, k):
        raise NotImplementedError

    def vectors(self, rows):
        return 4 - rows[:, None].astype(np.float32)


def test_what_the_index_lacks_and_queries_without_positives_are_counted_and_left_out():
    positives = {"one": ["c", "gone"], "none": ["gone"], "two": ["d"]}
    relevant = Relevant(positives, rows, lambda query_id, own: np.array([0] if query_id == "two" else []))
    found = errors_in_index(
        corpus_pass(Decoded(), 4), ["none", "one", "other", "two"], np.ones((4, 1), np.float32), relevant, cut=1
    )
    assert (found.query_ids, found.total.tolist(), found.top.tolist()) == (["one", "two"], [2, 2], [1, 1])
    assert found.left_out == {"queries without positives": 2, "positives that the index lacks": 2}
