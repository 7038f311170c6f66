"""Scores by content."""

import logging
import sqlite3
from itertools import chain
from types import SimpleNamespace

import numpy as np
import pytest

from hardneg.encoders.passes import one_ahead
from hardneg.encoders.protocol import EncodeOptions
from hardneg.rerankers.cross_encoder import CrossEncoder
from hardneg.rerankers.kept_scores import CachedScorer, CachedScores
from hardneg.rerankers.pair_scoring import PairScorer

FP32 = EncodeOptions(precision="fp32")
REQUESTS = [("old river", ["a bridge", "the old river"]), ("none", []), ("river", ["the old river", "a bridge"])]


class Counting:
    """A scorer that notes what it is asked; a pair's score is the length of both texts."""

    network = SimpleNamespace(activated=list)

    def __init__(self):
        self.asked = []

    def logits(self, blocks, advance):
        for query, documents in chain.from_iterable(blocks):
            self.asked += [(query, text) for text in documents]
            yield [float(len(query) + len(text)) for text in documents]


class Ahead(Counting):
    """The same, which has taken the next block when it answers one, and gives a pair another score each time."""

    def logits(self, blocks, advance):
        for block in one_ahead(map(list, blocks)):
            for query, documents in block:
                self.asked += [(query, text) for text in documents]
                yield [len(self.asked) - len(documents) + place + 0.5 for place in range(len(documents))]


def test_known_pairs_are_not_scored_again(tmp_path):
    kept, scorer = CachedScores(tmp_path / "deep" / "scores.sqlite"), Counting()
    expected = [[17.0, 22.0], [], [18.0, 13.0]]
    assert list(CachedScorer(scorer, kept).rerank_blocks([REQUESTS])) == expected
    assert len(scorer.asked) == 4
    more = [*REQUESTS, ("river", ["a", "a bridge"]), ("rive", ["ra bridge"])]
    again = CachedScorer(scorer, CachedScores(tmp_path / "deep" / "scores.sqlite"))
    assert list(again.rerank_blocks([more])) == [*expected, [6.0, 13.0], [13.0]]
    assert scorer.asked[4:] == [("river", "a"), ("rive", "ra bridge")]
    assert list(again.rerank_blocks([])) == []


@pytest.mark.parametrize("damaged", [False, True])
def test_a_pair_that_is_under_way_for_the_block_before_is_not_scored_again(tmp_path, damaged):
    path, scorer = tmp_path / "scores.sqlite", Ahead()
    if damaged:
        path.write_bytes(b"not a database" * 100)
    blocks = [[("q", ["a", "b"])], [("q", ["b", "c"]), ("none", [])], [("q", ["c"])], [("q", ["b", "d", "a"])]]
    found = list(CachedScorer(scorer, CachedScores(path)).rerank_blocks(blocks))
    if damaged:
        assert found == [[0.5, 1.5], [1.5, 2.5], [], [2.5], [3.5, 4.5, 5.5]]
    else:
        assert found == [[0.5, 1.5], [1.5, 2.5], [], [2.5], [1.5, 3.5, 0.5]]
        again = CachedScorer(scorer, CachedScores(path))
        assert list(again.rerank_blocks(blocks)) == found and len(scorer.asked) == 4


def test_no_more_than_one_block_is_taken_ahead(tiny_model, tmp_path):
    network = CrossEncoder(str(tiny_model), length=32).load()
    scorer = CachedScorer(PairScorer.of(network, "cpu", FP32), CachedScores(tmp_path / "scores.sqlite"))
    blocks = [[(f"river {number}", ["a bridge", "old"]), ("none", [])] for number in range(6)]
    whole = list(scorer.rerank_blocks(blocks))
    for known in range(2):  # the second time nothing is left to score
        taken = []
        found = scorer.rerank_blocks(taken.append(1) or block for block in blocks + [[("new", ["a"])]] * (1 - known))
        assert [next(found), next(found)] == whole[:2] and len(taken) == 2
        assert next(found) == whole[2] and len(taken) == 3
        found.close()


def test_scores_come_back_to_the_last_bit(tmp_path):
    kept = CachedScores(tmp_path / "scores.sqlite")
    names = [f"pair{i:06}".encode() for i in range(1200)]
    scores = np.random.default_rng(1).normal(size=1200).astype(np.float32)
    kept.keep(names[:1100], scores[:1100].tolist())
    found = CachedScores(tmp_path / "scores.sqlite").find(names)
    assert np.array_equal(found[:1100], scores[:1100]) and np.isnan(found[1100:]).all()


def test_a_damaged_file_is_told_and_costs_time_only(tmp_path, caplog):
    path = tmp_path / "scores.sqlite"
    path.write_bytes(b"not a database" * 100)
    with caplog.at_level(logging.WARNING):
        scorer = CachedScorer(Counting(), CachedScores(path))
        assert list(scorer.rerank_blocks([REQUESTS])) == [[17.0, 22.0], [], [18.0, 13.0]]
    assert "scores are not kept" in caplog.text and str(path) in caplog.text
    path.unlink()
    kept = CachedScores(path)
    with sqlite3.connect(path) as file:
        file.execute("DROP TABLE scores")
    assert np.isnan(kept.find([b"x"])).all()


def test_a_network_is_known_by_its_content_and_precision(tiny_model, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    network = CrossEncoder(str(tiny_model), length=32).load()
    scorers = [PairScorer.of(network, "cpu", EncodeOptions(precision=name)) for name in ("fp32", "bf16", "fp32")]
    for scorer, content in zip(scorers, ["a", "a", "b"], strict=True):
        CachedScores.of(scorer, content)
    assert len(list((tmp_path / "hardneg" / "scores").iterdir())) == 3


@pytest.mark.parametrize("texts", [("a", "bc", "ab", "c"), ("1\0a", "b", "1", "\0ab")])
def test_a_pair_is_not_another_with_the_same_letters(tmp_path, texts):
    scorer = Counting()
    one, two = (texts[0], [texts[1]]), (texts[2], [texts[3]])
    list(CachedScorer(scorer, CachedScores(tmp_path / "scores.sqlite")).rerank_blocks([[one, two]]))
    list(CachedScorer(scorer, CachedScores(tmp_path / "scores.sqlite")).rerank_blocks([[two, one]]))
    assert len(scorer.asked) == 2
