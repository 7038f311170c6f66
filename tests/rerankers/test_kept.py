"""Scores by content."""

import logging
import sqlite3

import numpy as np
import pytest

from hardneg.rerankers.cross_encoder import CrossEncoder
from hardneg.rerankers.kept import KeptScorer, KeptScores
from hardneg.rerankers.scoring import PairScorer, ScoreOptions

REQUESTS = [("old river", ["a bridge", "the old river"]), ("none", []), ("river", ["the old river", "a bridge"])]


class Counting:
    """A scorer that notes what it is asked; a pair's score is the length of both texts."""

    def __init__(self):
        self.asked = []

    def rerank(self, requests, advance):
        for query, documents in requests:
            self.asked += [(query, text) for text in documents]
            yield [float(len(query) + len(text)) for text in documents]


def test_known_pairs_are_not_scored_again(tmp_path):
    kept, scorer = KeptScores(tmp_path / "deep" / "scores.sqlite"), Counting()
    expected = [[17.0, 22.0], [], [18.0, 13.0]]
    assert list(KeptScorer(scorer, kept).rerank(REQUESTS)) == expected
    assert len(scorer.asked) == 4
    more = [*REQUESTS, ("river", ["a", "a bridge"]), ("rive", ["ra bridge"])]
    again = KeptScorer(scorer, KeptScores(tmp_path / "deep" / "scores.sqlite"))
    assert list(again.rerank(more)) == [*expected, [6.0, 13.0], [13.0]]
    assert scorer.asked[4:] == [("river", "a"), ("rive", "ra bridge")]
    assert list(again.rerank([])) == []


def test_scores_come_back_to_the_last_bit(tmp_path):
    kept = KeptScores(tmp_path / "scores.sqlite")
    names = [f"pair{i:06}".encode() for i in range(1200)]
    scores = np.random.default_rng(1).normal(size=1200).astype(np.float32)
    kept.keep(names[:1100], scores[:1100].tolist())
    found = KeptScores(tmp_path / "scores.sqlite").find(names)
    assert np.array_equal(found[:1100], scores[:1100]) and np.isnan(found[1100:]).all()


def test_a_damaged_file_is_told_and_costs_time_only(tmp_path, caplog):
    path = tmp_path / "scores.sqlite"
    path.write_bytes(b"not a database" * 100)
    with caplog.at_level(logging.WARNING):
        scorer = KeptScorer(Counting(), KeptScores(path))
        assert list(scorer.rerank(REQUESTS)) == [[17.0, 22.0], [], [18.0, 13.0]]
    assert "scores are not kept" in caplog.text and str(path) in caplog.text
    path.unlink()
    kept = KeptScores(path)
    with sqlite3.connect(path) as file:
        file.execute("DROP TABLE scores")
    assert np.isnan(kept.find([b"x"])).all()


def test_a_network_is_known_by_its_content_and_precision(tiny_model, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    network = CrossEncoder(str(tiny_model), length=32).load()
    scorers = [PairScorer.of(network, "cpu", ScoreOptions(precision=name)) for name in ("fp32", "bf16", "fp32")]
    for scorer, content in zip(scorers, ["a", "a", "b"], strict=True):
        KeptScores.of(scorer, content)
    assert len(list((tmp_path / "hardneg" / "scores").iterdir())) == 3


@pytest.mark.parametrize("texts", [("a", "bc", "ab", "c"), ("1\0a", "b", "1", "\0ab")])
def test_a_pair_is_not_another_with_the_same_letters(tmp_path, texts):
    scorer = Counting()
    one, two = (texts[0], [texts[1]]), (texts[2], [texts[3]])
    list(KeptScorer(scorer, KeptScores(tmp_path / "scores.sqlite")).rerank([one, two]))
    list(KeptScorer(scorer, KeptScores(tmp_path / "scores.sqlite")).rerank([two, one]))
    assert len(scorer.asked) == 2
