"""Draws from the top of a list: ANCE's choice of negatives."""

import numpy as np
import pytest

from hardneg.mining.miners.ranks import Mixed, Random, Sampled
from hardneg.records import Candidates, Negatives, PluginError, RankedList
from hardneg.runtime import generator
from hardneg.testing import MinerTests


class TestSampled(MinerTests):
    plugin = Sampled(depth=20, count=5)


class TestAllOfThem(MinerTests):
    plugin = Sampled(depth=1000, count=1000)


def mine(seed: int, query_id: str = "q1", positives: tuple[str, ...] = ("d0", "d7"), count: int = 20) -> Negatives:
    listed = RankedList([f"d{row}" for row in range(300)], np.arange(300, 0, -1, dtype=np.float32))
    asked = Candidates(query_id, positives, {"dense": listed}, [], frozenset({"d9"}))
    (found,) = Sampled(depth=200, count=count).mine([asked], seed=seed)
    return found


def test_twenty_of_the_top_200_are_no_positives_and_no_copies() -> None:
    for seed in range(20):
        found = mine(seed)
        assert len(set(found.negatives)) == len(found.negatives) == 20
        assert {int(doc_id[1:]) for doc_id in found.negatives} <= set(range(200)) - {0, 7, 9}
        assert found.scores.tolist() == [300 - int(doc_id[1:]) for doc_id in found.negatives]


def test_all_that_are_fit_are_as_likely() -> None:
    drawn = np.bincount([int(doc_id[1:]) for seed in range(500) for doc_id in mine(seed).negatives], minlength=200)
    fit = np.delete(drawn, [0, 7, 9])
    assert drawn[[0, 7, 9]].tolist() == [0, 0, 0]
    assert fit.mean() == pytest.approx(500 * 20 / 197)
    assert fit.min() > 20 and fit.max() < 85  # 50.8 on average, with a standard deviation of 6.8


def test_a_draw_depends_on_seed_and_query_alone() -> None:
    assert mine(1).negatives == mine(1).negatives
    assert mine(1).negatives != mine(2).negatives
    assert mine(1).negatives != mine(1, "q2").negatives
    assert mine(1, positives=()).negatives[:5] != sorted(mine(1, positives=()).negatives[:5])


def test_a_short_list_gives_what_it_has() -> None:
    listed = RankedList(["d1", "d2", "d3"], np.array([3, 2, 1], np.float32))
    (found,) = Sampled().mine([Candidates("q", ["d2"], {"dense": listed}, [])], seed=0)
    assert sorted(found.negatives) == ["d1", "d3"] and found.dropped == {"positive": 1}


def test_options_that_make_no_sense() -> None:
    assert Sampled(depth=1, count=1).count == 1
    with pytest.raises(PluginError, match="depth and count must be 1 or above, not depth 0 and count 20"):
        Sampled(depth=0)


@pytest.mark.parametrize(("corpus", "permuted"), [(19, True), (20, False)])
def test_a_corpus_of_less_than_four_times_what_is_wanted_is_permuted(corpus: int, permuted: bool) -> None:
    """Two negatives, two positives and a copy are 5 that may be drawn: negatives of a seed stay as they are."""
    doc_ids = [f"d{row}" for row in range(corpus)]
    asked = Candidates("q", ["d0", "d1"], {}, doc_ids, frozenset({"d2"}))
    (found,) = Random(count=2).mine([asked], seed=3)
    order = [doc_id for row in generator(3, "random", "q").permutation(corpus) if (doc_id := doc_ids[row])]
    fit = [doc_id for doc_id in order if doc_id not in {"d0", "d1", "d2"}]
    assert (list(found.negatives) == fit[:2]) == permuted


def test_the_papers_numbers_are_the_defaults() -> None:
    """BM25+Rand takes BM25's top 100, one for one; ANCE draws 20 of the top 200."""
    assert Mixed() == Mixed(depth=100, ratio=1.0) and Sampled() == Sampled(depth=200, count=20)
