"""Several runs joined: how many of each, in which order, what is left out."""

import numpy as np
import pytest

from hardneg.mining.miners.ranks import Union
from hardneg.records.errors import PluginError
from hardneg.records.types import Candidates, Negatives, RankedList
from hardneg.testing import MinerTests


class TestUnion(MinerTests):
    plugin = Union(count=6, depth=20)
    runs = ("ann", "lookahead")


class TestUnionOfAll(MinerTests):
    plugin = Union(count=500, shares={"ann": 2, "lookahead": 1, "earlier": 0.5}, choice="top")
    runs = ("ann", "lookahead", "earlier")


def ranked(text: str, highest: float = 9) -> RankedList:
    doc_ids = text.split()
    return RankedList(doc_ids, np.arange(highest, highest - len(doc_ids), -1, dtype=np.float32))


def query(**runs: str) -> Candidates:
    hits = {label: ranked(text, 9 - number / 2) for number, (label, text) in enumerate(runs.items())}
    return Candidates("q", ["p"], hits, [], frozenset({"c"}))


def mine(miner: Union, asked: Candidates, seed: int = 0) -> Negatives:
    (found,) = miner.mine([asked], seed=seed)
    return found


def test_of_each_run_its_share_interleaved_with_its_own_scores() -> None:
    found = mine(Union(count=4, choice="top"), query(ann="p a b d e", lookahead="f c g h"))
    assert list(found.negatives) == ["a", "f", "b", "g"]
    assert found.scores.tolist() == [8, 8.5, 7, 6.5] and found.scores.dtype == np.float32
    assert found.dropped == {"positive": 1, "duplicate": 1}


def test_a_document_of_several_runs_is_taken_once_and_the_later_run_goes_on() -> None:
    found = mine(Union(count=4, choice="top"), query(ann="a b d", lookahead="b e a f"))
    assert list(found.negatives) == ["a", "e", "b", "f"]
    assert found.dropped == {"repeated": 2}


def test_a_short_run_gives_what_it_has() -> None:
    found = mine(Union(count=6, choice="top"), query(ann="a b d e", lookahead="f"))
    assert sorted(found.negatives) == ["a", "b", "d", "f"]
    assert list(mine(Union(count=2, depth=1), query(ann="p a", lookahead="c b")).negatives) == []


def test_shares_are_proportions_whose_rest_goes_to_the_largest() -> None:
    labels = ["a", "b", "c"]
    assert Union(count=60).counts(labels[:2]) == {"a": 30, "b": 30}
    assert Union(count=8).counts(labels) == {"a": 3, "b": 3, "c": 2}
    assert Union(count=10, shares={"c": 0.5, "a": 0.25, "b": 0.25}).counts(labels) == {"a": 3, "b": 2, "c": 5}
    assert Union(count=7, shares={"a": 2, "b": 1, "c": 1}).counts(labels) == {"a": 3, "b": 2, "c": 2}
    assert Union(count=2, shares={"a": 1, "b": 1, "c": 98}).counts(labels) == {"a": 0, "b": 0, "c": 2}


def test_draws_are_uniform_over_the_top_of_each_run() -> None:
    """Each of five of the first run in two of five draws; of the second, which has one that is taken, as often."""
    miner, counts = Union(count=3, depth=5, shares={"ann": 2, "lookahead": 1}), dict.fromkeys("abdefgh", 0)
    for seed in range(2000):
        found = mine(miner, query(ann="a b d e f x", lookahead="g h"), seed)
        for doc_id in found.negatives:
            counts[doc_id] += 1
    assert np.array([counts[name] for name in "abdef"]) == pytest.approx(np.full(5, 800), abs=90)
    assert [counts["g"], counts["h"]] == pytest.approx([1000, 1000], abs=90)


def test_a_run_that_comes_behind_leaves_what_the_others_draw_as_it_was() -> None:
    """So the lists of earlier rounds, named again, give what they gave then."""
    lists = {"ann": " ".join(f"a{row}" for row in range(50)), "lookahead": " ".join(f"l{row}" for row in range(50))}
    before = mine(Union(count=10), query(**lists))
    after = mine(Union(count=20), query(**lists, more="m1 m2 m3 m4 m5 m6", most="n1 n2 n3 n4 n5 n6 n7"))
    assert {*before.negatives} < {*after.negatives} and len(after.negatives) == 20


def test_what_is_wrong_with_the_runs_is_told_before_anything_runs() -> None:
    assert list(Union().problems(["a", "b"])) == []
    assert list(Union().problems(["a"])) == ["union joins several runs: give another one, or take miner sampled"]
    (told,) = Union(shares={"a": 1, "x": 1}).problems(["a", "b"])
    assert told == "union: no run x, no share of b: shares must name the runs, which are a, b"
    with pytest.raises(PluginError, match="no run x, no share of lookahead"):
        mine(Union(shares={"ann": 1, "x": 1}), query(ann="a", lookahead="b"))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"depth": 0}, "count and depth must be 1 or above, not count 60 and depth 0"),
        ({"shares": {"a": 0, "b": -1, "c": 2}}, "shares must be numbers above 0: a has 0, b has -1"),
        ({"shares": {"a": float("inf")}}, "a has inf"),
    ],
)
def test_options_that_make_no_sense(options, told) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(PluginError, match=told):
        Union(**options)
