import numpy as np
from hypothesis import given, strategies as st

from hardneg.analysis.runs import QueryWins, RecallAtDepth, cases, negatives_overlap, recall_at_depth, run_overlap
from hardneg.formats.negatives import read_negatives, write_negatives
from hardneg.records import Negatives
from tests.analysis.in_memory import Memory
from tests.run_lists import falling

QRELS = {"won": {"r": 2, "s": 1}, "lost": {"r": 1}, "tied": {"r": 1}, "far": {"r": 1}, "unranked": {"r": 1}}
OURS = {"won": ["a", "r", "b"], "lost": ["a", "b"], "tied": ["r"], "far": ["x", "a", "r"]}
THEIRS = {"won": ["b", "s", "r"], "lost": ["a", "r", "b"], "tied": ["r"], "far": ["y", "b", "c"]}
VALUES = (
    {"won": 0.9, "lost": 0.0, "tied": 1.0, "far": 0.5, "unranked": 0.0},
    {"won": 0.5, "lost": 0.6, "tied": 1.0 + 1e-12, "far": 0.0, "unranked": 0.0},
)


class Texts(Memory):
    def queries(self, split):
        return {"won": "what?"}

    def texts(self, doc_ids):
        return {"r": "x" * 400}


def shown(**grades):
    return [{"doc_id": doc_id, "relevance": grade} for doc_id, grade in grades.items()]


def test_queries_are_in_the_order_of_the_difference_with_the_documents_on_which_the_winner_wins():
    found = cases((OURS, THEIRS), VALUES, QRELS)
    assert [(case["query_id"], case["rank"]) for case in found] == [
        ("far", 3), ("won", 2), ("tied", 0), ("unranked", 0), ("lost", 2),
    ]  # fmt: skip
    by_id = {case["query_id"]: case["documents"] for case in found}
    assert by_id["won"] == shown(r=2, s=1) and by_id["lost"] == shown(b=None, r=1)
    assert by_id["far"] == shown(r=1, c=None) and by_id["tied"] == [None, None]
    assert [round(case["difference"], 6) for case in found] == [0.5, 0.4, 0.0, 0.0, -0.6]


def test_where_no_rank_tells_the_winner_the_first_difference_is_shown():
    values = ({"q": 0.5}, {"q": 0.4})
    (case,) = cases(({"q": ["a", "b"]}, {"q": ["a", "c", "d"]}), values, {"q": {"z": 1}})
    assert (case["rank"], case["documents"]) == (2, shown(b=None, c=None))
    (shorter,) = cases(({"q": ["a"]}, {"q": ["a", "c"]}), values, {"q": {"z": 1}})
    assert (shorter["rank"], shorter["documents"]) == (2, [None, *shown(c=None)])


def test_texts_are_cut():
    asked = QueryWins(run="ours", against="theirs", metric="mrr@10")
    lists = {"ours": falling({"won": ["r"]}), "theirs": falling({"won": ["s", "r"]})}
    found = asked.measure(Texts(asked, lists, {"won": {"r": 2}, "tied": {"r": 1}}))
    assert (found["wins"], found["losses"], found["ties"]) == (1, 0, 1)
    won = found["queries"][0]
    assert (won["text"], won["difference"], won["rank"]) == ("what?", 0.5, 1)
    assert won["documents"] == [
        {"doc_id": "r", "relevance": 2, "text": "x" * 300},
        {"doc_id": "s", "relevance": None, "text": ""},
    ]


def mined(path, *rows):
    """A file of (query id, positives, negatives)."""
    write_negatives(path, [Negatives(*row, np.zeros(len(row[2]), np.float32)) for row in rows])
    return read_negatives(path)


def test_the_overlap_of_two_runs_is_the_share_of_the_first_ones_top():
    ours = {"q1": ["a", "b", "c", "d"], "q2": ["a"], "q3": [], "q4": ["a"]}
    theirs = {"q1": ["c", "a", "x", "b"], "q2": ["b", "a"], "q3": ["a"]}
    at_2 = run_overlap(ours, theirs, 2)
    assert at_2.shares == {"q1": 0.5, "q2": 1.0}
    assert at_2.mean == 0.75
    assert at_2.left_out == {"queries that one run lacks": 2}
    assert run_overlap(ours, theirs, 4).shares["q1"] == 0.75


def test_negatives_met_in_testing_are_the_runs_best_that_are_not_relevant(tmp_path):
    run = [("q1", ["p", "n1", "r", "n2", "n3"]), ("q2", ["n1"]), ("q0", ["n1"])]
    rows = [("q3", [], ["n1"]), ("q2", [], []), ("q1", ["p"], ["n1", "n2", "n3", "far"])]
    negatives = mined(tmp_path / "negatives.arrow", *rows)
    found = negatives_overlap(negatives, run, {"q1": ["r"]}, depth=2)
    assert found.shares == {"q1": 0.5}
    assert found.left_out == {"queries without negatives": 1, "queries that the run lacks": 1}
    assert negatives_overlap(negatives, run, depth=2).shares == {"q1": 0.25}
    assert negatives_overlap(negatives, []).mean is None


@given(st.lists(st.integers(0, 9), unique=True, min_size=1), st.integers(1, 12))
def test_a_run_overlaps_with_itself(numbers, depth):
    lists = {"q": [str(number) for number in numbers]}
    assert run_overlap(lists, lists, depth).mean == 1.0


GRADED = {"q": {"a": 2, "d": 3, "c": 1}, "r": {"x": 2}}


def test_depths_by_hand():
    found = recall_at_depth(
        {"BM25": falling({"q": "abcd", "r": "yx"}), "dense": falling({"q": "dbca"})}, GRADED, [1, 2, 4], level=2
    )
    assert found["runs"]["BM25"]["recall"] == [0.25, 0.75, 1.0]
    assert found["runs"]["dense"]["recall"] == [0.25, 0.25, 0.5]
    table = RecallAtDepth.model_construct().table(found)
    assert table.columns == ("run", "ndcg@4", "recall@1", "recall@2", "recall@4")
    assert table.rows[0][2:] == ["0.2500", "0.7500", "1.0000"]
