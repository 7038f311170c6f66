"""Candidates and negatives without what a filter has something against."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hardneg.formats.answer_matching import PassageAnswers
from hardneg.formats.corpus import Corpus, write_corpus
from hardneg.mining.choosing import Filters
from hardneg.mining.filters import AnswerFilter
from hardneg.records import Candidates, Document, Negatives, PluginError, RankedList
from hardneg.runtime import Silent

TEXTS = {"a": "the river Rhine", "b": "a lake", "c": "the Rhine again", "d": "a river", "e": "nothing"}


@pytest.fixture
def answers(tmp_path: Path) -> PassageAnswers:
    write_corpus((Document(doc_id, text) for doc_id, text in TEXTS.items()), tmp_path, Silent())
    return PassageAnswers(Corpus.open(tmp_path), {"q1": ("Rhine",), "q2": ("river", "lake")})


class Texts:
    """Only answers are asked for."""

    def __init__(self, answers: PassageAnswers) -> None:
        self.answers = lambda match: answers


def without_answers(given: Any, answers: PassageAnswers, dropped: Counter[str]) -> Any:
    texts: Any = Texts(answers)
    return Filters([AnswerFilter()], texts).left(given, dropped)


def ranked(doc_ids: str) -> RankedList:
    return RankedList(list(doc_ids), np.arange(len(doc_ids), 0, -1, dtype=np.float32))


def query(query_id: str, positives: Sequence[str] = (), **hits: str) -> Candidates:
    return Candidates(query_id, positives, {name: ranked(ids) for name, ids in hits.items()}, list(TEXTS))


def test_lists_lose_what_has_an_answer_and_keep_positives_and_scores(answers: PassageAnswers) -> None:
    dropped: Counter[str] = Counter()
    given = [query("q1", ["a"], dense="abcde", bm25="ce"), query("q2", dense="ab"), query("q3", bm25="abc")]
    found = list(without_answers(given, answers, dropped))
    lists = [{name: "".join(hits.doc_ids) for name, hits in one.hits.items()} for one in found]
    assert lists == [{"dense": "abde", "bm25": "e"}, {"dense": ""}, {"bm25": "abc"}]
    assert found[0].ranking.scores.tolist() == [5.0, 4.0, 2.0, 1.0]
    assert [one.query_id for one in found] == ["q1", "q2", "q3"] and dropped == {"answer": 4}


def test_more_queries_than_are_looked_at_together(answers: PassageAnswers) -> None:
    dropped: Counter[str] = Counter()
    found = without_answers((query("q1", dense="cb") for _ in range(600)), answers, dropped)
    assert [list(one.ranking.doc_ids) for one in found] == [["b"]] * 600 and dropped == {"answer": 600}


def test_what_was_drawn_elsewhere_is_looked_at(answers: PassageAnswers) -> None:
    mined = [
        Negatives("q1", ["a"], ["c", "e", "b"], np.array([np.nan, np.nan, 1.0], np.float32), {"positive": 2}),
        Negatives("q2", ["e"], ["a"], np.array([3.0], np.float32)),  # from a list, which was looked at before
        Negatives("q3", [], [], np.empty(0, np.float32)),
    ]
    texts: Any = Texts(answers)
    first, second, third = Filters([AnswerFilter()], texts).left_of_drawn(mined)
    assert first.negatives == ["e", "b"] and first.dropped == {"positive": 2, "answer": 1}
    np.testing.assert_array_equal(first.scores, np.array([np.nan, 1.0], np.float32))
    assert (second, third) == (mined[1], mined[2])


@dataclass(frozen=True)
class Says:
    """Says the same of every query, as often as it is told."""

    against: dict[str, str]
    answers: int = 1

    def reasons(self, candidates: Any, texts: Any) -> Any:
        for _ in candidates:
            yield from [self.against] * self.answers


def test_filters_go_one_after_the_other_and_leave_positives() -> None:
    dropped: Counter[str] = Counter()
    filters: Any = [Says({"a": "one", "b": "one"}), Says({"b": "two", "c": "two", "z": "two"})]
    texts: Any = Texts
    (found,) = Filters(filters, texts).left([query("q1", ["a"], dense="abcde", bm25="cb")], dropped)
    lists = {name: "".join(hits.doc_ids) for name, hits in found.hits.items()}
    assert lists == {"dense": "ade", "bm25": ""} and dropped == {"one": 2, "two": 2}


@pytest.mark.parametrize(("answers", "told"), [(0, "fewer"), (2, "more")])
def test_a_filter_that_does_not_answer_for_each_query_is_told(answers: int, told: str) -> None:
    """And no query is lost in silence."""
    filters, texts = [Says({}, answers)], Texts
    with pytest.raises(PluginError, match=f"returned {told} results than queries"):
        list(Filters(filters, texts).left([query("q1", dense="ab")], Counter()))  # type: ignore[arg-type]
