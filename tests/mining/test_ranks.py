"""Miners by rank on ten-line lists, several runs joined, and what must hold for all miners."""

from typing import Any

import numpy as np
import pytest

from hardneg.mining.ranks import Mixed, Random, Sampled, TopK, Union, Window
from hardneg.mining.thresholds import Denoised, MaxScore, PosMargin, PosPercent, SimAns
from hardneg.protocols import NegativeMiner
from hardneg.records import Candidates, Negatives, PluginError, RankedList
from hardneg.runtime import generator
from hardneg.testing import MinerTests

SCORED = ("dense", "scores")
OPTIONS: list[tuple[Any, tuple[str, ...]]] = [
    (TopK(depth=20), ("run",)),
    (Window(skip=2, depth=30), ("run",)),
    (Random(count=5), ("run",)),
    (Random(count=1000), ("run",)),
    (Mixed(depth=8), ("run",)),
    (Mixed(depth=100, ratio=10), ("run",)),
    (Sampled(depth=20, count=5), ("run",)),
    (Sampled(depth=1000, count=1000), ("run",)),
    (Union(count=6, depth=20), ("ann", "lookahead")),
    (Union(count=500, shares={"ann": 2, "earlier": 0.5}, choice="top"), ("ann", "earlier")),
    (Denoised(below=0.5, depth=20, count=10), SCORED),
    (Denoised(below=0.5, depth=20, count=10, order="random", fill="random"), SCORED),
    (MaxScore(highest=0.5, order="scored", fill="random"), ("run",)),
    (PosMargin(margin=0.5, depth=30), SCORED),
    (PosPercent(without_positive="keep"), ("run",)),
    (SimAns(count=5), ("run",)),
    (SimAns(count=500, shift=-1.0, positive="mean", without_positive="drop"), ("run",)),
]


class TestEvery(MinerTests):
    """Against the kit that authors of plugins use."""

    @pytest.fixture(autouse=True, params=OPTIONS, ids=lambda param: type(param[0]).__name__)
    def _each(self, request: pytest.FixtureRequest) -> None:
        self.plugin, self.runs = request.param  # type: ignore[misc]


def query(
    ranking: list[str], positives: list[str], copies: tuple[str, ...] = (), corpus: int = 10, name: str = "q1"
) -> Candidates:
    scores = np.arange(len(ranking), 0, -1, dtype=np.float32)
    ids = [f"d{row}" for row in range(corpus)]
    return Candidates(name, positives, {"bm25": RankedList(ranking, scores)}, ids, frozenset(copies))


def mine(miner: NegativeMiner, candidates: Candidates, seed: int = 0) -> Negatives:
    (found,) = miner.mine([candidates], seed=seed)
    return found


def test_topk_counts_its_depth_after_the_exclusions() -> None:
    found = mine(TopK(depth=2), query(["d1", "d2", "d3", "d4", "d5"], ["d1"], ("d3",)))
    assert list(found.negatives) == ["d2", "d4"]
    assert found.scores.tolist() == [4, 2]
    assert found.scores.dtype == np.float32
    assert found.dropped == {"positive": 1, "duplicate": 1}
    assert list(found.positives) == ["d1"]
    copies = mine(TopK(depth=2, exclude_copies=False), query(["d1", "d2", "d3"], ["d1"], ("d3",)))
    assert list(copies.negatives) == ["d2", "d3"]
    twice = mine(TopK(), query(["d1", "d2", "d1"], []))
    assert list(twice.negatives) == ["d1", "d2"] and twice.dropped == {"repeated": 1}


def test_window_of_cort_is_ranks_8_to_100_of_the_list_as_retrieved() -> None:
    ranking = [f"d{rank}" for rank in range(1, 121)]
    assert list(mine(Window(skip=7, depth=100), query(ranking, [])).negatives) == ranking[7:100]
    relevant = mine(Window(skip=7, depth=100), query(ranking, ["d1", "d50"]))
    assert relevant.negatives[0] == "d8"
    assert len(relevant.negatives) == 92
    assert relevant.dropped == {"skipped": 7, "positive": 1}


def test_short_and_missing_lists_give_what_there_is() -> None:
    assert list(mine(TopK(), query(["d1"], ["d1"])).negatives) == []
    assert list(mine(Window(skip=7, depth=9), query(["d1", "d2"], [])).negatives) == []
    short = mine(Sampled(), query(["d1", "d2", "d3"], ["d2"]))
    assert sorted(short.negatives) == ["d1", "d3"] and short.dropped == {"positive": 1}


def test_random_gives_all_there_is_of_a_tiny_corpus() -> None:
    found = mine(Random(count=50), query([], ["d0"], ("d4",), corpus=6))
    assert sorted(found.negatives) == ["d1", "d2", "d3", "d5"]
    assert found.dropped == {"positive": 1, "duplicate": 1}
    assert np.isnan(found.scores).all()


@pytest.mark.parametrize("corpus", [12, 400])
def test_random_is_uniform_over_what_is_allowed(corpus: int) -> None:
    counts = np.zeros(corpus)
    for number in range(3000):
        found = mine(Random(count=5), query([], ["d0"], corpus=corpus, name=f"q{number}"))
        counts[[int(doc_id[1:]) for doc_id in found.negatives]] += 1
    expected = 3000 * 5 / (corpus - 1)
    assert counts[0] == 0
    assert np.abs(counts[1:] - expected).max() < 5 * np.sqrt(expected)


@pytest.mark.parametrize(("corpus", "permuted"), [(19, True), (20, False)])
def test_a_corpus_of_less_than_four_times_what_is_wanted_is_permuted(corpus: int, permuted: bool) -> None:
    """Two negatives, two positives and a copy are 5 that may be drawn: negatives of a seed stay as they are."""
    found = mine(Random(count=2), query([], ["d0", "d1"], ("d2",), corpus, name="q"), 3)
    order = [f"d{row}" for row in generator(3, "random", "q").permutation(corpus).tolist()]
    fit = [doc_id for doc_id in order if doc_id not in {"d0", "d1", "d2"}]
    assert (list(found.negatives) == fit[:2]) == permuted


def test_mixed_alternates_between_the_top_and_the_corpus() -> None:
    found = mine(Mixed(depth=3), query(["d1", "d2", "d3", "d4", "d5"], ["d1"], ("d3",), corpus=9))
    assert list(found.negatives[::2]) == ["d2", "d4", "d5"]
    assert found.scores[::2].tolist() == [4, 2, 1]
    assert set(found.negatives[1::2]) <= {"d0", "d6", "d7", "d8"}
    assert np.isnan(found.scores[1::2]).all()
    assert found.dropped["positive"] >= 1 and found.dropped["duplicate"] >= 1


def test_mixed_keeps_its_ratio_where_the_list_is_short_and_draws_none_of_it_again() -> None:
    found = mine(Mixed(depth=100, ratio=2), query(["d1", "d2"], [], corpus=500))
    assert [doc_id in ("d1", "d2") for doc_id in found.negatives] == [False, True, False, False, True, False]
    assert list(mine(Mixed(), query([], [], corpus=500)).negatives) == []
    whole = mine(Mixed(depth=4), query(["d1", "d2", "d3", "d4"], [], corpus=6))
    assert sorted(whole.negatives) == ["d0", "d1", "d2", "d3", "d4", "d5"]
    assert whole.dropped == {"repeated": 4}


def sampled(seed: int, name: str = "q1", positives: tuple[str, ...] = ("d0", "d7")) -> Negatives:
    listed = query([f"d{row}" for row in range(300)], list(positives), ("d9",), name=name)
    return mine(Sampled(depth=200, count=20), listed, seed)


def test_twenty_of_the_top_200_are_drawn_as_likely_and_are_no_positives_and_no_copies() -> None:
    drawn = np.zeros(300, int)
    for seed in range(500):
        found = sampled(seed)
        rows = [int(doc_id[1:]) for doc_id in found.negatives]
        drawn[rows] += 1
        assert len(set(rows)) == 20 and found.scores.tolist() == [300 - row for row in rows]
    fit = np.delete(drawn[:200], [0, 7, 9])
    assert drawn[[0, 7, 9]].tolist() == [0, 0, 0] and not drawn[200:].any()
    assert fit.mean() == pytest.approx(500 * 20 / 197)
    assert fit.min() > 20 and fit.max() < 85  # 50.8 on average, with a standard deviation of 6.8
    assert sampled(1).negatives == sampled(1).negatives != sampled(1, "q2").negatives
    assert sampled(1, positives=()).negatives[:5] != sorted(sampled(1, positives=()).negatives[:5])


def test_the_papers_numbers_are_the_defaults() -> None:
    """BM25+Rand takes BM25's top 100, one for one; ANCE draws 20 of the top 200."""
    assert Mixed() == Mixed(depth=100, ratio=1.0) and Sampled() == Sampled(depth=200, count=20)


def joined(**runs: str) -> Candidates:
    hits = {}
    for number, (label, text) in enumerate(runs.items()):
        doc_ids = text.split()
        hits[label] = RankedList(doc_ids, 9 - number / 2 - np.arange(len(doc_ids), dtype=np.float32))
    return Candidates("q", ["p"], hits, [], frozenset({"c"}))


def test_of_each_run_its_share_interleaved_with_its_own_scores() -> None:
    found = mine(Union(count=4, choice="top"), joined(ann="p a b d e", lookahead="f c g h"))
    assert list(found.negatives) == ["a", "f", "b", "g"]
    assert found.scores.tolist() == [8, 8.5, 7, 6.5] and found.scores.dtype == np.float32
    assert found.dropped == {"positive": 1, "duplicate": 1}
    repeated = mine(Union(count=4, choice="top"), joined(ann="a b d", lookahead="b e a f"))  # the later run goes on
    assert list(repeated.negatives) == ["a", "e", "b", "f"] and repeated.dropped == {"repeated": 2}
    short = mine(Union(count=6, choice="top"), joined(ann="a b d e", lookahead="f"))
    assert sorted(short.negatives) == ["a", "b", "d", "f"]
    assert list(mine(Union(count=2, depth=1), joined(ann="p a", lookahead="c b")).negatives) == []


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
        for doc_id in mine(miner, joined(ann="a b d e f x", lookahead="g h"), seed).negatives:
            counts[doc_id] += 1
    assert np.array([counts[name] for name in "abdef"]) == pytest.approx(np.full(5, 800), abs=90)
    assert [counts["g"], counts["h"]] == pytest.approx([1000, 1000], abs=90)


def test_a_run_that_comes_behind_leaves_what_the_others_draw_as_it_was() -> None:
    """So the lists of earlier rounds, named again, give what they gave then."""
    lists = {"ann": " ".join(f"a{row}" for row in range(50)), "lookahead": " ".join(f"l{row}" for row in range(50))}
    before = mine(Union(count=10), joined(**lists))
    after = mine(Union(count=20), joined(**lists, more="m1 m2 m3 m4 m5 m6", most="n1 n2 n3 n4 n5 n6 n7"))
    assert {*before.negatives} < {*after.negatives} and len(after.negatives) == 20


def test_what_is_wrong_with_the_runs_is_told_before_anything_runs() -> None:
    assert list(Union().problems(["a", "b"])) == []
    assert list(Union().problems(["a"])) == ["union needs several runs; add another one, or use miner sampled"]
    (told,) = Union(shares={"a": 1, "x": 1}).problems(["a", "b"])
    assert told == "union: no run x, no share of b; shares must have the labels of the runs, a, b"
    with pytest.raises(PluginError, match="no run x, no share of lookahead"):
        mine(Union(shares={"ann": 1, "x": 1}), joined(ann="a", lookahead="b"))


@pytest.mark.parametrize(
    ("kind", "options", "told"),
    [
        (TopK, {"depth": 0}, "depth must be at least 1"),
        (Window, {"skip": 5, "depth": 5}, "skip must be at least 0 and below depth"),
        (Sampled, {"depth": 0}, "depth and count must be at least 1, not depth 0 and count 20"),
        (Mixed, {"ratio": -1}, "ratio must be a finite number above 0"),
        (Mixed, {"ratio": float("nan")}, "ratio must be a finite number above 0"),
        (Union, {"shares": {"a": 0, "b": -1, "c": 2}}, "shares must be above 0, but a has 0, b has -1"),
    ],
)
def test_options_that_make_no_sense_are_refused(kind: Any, options: dict[str, Any], told: str) -> None:
    with pytest.raises(PluginError, match=told):
        kind(**options)
