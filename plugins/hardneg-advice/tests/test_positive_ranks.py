"""Ranks of known positives, and what is near to them, on numbers worked out by hand."""

import numpy as np
import pytest
from analysis.in_memory import Memory
from hardneg_advice.positive_ranks import PositiveRanks

from hardneg.records import DataError, RankedList


def ranked(**scores):
    return RankedList(list(scores), np.array(list(scores.values()), np.float32))


# q1: p and o are known, c is a copy of p; of a, b, d one is above p. q2: p is below all four. q3: its list lacks p.
RUN = {
    "q1": ranked(a=0.9, p=0.8, c=0.8, o=0.7, b=0.5, d=0.3),
    "q2": ranked(a=0.9, b=0.6, c=0.5, d=0.4, p=0.1),
    "q3": ranked(a=0.9, b=0.6),
}
KNOWN = {"q1": ["o", "p"], "q2": ["p"], "q3": ["p"]}


class Judged(Memory):
    """Runs, judgements, one copy of p for q1."""

    def relevant(self):
        return KNOWN

    def copies(self, doc_ids):
        return [*doc_ids, *(["c"] if "o" in doc_ids else [])]


def measured(inputs=Judged):
    analysis = PositiveRanks(run="run", depth=2)
    return analysis.measure(inputs(analysis, {"run": RUN}))


def test_ranks_and_shares_by_hand():
    results = measured()
    assert results["ranks"] == [2, 3, 5] and results["median_rank"] == 3.0
    assert results["within"] == {"1": 0.0, "2": pytest.approx(1 / 3), "100": pytest.approx(2 / 3)}  # one is in no list
    assert results["above"] == pytest.approx((1 / 2 + 2 / 2 + 2 / 2) / 3)
    assert (results["queries"], results["listed"]) == (3, 4)


def test_no_positive_and_tables_and_the_figure(tmp_path):
    class Unknown(Judged):
        def relevant(self):
            return {}

    with pytest.raises(DataError, match="run: no query has a labelled positive in the corpus"):
        measured(Unknown)
    analysis, results = PositiveRanks(run="run", depth=2), measured()
    assert analysis.table(results).rows == [["3", "3", "0.0%", "33.3%", "66.7%", "83.3%"]]
    below = {**results, "median_rank": 5.0}
    assert analysis.table(below).rows[0][1] == "below 4"
    analysis.draw(results, [tmp_path / "ranks.svg"])
    assert "in the first 2" in (tmp_path / "ranks.svg").read_text()
