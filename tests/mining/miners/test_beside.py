"""Lists that are filled up from the corpus, whatever the miner."""

import numpy as np
import pytest

from hardneg.mining.choosing import beside, filled
from hardneg.mining.miners.ranks import TopK
from hardneg.mining.miners.thresholds import MaxScore
from hardneg.records import Candidates, Negatives, RankedList


def query(name: str = "q", listed: str = "p d1 d2 d3", corpus: int = 12) -> Candidates:
    ranking = RankedList(listed.split(), np.arange(9, 9 - len(listed.split()), -1, dtype=np.float32))
    return Candidates(name, ["p"], {"run": ranking}, ["p", *(f"d{row}" for row in range(1, corpus))], frozenset({"d4"}))


def fill(miner: TopK | MaxScore, count: int, asked: Candidates, seed: int = 0) -> Negatives:
    (found,) = filled(miner, [asked], seed, count)
    return found


def test_what_is_missing_is_drawn_behind_what_was_mined() -> None:
    found = fill(TopK(depth=2), 5, query())
    assert list(found.negatives[:2]) == ["d1", "d2"] and len(set(found.negatives)) == 5
    assert not {"p", "d4"} & {*found.negatives}
    np.testing.assert_array_equal(found.scores, np.array([8, 7, np.nan, np.nan, np.nan], np.float32))
    assert found.noted == ("random negatives",) and found.dropped == {"positive": 1}


def test_a_list_that_is_long_enough_stays_as_it_is() -> None:
    found = fill(TopK(depth=2), 2, query())
    assert list(found.negatives) == ["d1", "d2"] and found.noted == ()


def test_one_that_is_missing_is_drawn() -> None:
    found = fill(TopK(depth=2), 3, query())
    assert len(found.negatives) == 3 and found.noted == ("random negatives",)


def test_a_small_corpus_gives_all_it_has() -> None:
    assert sorted(fill(TopK(), 30, query(corpus=7)).negatives) == ["d1", "d2", "d3", "d5", "d6"]


def test_what_a_filter_records_of_its_drops_still_fits() -> None:
    """Scores 9 to 6; up to 7 is kept: the first documents are dropped, the two others stand at ranks 3 and 4."""
    found = fill(MaxScore(highest=7), 4, query())
    assert list(found.negatives[:2]) == ["d2", "d3"] and found.drops is not None
    assert found.drops.chosen.tolist() == [3, 4, 0, 0] and found.dropped == {"positive": 1, "score": 1}


def test_draws_depend_on_seed_and_query_and_are_uniform() -> None:
    counts = dict.fromkeys([f"d{row}" for row in range(2, 12) if row != 4], 0)
    for number in range(1800):
        for doc_id in fill(TopK(depth=1), 3, query(f"q{number}")).negatives[1:]:
            counts[doc_id] += 1
    assert list(counts.values()) == pytest.approx([400] * 9, abs=80)
    assert list(fill(TopK(), 9, query(), 1).negatives) == list(fill(TopK(), 9, query(), 1).negatives)
    assert list(fill(TopK(), 9, query(), 1).negatives) != list(fill(TopK(), 9, query(), 2).negatives)


def test_no_more_candidates_are_held_than_the_miner_reads_ahead() -> None:
    read: list[str] = []

    def asked():  # type: ignore[no-untyped-def]
        for number in range(100):
            read.append(f"q{number}")
            yield query(f"q{number}")

    pairs = beside(TopK(depth=1), asked(), 0)
    given, found = next(pairs)
    assert given.query_id == found.query_id == "q0" and len(read) == 1
