"""Miners on ten-line lists, and what must hold for all of them."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardneg.mining.miners.ranks import Mixed, Random, TopK, Window
from hardneg.mining.miners.thresholds import Denoised, PosMargin
from hardneg.protocols import NegativeMiner
from hardneg.records import Candidates, Negatives, PluginError, RankedList

MINERS: list[NegativeMiner] = [TopK(depth=3), TopK(depth=50), Window(skip=2, depth=6), Random(count=3)]
MINERS += [Random(count=50), Mixed(depth=3), Mixed(depth=50, ratio=2.5)]
MINERS += [Denoised(below=9.5, depth=8, fill="random"), PosMargin(margin=1.5, order="random", without_positive="keep")]


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


def test_copies_stay_where_that_is_asked_for() -> None:
    found = mine(TopK(depth=2, exclude_copies=False), query(["d1", "d2", "d3"], ["d1"], ("d3",)))
    assert list(found.negatives) == ["d2", "d3"]


def test_a_document_listed_twice_is_taken_once() -> None:
    found = mine(TopK(), query(["d1", "d2", "d1"], []))
    assert list(found.negatives) == ["d1", "d2"]
    assert found.dropped == {"repeated": 1}


def test_window_of_cort_is_ranks_8_to_100_of_the_list_as_retrieved() -> None:
    ranking = [f"d{rank}" for rank in range(1, 121)]
    found = mine(Window(skip=7, depth=100), query(ranking, []))
    assert list(found.negatives) == ranking[7:100]
    assert len(found.negatives) == 93
    relevant = mine(Window(skip=7, depth=100), query(ranking, ["d1", "d50"]))
    assert relevant.negatives[0] == "d8"
    assert len(relevant.negatives) == 92
    assert relevant.dropped == {"skipped": 7, "positive": 1}


def test_short_and_missing_lists_give_what_there_is() -> None:
    assert list(mine(TopK(), query(["d1"], ["d1"])).negatives) == []
    assert list(mine(Window(skip=7, depth=9), query(["d1", "d2"], [])).negatives) == []
    empty = Candidates("q", [], {}, [])
    for miner in MINERS:
        found = mine(miner, empty)
        assert list(found.negatives) == []
        assert found.scores.shape == (0,)


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


def test_mixed_alternates_between_the_top_and_the_corpus() -> None:
    found = mine(Mixed(depth=3), query(["d1", "d2", "d3", "d4", "d5"], ["d1"], ("d3",), corpus=9))
    assert list(found.negatives[::2]) == ["d2", "d4", "d5"]
    assert found.scores[::2].tolist() == [4, 2, 1]
    assert set(found.negatives[1::2]) <= {"d0", "d6", "d7", "d8"}
    assert np.isnan(found.scores[1::2]).all()
    assert found.dropped["positive"] >= 1 and found.dropped["duplicate"] >= 1


def test_mixed_keeps_its_ratio_where_the_list_is_short() -> None:
    found = mine(Mixed(depth=100, ratio=2), query(["d1", "d2"], [], corpus=500))
    assert [doc_id in ("d1", "d2") for doc_id in found.negatives] == [False, True, False, False, True, False]
    assert list(mine(Mixed(), query([], [], corpus=500)).negatives) == []


def test_a_document_of_the_top_is_not_drawn_again() -> None:
    found = mine(Mixed(depth=4), query(["d1", "d2", "d3", "d4"], [], corpus=6))
    assert sorted(found.negatives) == ["d0", "d1", "d2", "d3", "d4", "d5"]
    assert found.dropped == {"repeated": 4}


def test_mining_streams() -> None:
    def endless() -> Iterator[Candidates]:
        while True:
            yield query(["d1"], [])

    for miner in MINERS:
        stream = miner.mine(endless(), seed=0)
        assert next(stream).query_id == next(stream).query_id == "q1"


ids = st.integers(0, 30).map(lambda row: f"d{row}")


@st.composite
def queries(draw: st.DrawFn) -> list[Candidates]:
    return [
        query(
            draw(st.lists(ids, unique=True, max_size=20)),
            draw(st.lists(ids, unique=True, max_size=4)),
            tuple(draw(st.lists(ids, unique=True, max_size=4))),
            corpus=draw(st.sampled_from([31, 500])),
            name=f"q{number}",
        )
        for number in range(draw(st.integers(1, 4)))
    ]


@settings(max_examples=50)
@given(candidates=queries(), which=st.integers(0, len(MINERS) - 1), seed=st.integers(0, 3))
def test_what_every_miner_owes(candidates: list[Candidates], which: int, seed: int) -> None:
    miner = MINERS[which]
    together = list(miner.mine(candidates, seed=seed))
    turned = list(miner.mine(candidates[::-1], seed=seed))[::-1]
    assert [found.query_id for found in together] == [asked.query_id for asked in candidates]
    for asked, found, other in zip(candidates, together, turned, strict=True):
        assert list(found.negatives) == list(other.negatives) == list(mine(miner, asked, seed).negatives)
        assert not set(found.negatives) & (set(asked.positives) | asked.duplicates)
        assert len(set(found.negatives)) == len(found.negatives) == len(found.scores)


def test_another_seed_draws_another_sample() -> None:
    asked = query([], [], corpus=1000)
    assert list(mine(Random(count=5), asked, 1).negatives) != list(mine(Random(count=5), asked, 2).negatives)


def test_options_that_make_no_sense_are_refused() -> None:
    with pytest.raises(PluginError, match="depth must be 1 or above"):
        TopK(depth=0)
    with pytest.raises(PluginError, match="need 0 <= skip < depth"):
        Window(skip=5, depth=5)
    with pytest.raises(PluginError, match="count must be 1 or above"):
        Random(count=0)
    with pytest.raises(PluginError, match="depth must be 1 or above"):
        Mixed(depth=0)
    for ratio in (0, -1, float("inf"), float("nan")):
        with pytest.raises(PluginError, match="ratio must be a number above 0"):
            Mixed(ratio=ratio)
