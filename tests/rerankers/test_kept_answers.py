"""What a reranker without a network answered half a minute before a stop is not asked again."""

from itertools import islice

import numpy as np
import pytest

from hardneg.formats.vectors import begun_blocks
from hardneg.formats.vectors.begun_blocks import SECONDS
from hardneg.rerankers.kept_scores import kept_answers

BLOCKS = [("0", [("a", ["x", "yy"]), ("b", []), ("c", ["zzz"])]), ("1", [("d", ["x" * 4, "x" * 5]), ("e", ["x" * 6])])]
SCORES = [[1.0, 2.0], [], [3.0], [4.0, 5.0], [6.0]]


class Lengths:
    """Scores by length; each answer takes so many seconds; stops at a query; reads `ahead` queries at a time."""

    def __init__(self, clock, seconds, stops="", ahead=1):
        self.clock, self.seconds, self.stops, self.ahead, self.asked = clock, seconds, stops, ahead, []

    def rerank(self, requests):
        requests = iter(requests)
        while some := list(islice(requests, self.ahead)):
            for query, documents in some:
                if query == self.stops:
                    raise KeyboardInterrupt
                self.asked.append(query)
                self.clock[0] += self.seconds
                yield [float(len(text)) for text in documents]


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(begun_blocks, "clock", lambda: now[0])
    return now


def stopped(reranker, folder):
    found = []
    with pytest.raises(KeyboardInterrupt):
        found.extend(kept_answers(reranker, BLOCKS, folder))


@pytest.mark.parametrize("ahead", [1, 2, 9])
@pytest.mark.parametrize(("stops", "left"), [("c", "cde"), ("d", "de"), ("e", "e")])
def test_the_queries_that_are_left_are_asked_once(tmp_path, clock, ahead, stops, left):
    stopped(Lengths(clock, SECONDS, stops), tmp_path)
    again = Lengths(clock, SECONDS, ahead=ahead)
    assert [list(scores) for scores in kept_answers(again, BLOCKS, tmp_path)] == SCORES
    assert again.asked == list(left)
    nobody = Lengths(clock, SECONDS)
    assert [list(scores) for scores in kept_answers(nobody, BLOCKS, tmp_path)] == SCORES and nobody.asked == []


def test_no_more_than_half_a_minute_is_lost(tmp_path, clock):
    stopped(Lengths(clock, SECONDS - 1, "c"), tmp_path)
    assert not list(tmp_path.iterdir())
    again = Lengths(clock, 0)
    assert [list(scores) for scores in kept_answers(again, BLOCKS, tmp_path)] == SCORES and again.asked == list("acde")


def test_answers_of_another_length_are_passed_on_and_not_kept(tmp_path, clock):
    class Short(Lengths):
        def rerank(self, requests):
            yield from (scores[:1] for scores in super().rerank(requests))

    found = [list(scores) for scores in kept_answers(Short(clock, SECONDS), BLOCKS, tmp_path)]
    assert found == [[1.0], [], [3.0], [4.0], [6.0]]
    again = Lengths(clock, 0)
    assert [list(scores) for scores in kept_answers(again, BLOCKS, tmp_path)] == SCORES and again.asked == ["a", "d"]


def test_scores_are_those_of_32_bits_both_times(tmp_path, clock):
    class Third(Lengths):
        def rerank(self, requests):
            yield from ([score / 3 for score in scores] for scores in super().rerank(requests))

    first, again = (
        [np.asarray(scores, np.float32).tolist() for scores in kept_answers(Third(clock, SECONDS), BLOCKS, tmp_path)]
        for _ in range(2)
    )
    assert first == again
