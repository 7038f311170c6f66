"""A reranker of hardneg scores what it is given, and orders it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
import pytest
from hardneg_pyterrier import Reranker, transformers

from hardneg.records import PluginError, PluginSetting


@dataclass(frozen=True)
class _Lengths:
    """Prefers long documents: its score is their number of words, for each word of the query."""

    version: ClassVar[int] = 1

    def rerank(self, requests: Iterable[tuple[str, Sequence[str]]]) -> Iterator[Sequence[float]]:
        for query, texts in requests:
            yield [float(len(query.split()) * len(text.split())) for text in texts]


@pytest.fixture
def lengths(monkeypatch: pytest.MonkeyPatch) -> Reranker:
    def configured(kind: str, setting: PluginSetting) -> _Lengths:
        assert (kind, setting.name) == ("rerankers", "lengths")
        return _Lengths()

    monkeypatch.setattr(transformers.hp, "configure", configured, raising=False)
    return Reranker("lengths")


def test_documents_are_ordered_by_the_new_scores(lengths: Reranker):
    rows = [["1", "a b", "d1", "x", 9.0, 0], ["2", "c", "d1", "x", 5.0, 0], ["1", "a b", "d2", "x y z", 8.0, 1]]
    frame = pd.DataFrame(rows, columns=["qid", "query", "docno", "text", "score", "rank"])
    found = lengths(frame)
    assert found[["qid", "docno", "score", "rank"]].to_numpy().tolist() == [
        ["1", "d2", 6.0, 0],
        ["1", "d1", 2.0, 1],
        ["2", "d1", 1.0, 0],
    ]
    assert found.columns.tolist() == frame.columns.tolist()


def test_ties_stay_in_their_order_and_nothing_stays_nothing(lengths: Reranker):
    rows = [["1", "a", "d2", "x"], ["1", "a", "d1", "y"]]
    frame = pd.DataFrame(rows, columns=["qid", "query", "docno", "text"]).assign(score=0.0, rank=0)
    assert lengths(frame)["docno"].tolist() == ["d2", "d1"]
    assert not len(lengths(frame.head(0)))


def test_an_unknown_reranker_is_told():
    with pytest.raises(PluginError, match="no-such"):
        Reranker("no-such")


@pytest.mark.slow
def test_a_cross_encoder_gives_its_own_scores(tmp_path_factory: pytest.TempPathFactory):
    from tiny import tiny_reranker

    folder = tiny_reranker(tmp_path_factory.mktemp("cross") / "model")
    made = Reranker.from_folder(folder, activation="none")
    texts = ["old river", "blue engine near the bridge", "garden"]
    frame = pd.DataFrame({"qid": "1", "query": "blue bridge", "docno": ["a", "b", "c"], "text": texts, "score": 0.0})
    found = made(frame)
    own = dict(zip("abc", next(iter(made.plugin.rerank([("blue bridge", texts)]))), strict=True))
    assert found["docno"].tolist() == sorted(own, key=lambda name: -own[name])
    assert found["score"].tolist() == [float(own[name]) for name in found["docno"]]
