import numpy as np
from hardneg_papers.analyses.filters import false_negative_recall

from hardneg.records import Candidates
from tests.run_lists import ranked


def query(dense, scores, positives, copies=(), name="q"):
    listed = ranked({doc_id: float(-rank) for rank, doc_id in enumerate(dense)})
    return Candidates(name, positives, {"dense": listed, "CE": ranked(scores)}, [], frozenset(copies))


ONE = query("pcahb", {"p": 0.9, "h": 0.8, "a": 0.3, "b": 0.05}, ["p"], ["c"], "q1")
TWO = query("haxd", {"h": 0.02, "a": 0.6, "d": 0.01}, ["p"], name="q2")


def test_recall_and_precision_of_what_a_filter_removes():
    found = false_negative_recall([(ONE, {"h", "z"}), (TWO, {"h"})], ["CE"], {"denoised": (0.1, 0.5)}, depth=5)
    assert (found["queries"], found["with hidden positives"]) == (2, 2)
    by_ce = found["scores"]["CE"]
    assert (by_ce["candidates"], by_ce["hidden"], by_ce["unscored"]) == (6, 2, 1)
    strict, loose = by_ce["filters"]["denoised"]
    assert strict == {"threshold": 0.1, "removed": 3, "recall": 0.5, "precision": 1 / 3, "kept": 0.5}
    assert loose == {"threshold": 0.5, "removed": 2, "recall": 0.5, "precision": 0.5, "kept": 0.75}


def test_filters_that_compare_keep_nothing_where_no_positive_has_a_score():
    found = false_negative_recall(
        [(ONE, {"h"}), (TWO, {"h"})], ["CE"], {"pos-margin": (0.5,), "pos-percent": (0.9,)}, depth=5
    )
    by_ce = found["scores"]["CE"]
    assert by_ce["queries with no scored positive"] == 1
    (margin,), (share,) = by_ce["filters"]["pos-margin"], by_ce["filters"]["pos-percent"]
    assert (margin["removed"], margin["recall"], margin["kept"]) == (4, 1.0, 0.5)
    assert (share["removed"], share["recall"]) == (3, 0.5)


def test_the_first_documents_of_the_list_are_the_candidates_and_its_scores_may_decide():
    found = false_negative_recall([(ONE, {"h"})], ["dense", "CE"], {"max-score": (-1.5,)}, depth=4)
    own = found["scores"]["dense"]
    assert (own["candidates"], own["hidden"]) == (2, 1)
    assert own["filters"]["max-score"] == [
        {"threshold": -1.5, "removed": 0, "recall": 0.0, "precision": None, "kept": 1.0}
    ]
    assert found["scores"]["CE"]["filters"]["max-score"][0]["kept"] == 0.0


def test_a_perfect_scorer_finds_all_and_keeps_all():
    draws = np.random.default_rng(0)
    asked = []
    for number in range(50):
        hidden = {f"d{row}" for row in draws.choice(40, 3, replace=False)}
        scores = {f"d{row}": 0.95 if f"d{row}" in hidden else 0.01 for row in range(40)}
        asked.append((query(list(scores), scores, [], name=f"q{number}"), hidden))
    (point,) = false_negative_recall(asked, ["CE"], {"denoised": (0.1,)}, depth=40)["scores"]["CE"]["filters"][
        "denoised"
    ]
    assert (point["recall"], point["precision"], point["kept"], point["removed"]) == (1.0, 1.0, 1.0, 150)
