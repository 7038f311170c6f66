from hardneg.analysis.query_wins import QueryWins, cases
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
