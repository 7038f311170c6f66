"""Planted positives, and the choice of a miner by them, on numbers worked out by hand."""

import numpy as np
import pytest
from analysis.in_memory import Memory
from hardneg_advice.miner_sweep import (
    ChoiceRule,
    MinerEvidence,
    MinerSweep,
    SweptMiner,
    choice,
    evidence,
    share_interval,
    swept,
)
from hardneg_advice.planted import HALVES, JUDGED, PlantedQuery, half, known_one, planted_lists, with_document

from hardneg.analysis.inputs import System
from hardneg.records.errors import DataError
from tests.run_lists import ranked

# q1: p is known, h planted, c a copy of p; true negatives are a, b, d. q2: its positive p stands behind all.
ONE = PlantedQuery(ranked(h=1.0, p=0.8, c=0.8, a=0.7, b=0.5, d=0.3), ["p"], frozenset("h"), frozenset("c"))
TWO = PlantedQuery(ranked(a=0.9, b=0.6, h=0.5, d=0.4, e=0.2, p=0.1), ["p"], frozenset("hx"))
LISTS = planted_lists(JUDGED, [ONE, TWO], 5)


def names(miner, lists=LISTS):
    ids = [ONE.ranking.doc_ids, TWO.ranking.doc_ids]
    return ["".join(ids[row][place] for place in np.flatnonzero(taken)) for row, taken in enumerate(miner.takes(lists))]


def test_miners_take_what_the_miners_of_that_name_take():
    assert names(SweptMiner("topk", 2)) == ["ha", "ab"]
    assert names(SweptMiner("window", 4, skip=1)) == ["a", "bhd"]  # ranks 2 to 4, whatever stands there
    assert names(SweptMiner("pos-margin", 2, threshold=0.1)) == ["ab", ""]
    assert names(SweptMiner("pos-percent", 9, threshold=0.7)) == ["b", ""]


def test_a_filter_decides_by_another_runs_scores():
    more = {"ce": ranked(h=0.9, p=0.95, a=0.1, b=0.2)}
    query = PlantedQuery(ONE.ranking, ["p"], frozenset("h"), frozenset("c"), more)
    lists = planted_lists(JUDGED, [query], 5, ["ce"])
    taken = SweptMiner("pos-percent", 9, threshold=0.9, by="ce").takes(lists)
    assert taken.tolist() == [[False, False, False, True, True]]


def test_evidence_by_hand():
    found = evidence(SweptMiner("topk", 2), LISTS, wanted=2)
    assert found.let_in == pytest.approx(1 / 3)  # of h, h and x
    assert found.planted == pytest.approx((1 / 2 + 0) / 2)
    assert found.hardness == pytest.approx(((0.7 - 0.8) + (0.9 + 0.6) / 2 - 0.1) / 2)
    assert (found.enough, found.negatives) == (0.5, 2.0)
    filtered = evidence(SweptMiner("pos-margin", 2, threshold=0.1), LISTS, wanted=2)
    assert filtered.planted == 0.0 and filtered.hardness == pytest.approx((0.7 + 0.5) / 2 - 0.8)
    assert (filtered.let_in, filtered.enough, filtered.negatives) == (0.0, 0.5, 1.0)


def test_nothing_is_no_share():
    found = evidence(SweptMiner("pos-margin", 2, threshold=9.0), LISTS, wanted=1)
    assert (found.let_in, found.planted, found.hardness, found.enough) == (0.0, None, None, 0.0)


def test_all_ways_and_depths_are_tried_within_the_deepest():
    found = list(swept([10, 50], [5, 45], {"pos-margin": [0.1]}, ["", "ce"]))
    miners = [(miner.name, miner.skip, miner.depth) for miner in found[:4]]
    assert miners == [("topk", 0, 10), ("topk", 0, 50), ("window", 5, 15), ("pos-margin", 0, 10)]
    assert [(miner.by, miner.depth) for miner in found[3:]] == [("", 10), ("", 50), ("ce", 10), ("ce", 50)]
    assert found[2].setting(50) == {"name": "window", "skip": 5, "depth": 15}
    assert found[4].setting(90) == {"name": "pos-margin", "margin": 0.1, "depth": 90, "count": 50}


def seen(planted, hardness, enough=1.0):
    return MinerEvidence(0.5, planted, hardness, enough, 9.0)


def test_the_rule_by_hand():
    rule = ChoiceRule(most_planted=0.01, least_queries=0.95, wanted=4)
    found = [
        seen(0.02, 0.5),  # too many planted
        seen(0.01, -0.2),  # the hardest of the allowed, as the next but one
        seen(0.0, 0.3, enough=0.94),  # too few queries
        seen(0.005, -0.2),  # as hard, fewer planted
        seen(0.0, -0.4),
        seen(None, None, enough=0.0),
        seen(0.005, -0.2),  # the same again: the first counts
    ]
    assert rule.order(found) == [3, 6, 1, 4, 0, 2, 5]
    assert [rule.keeps(each) for each in found] == [False, True, False, True, True, False, True]
    assert "at most 1 % are planted" in str(rule) and "95 % of the queries have 4 or more" in str(rule)


def test_what_may_be_let_in_can_be_bounded():
    found = [MinerEvidence(0.95, 0.009, 0.5, 1.0, 100.0), MinerEvidence(0.2, 0.01, 0.1, 1.0, 20.0), seen(None, 0.2)]
    assert ChoiceRule().order(found)[0] == 0  # at depth 100 nearly all that is planted keeps the bound of 1 %
    bounded = ChoiceRule(most_let_in=0.5)
    assert bounded.order(found) == [1, 0, 2] and "let in at most 50 % of these" in str(bounded)


def test_few_queries_leave_much_open():
    lists = planted_lists(JUDGED, [ONE, TWO], 5)
    none = evidence(SweptMiner("pos-margin", 2, threshold=0.1), lists, wanted=2)
    assert none.let_in_interval == (0.0, pytest.approx(1 - 0.025 ** (1 / 2)))  # of no case among two queries
    third = evidence(SweptMiner("topk", 2), lists, wanted=2)
    assert third.let_in_interval[0] < third.let_in < third.let_in_interval[1]


def test_where_one_is_planted_a_query_the_bound_is_one_of_depth():
    sweep = MinerSweep.model_construct()
    found = measured(index="index", model="model")
    assert "whatever takes" not in sweep.explain(found)  # no miner takes 100
    deep = {**found, "listed": 200}
    assert "whatever takes 100 or more of a query keeps the bound of 1 %" in sweep.explain(deep)
    assert "whatever takes" not in sweep.explain({**deep, "planted": {**found["planted"], "kind": JUDGED}})
    assert sweep.table(found).rows[0][2] == "0.0% [0.0, 84.2]"  # of none of two: 1 - .025^(1/2)


def test_the_best_of_each_way_and_of_each_depth():
    miners = [SweptMiner("topk", 10), SweptMiner("topk", 20), SweptMiner("window", 15, 5), SweptMiner("window", 25, 5)]
    found = [seen(0.5, 0.1), seen(0.01, -0.3), seen(0.01, -0.2), seen(0.0, -0.1)]
    chosen = choice(miners, found, ChoiceRule())
    assert chosen == {"chosen": 3, "kept": True, "best_of_each_way": [3, 1]}


def test_one_half_of_a_text_and_its_place_in_a_list():
    assert (half("aa bb cc dd", 0), half("aa bb cc dd", 1)) == ("aa bb", "cc dd")
    assert (half("abcd", 0), half("abcd", 1), half("a", 0)) == ("ab", "cd", "a")
    listed = with_document(ranked(a=0.9, b=0.5, c=0.5), "h", 0.5)
    assert listed.doc_ids == ["a", "b", "c", "h"]
    listed = with_document(ranked(a=0.9, b=0.5), "h", 0.75)
    assert listed.doc_ids == ["a", "h", "b"] and listed.scores.tolist() == [np.float32(0.9), 0.75, 0.5]


QRELS = {"q1": {"p": 1, "h": 2, "z": 0}, "q2": {"p": 1}}
RUN = {"q1": ONE.ranking, "q2": TWO.ranking}


class Judged(Memory):
    """A run and judgements, and a model whose vectors are of letters."""

    def relevant(self):
        return {"q1": ["p", "h"], "q2": ["p"]}

    def queries(self, split):
        return {"q1": "a", "q2": "b"}

    def texts(self, doc_ids):
        return dict.fromkeys(doc_ids, "aa aa")

    def system(self, index, model):
        def encode(texts):
            return np.array([[text.count("a"), text.count("b")] for text in texts], np.float32) / 2

        return System(None, [], len, encode, encode_documents=encode)


def measured(**options):
    asked = MinerSweep(run="run", depths=(2, 6), skips=(1,), thresholds={"pos-margin": (0.0,)}, **options)
    return asked.measure(Judged(asked, {"run": RUN}))


def test_of_several_judged_positives_one_stays_known():
    found = measured(least_judged=1)
    assert found["planted"] == {"kind": JUDGED, "queries": 1, "planted": 1}
    one = known_one("q1", ["p", "h"], 42)
    assert one == known_one("q1", ["h", "p"], 42) and one in "ph"
    top = found["miners"][0]
    assert top["miner"] == {"name": "topk", "depth": 2} and top["by"] == ""
    assert (top["let_in"], top["planted"]) == (1.0, 0.5)  # h or p, whichever is planted, is in the first two
    assert measured()["planted"]["kind"] == JUDGED  # too few, but there is no index


def test_a_half_is_planted_where_its_score_puts_it():
    found = measured(index="index", model="model")
    assert found["planted"] == {"kind": HALVES, "queries": 2, "planted": 2}
    deep = found["miners"][1]
    assert deep["miner"] == {"name": "topk", "depth": 6}
    # of q1 the half scores .5, is the sixth, behind b, and one of the four that are not known; of q2 it scores 0
    assert (deep["let_in"], deep["planted"]) == (1 / 2, (1 / 4 + 0) / 2)


def test_copies_of_the_known_one_are_not_planted_and_texts_that_lack_are_told():
    class Copies(Judged):
        def copies(self, doc_ids):
            return ["p", "h"] if doc_ids else []

    asked = MinerSweep(run="run", least_judged=1)
    with pytest.raises(DataError, match="no query has several"):
        asked.measure(Copies(asked, {"run": RUN}))

    class Untold(Judged):
        def texts(self, doc_ids):
            return {}

    asked = MinerSweep(run="run", index="i", model="m")
    with pytest.raises(DataError, match="run: halves of positives are planted by texts, and some are not known"):
        asked.measure(Untold(asked, {"run": RUN}))


def test_no_positive_to_plant_is_told():
    class Single(Judged):
        def relevant(self):
            return {"q1": ["p"]}

    asked = MinerSweep(run="run")
    with pytest.raises(DataError, match=r"no query has several known positives.*name the index and its model"):
        asked.measure(Single(asked, {"run": RUN}))


def test_a_split_that_is_not_there_is_told():
    facts = {"splits": {"train": {"queries": 3}, "test": {"queries": 2}}}
    (told,) = MinerSweep(run="run").missing(facts)
    assert told == "miner-sweep.split: split dev has no queries; there are test, train: name one that is not tested on"
    assert not list(MinerSweep(run="run", split="train").missing(facts))


def test_tables_and_the_figure(tmp_path):
    found = measured(least_judged=1)
    best, whole = MinerSweep.model_construct().tables(found)
    assert len(whole.rows) == 5 and len(best.rows) == 3
    assert [row[-1] for row in whole.rows].count("chosen") == 1
    assert whole.rows[2][:2] == ["window after rank 1", "2"] and whole.rows[3][0] == "pos-margin 0"
    MinerSweep.model_construct().draw(found, [tmp_path / "sweep.svg"])
    svg = (tmp_path / "sweep.svg").read_text()
    assert "planted among the negatives (%)" in svg and "filters" in svg and "pos-margin 0" in svg


def test_the_interval_of_a_share_by_hand():
    # no case among 3: the share p at which (1 - p)^3 is .025; all: the same from the other side
    none, all_of_them = share_interval(0.0, 3), share_interval(1.0, 3)
    assert none == (0.0, pytest.approx(1 - 0.025 ** (1 / 3)))
    assert all_of_them == (pytest.approx(0.025 ** (1 / 3)), 1.0)
    half = share_interval(0.5, 10)  # the table in every textbook: 5 of 10
    assert half == (pytest.approx(0.1871, abs=1e-4), pytest.approx(0.8129, abs=1e-4))
    assert share_interval(0.5, 0) is None
