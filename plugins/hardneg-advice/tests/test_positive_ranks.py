"""Ranks of known positives, and what is near to them, on numbers worked out by hand."""

import numpy as np
import pytest
from analysis.in_memory import Memory
from hardneg_advice.positive_ranks import PositiveRanks, standing

from hardneg.analysis.inputs import System
from hardneg.records.errors import DataError
from hardneg.records.types import RankedList


def ranked(**scores):
    return RankedList(list(scores), np.array(list(scores.values()), np.float32))


# q1: p and o are known, c is a copy of p; of a, b, d one is above p. q2: p is below all four. q3: its list lacks p.
RUN = {
    "q1": ranked(a=0.9, p=0.8, c=0.8, o=0.7, b=0.5, d=0.3),
    "q2": ranked(a=0.9, b=0.6, c=0.5, d=0.4, p=0.1),
    "q3": ranked(a=0.9, b=0.6),
}
KNOWN = {"q1": ["o", "p"], "q2": ["p"], "q3": ["p"]}
VECTORS = {"p": (1.0, 0.0), "a": (0.85, 0.0), "b": (0.0, 1.0), "c": (1.0, 0.0), "d": (0.2, 0.0), "o": (0.0, 0.0)}


class Vectors:
    def vectors(self, rows):
        return np.array(list(VECTORS.values()), np.float32)[rows]


class Judged(Memory):
    """Runs, judgements, one copy of p for q1, and vectors of letters."""

    def relevant(self):
        return KNOWN

    def copies(self, doc_ids):
        return [*doc_ids, *(["c"] if "o" in doc_ids else [])]

    def system(self, index, model):
        return System(Vectors(), list(VECTORS), lambda ids: np.array([list(VECTORS).index(each) for each in ids]), len)


def measured(inputs=Judged, run=RUN, **options):
    analysis = PositiveRanks(run="run", depth=2, **options)
    return analysis.measure(inputs(analysis, {"run": run}))


def test_the_best_positive_stands_among_what_is_not_known():
    assert standing(RUN["q1"], ["o", "p"], frozenset("opc"), 2) == standing(RUN["q1"], ["p"], frozenset("opc"), 2)
    one = standing(RUN["q1"], ["o", "p"], frozenset("opc"), 2)
    assert (one.positive, one.others, one.above, one.listed) == ("p", ["a", "b"], 1, 3)
    assert one.score == pytest.approx(0.8)
    lacking = standing(RUN["q3"], ["p"], frozenset("p"), 9)
    assert (lacking.above, lacking.score) == (2, -np.inf)  # whatever is listed is above


def test_ranks_and_shares_by_hand():
    results = measured()
    assert results["ranks"] == [2, 3, 5] and results["median_rank"] == 3.0
    assert results["within"] == {"1": 0.0, "2": pytest.approx(1 / 3), "100": pytest.approx(2 / 3)}  # one is in no list
    assert results["above"] == pytest.approx((1 / 2 + 2 / 2 + 2 / 2) / 3)
    assert (results["queries"], results["listed"], results["nearer"], results["siblings"]) == (3, 4, None, None)


def test_what_is_nearer_to_the_positive_than_the_query():
    # q1: a .85 and b 0 against .8; q2: .85 and 0 against .1; q3: whatever is, as the query has no score with p.
    assert measured(index="i", model="m")["nearer"] == pytest.approx((1 / 2 + 1 / 2 + 2 / 2) / 3)


def test_siblings_are_of_positives_with_a_group():
    class Grouped(Judged):
        def groups(self):
            return {"p": "x", "a": "x", "b": "x", "d": "y"}

    assert measured(Grouped)["siblings"] == 2.0  # three queries, p each time


def test_no_positive_and_tables_and_the_figure(tmp_path):
    class Unknown(Judged):
        def relevant(self):
            return {}

    with pytest.raises(DataError, match="run: no query has a known positive that is in the corpus"):
        measured(Unknown)
    analysis, results = PositiveRanks(run="run", depth=2), measured()
    assert analysis.table(results).rows == [["3", "3", "0.0%", "33.3%", "66.7%", "83.3%", "–", "–"]]
    below = {**results, "median_rank": 5.0}
    assert analysis.table(below).rows[0][1] == "below 4"
    analysis.draw(results, [tmp_path / "ranks.svg"])
    assert "rank" in (tmp_path / "ranks.svg").read_text()
