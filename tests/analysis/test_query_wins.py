from hardneg.analysis.query_wins import Shown, cases, to_json

QRELS = {"won": {"r": 2, "s": 1}, "lost": {"r": 1}, "tied": {"r": 1}, "far": {"r": 1}, "unranked": {"r": 1}}
OURS = {"won": ["a", "r", "b"], "lost": ["a", "b"], "tied": ["r"], "far": ["x", "a", "r"]}
THEIRS = {"won": ["b", "s", "r"], "lost": ["a", "r", "b"], "tied": ["r"], "far": ["y", "b", "c"]}
VALUES = (
    {"won": 0.9, "lost": 0.0, "tied": 1.0, "far": 0.5, "unranked": 0.0},
    {"won": 0.5, "lost": 0.6, "tied": 1.0 + 1e-12, "far": 0.0, "unranked": 0.0},
)


def test_queries_are_in_the_order_of_the_difference_with_the_documents_on_which_the_winner_wins():
    found = cases((OURS, THEIRS), VALUES, QRELS)
    assert [(case.query_id, case.rank) for case in found] == [
        ("far", 3), ("won", 2), ("tied", 0), ("unranked", 0), ("lost", 2),
    ]  # fmt: skip
    by_id = {case.query_id: case for case in found}
    assert by_id["won"].documents == (Shown("r", 2), Shown("s", 1))
    assert by_id["lost"].documents == (Shown("b", None), Shown("r", 1))
    assert by_id["far"].documents == (Shown("r", 1), Shown("c", None))
    assert by_id["tied"].documents == (None, None)


def test_where_no_rank_tells_the_winner_the_first_difference_is_shown():
    values = ({"q": 0.5}, {"q": 0.4})
    (case,) = cases(({"q": ["a", "b"]}, {"q": ["a", "c", "d"]}), values, {"q": {"z": 1}})
    assert (case.rank, case.documents) == (2, (Shown("b", None), Shown("c", None)))
    (shorter,) = cases(({"q": ["a"]}, {"q": ["a", "c"]}), values, {"q": {"z": 1}})
    assert (shorter.rank, shorter.documents) == (2, (None, Shown("c", None)))


def test_texts_are_cut():
    found = to_json(cases((OURS, THEIRS), VALUES, QRELS), {"won": "what?"}, {"r": "x" * 400})
    assert (found["wins"], found["losses"], found["ties"]) == (2, 1, 2)
    won = found["queries"][1]
    assert (won["text"], round(won["difference"], 6), won["rank"]) == ("what?", 0.4, 2)
    assert won["documents"] == [
        {"doc_id": "r", "relevance": 2, "text": "x" * 300},
        {"doc_id": "s", "relevance": 1, "text": ""},
    ]
