"""Planted positives, and the choice of a miner by them, on numbers worked out by hand."""

import numpy as np
import pytest
from analysis.in_memory import Memory
from hardneg_advice.miner_sweep import THRESHOLDS, MinerSweep, evidence, rank, share_interval, swept, takes
from hardneg_advice.planted import HALVES, JUDGED, PlantedQuery, half, known_one, planted_lists, with_document

from hardneg.analysis.inputs import System
from hardneg.records.errors import DataError
from tests.run_lists import ranked

# q1: p is known, h planted, c a copy of p; true negatives are a, b, d. q2: its positive p stands behind all.
ONE = PlantedQuery(ranked(h=1.0, p=0.8, c=0.8, a=0.7, b=0.5, d=0.3), ["p"], frozenset("h"), frozenset("c"))
TWO = PlantedQuery(ranked(a=0.9, b=0.6, h=0.5, d=0.4, e=0.2, p=0.1), ["p"], frozenset("hx"))
LISTS = planted_lists(JUDGED, [ONE, TWO], 5)
TOP = {"name": "topk", "depth": 2}
MARGIN = {"name": "pos-margin", "margin": 0.1, "depth": 5, "count": 2}


def names(miner, lists=LISTS):
    ids = [ONE.ranking.doc_ids, TWO.ranking.doc_ids]
    return [
        "".join(ids[row][place] for place in np.flatnonzero(taken)) for row, taken in enumerate(takes(miner, lists))
    ]


def test_miners_take_what_the_miners_of_that_name_take():
    assert names(TOP) == ["ha", "ab"]
    assert names({"name": "window", "skip": 1, "depth": 4}) == ["a", "bhd"]  # ranks 2 to 4, whatever stands there
    assert names(MARGIN) == ["ab", ""]
    assert names({"name": "pos-percent", "share": 0.7, "depth": 9, "count": 9}) == ["b", ""]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Two negatives are enough, two windows and filters are tried, and one query with several positives will do."""
    monkeypatch.setattr("hardneg_advice.miner_sweep.WANTED", 2)
    monkeypatch.setattr("hardneg_advice.miner_sweep.SKIPS", (1,))
    monkeypatch.setattr("hardneg_advice.miner_sweep.THRESHOLDS", {**THRESHOLDS, "pos-margin": ("margin", (0.0,))})
    monkeypatch.setattr("hardneg_advice.miner_sweep.LEAST_JUDGED", 1)


def test_evidence_by_hand():
    found = evidence(TOP, LISTS)
    assert found["let_in"] == pytest.approx(1 / 3)  # of h, h and x
    assert found["planted"] == pytest.approx((1 / 2 + 0) / 2)
    assert found["hardness"] == pytest.approx(((0.7 - 0.8) + (0.9 + 0.6) / 2 - 0.1) / 2)
    assert (found["enough"], found["negatives"]) == (0.5, 2.0)
    assert found["let_in_interval"][0] < found["let_in"] < found["let_in_interval"][1]
    filtered = evidence(MARGIN, LISTS)
    assert filtered["planted"] == 0.0 and filtered["hardness"] == pytest.approx((0.7 + 0.5) / 2 - 0.8)
    assert (filtered["let_in"], filtered["enough"], filtered["negatives"]) == (0.0, 0.5, 1.0)
    assert filtered["let_in_interval"] == [0.0, pytest.approx(1 - 0.025 ** (1 / 2))]  # of no case among two queries


def test_nothing_is_no_share():
    found = evidence({**MARGIN, "margin": 9.0}, LISTS)
    assert (found["let_in"], found["planted"], found["hardness"], found["enough"]) == (0.0, None, None, 0.0)


def test_all_ways_and_depths_are_tried_within_the_deepest():
    found = list(swept([10, 50]))
    assert [each for each in found if each["name"] == "topk"] == [{"name": "topk", "depth": at} for at in (10, 50)]
    assert [each for each in found if each["name"] == "window"] == [{"name": "window", "skip": 1, "depth": 11}]
    margins = [each for each in found if each["name"] == "pos-margin"]
    assert margins == [{"name": "pos-margin", "margin": 0.0, "depth": 50, "count": count} for count in (10, 50)]


def seen(planted, hardness, enough=1.0):
    return {"planted": planted, "hardness": hardness, "enough": enough}


def test_the_rule_by_hand():
    found = [
        seen(0.02, 0.5),  # too many planted
        seen(0.01, -0.2),  # the hardest of the allowed, as the next but one
        seen(0.0, 0.3, enough=0.94),  # too few queries
        seen(0.005, -0.2),  # as hard, fewer planted
        seen(0.0, -0.4),
        seen(None, None, enough=0.0),
        seen(0.005, -0.2),  # the same again: the first counts
    ]
    assert sorted(range(7), key=lambda at: (*rank(found[at], 0.01), at)) == [3, 6, 1, 4, 0, 2, 5]
    assert [rank(each, 0.01)[0] == 0 for each in found] == [False, True, False, True, True, False, True]


def test_one_half_of_a_text_and_its_place_in_a_list():
    assert (half("aa bb cc dd", 0), half("aa bb cc dd", 1)) == ("aa bb", "cc dd")
    assert (half("abcd", 0), half("abcd", 1), half("a", 0)) == ("ab", "cd", "a")
    listed = with_document(ranked(a=0.9, b=0.5, c=0.5), "h", 0.5)
    assert listed.doc_ids == ["a", "b", "c", "h"]
    listed = with_document(ranked(a=0.9, b=0.5), "h", 0.75)
    assert listed.doc_ids == ["a", "h", "b"] and listed.scores.tolist() == [np.float32(0.9), 0.75, 0.5]


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
    asked = MinerSweep(run="run", depths=(2, 6), **options)
    return asked.measure(Judged(asked, {"run": RUN}))


def test_of_several_judged_positives_one_stays_known():
    found = measured()
    assert found["planted"] == {"kind": JUDGED, "queries": 1, "planted": 1}
    one = known_one("q1", ["p", "h"], 42)
    assert one == known_one("q1", ["h", "p"], 42) and one in "ph"
    top = found["miners"][0]
    assert top["miner"] == {"name": "topk", "depth": 2}
    assert (top["let_in"], top["planted"]) == (1.0, 0.5)  # h or p, whichever is planted, is in the first two


def test_a_half_is_planted_where_its_score_puts_it(monkeypatch):
    monkeypatch.setattr("hardneg_advice.miner_sweep.LEAST_JUDGED", 2)
    assert measured()["planted"]["kind"] == JUDGED  # too few, but there is no index
    found = measured(index="index", model="model")
    assert found["planted"] == {"kind": HALVES, "queries": 2, "planted": 2}
    deep = found["miners"][1]
    assert deep["miner"] == {"name": "topk", "depth": 6}
    # of q1 the half scores .5, is the sixth, behind b, and one of the four that are not known; of q2 it scores 0
    assert (deep["let_in"], deep["planted"]) == (1 / 2, (1 / 4 + 0) / 2)


def test_copies_of_the_known_one_are_not_planted_and_texts_that_lack_are_told(monkeypatch):
    class Copies(Judged):
        def copies(self, doc_ids):
            return ["p", "h"] if doc_ids else []

    asked = MinerSweep(run="run")
    with pytest.raises(DataError, match="no query has several"):
        asked.measure(Copies(asked, {"run": RUN}))

    class Untold(Judged):
        def texts(self, doc_ids):
            return {}

    asked = MinerSweep(run="run", index="i", model="m")
    monkeypatch.setattr("hardneg_advice.miner_sweep.LEAST_JUDGED", 2)
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
    found = measured()
    best, whole = MinerSweep.model_construct().tables(found)
    assert len(whole.rows) == 2 + 1 + 2 * 3 + 2 and len(best.rows) == 6
    assert [row[-1] for row in whole.rows].count("chosen") == 1
    assert whole.rows[2][:2] == ["window after rank 1", "2"] and whole.rows[-1][0] == "pos-margin 0"
    MinerSweep.model_construct().draw(found, [tmp_path / "sweep.svg"])
    svg = (tmp_path / "sweep.svg").read_text()
    assert "planted among the negatives" in svg and "pos-margin 0" in svg


def test_the_interval_of_a_share_by_hand():
    # no case among 3: the share p at which (1 - p)^3 is .025; all: the same from the other side
    none, all_of_them = share_interval(0.0, 3), share_interval(1.0, 3)
    assert none == [0.0, pytest.approx(1 - 0.025 ** (1 / 3))]
    assert all_of_them == [pytest.approx(0.025 ** (1 / 3)), 1.0]
    half = share_interval(0.5, 10)  # the table in every textbook: 5 of 10
    assert half == [pytest.approx(0.1871, abs=1e-4), pytest.approx(0.8129, abs=1e-4)]
