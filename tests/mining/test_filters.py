"""Each built-in filter against the kit that authors of plugins use, and by numbers."""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from hardneg.mining.filters.answers import AnswerFilter
from hardneg.mining.filters.judged import JudgedFilter
from hardneg.mining.filters.near_copies import NearCopyFilter
from hardneg.mining.filters.scores import ScoreFilter
from hardneg.records.errors import DataError, PluginError
from hardneg.records.types import Candidates, Document, RankedList
from hardneg.testing import FilterTests


class TestAnswerFilter(FilterTests):
    plugin = AnswerFilter()


class TestScoreFilter(FilterTests):
    plugin = ScoreFilter(rule="pos-percent", threshold=0.9)


class TestNearCopyFilter(FilterTests):
    plugin = NearCopyFilter(0.5, 2)


class TestJudgedFilter(FilterTests):
    def make(self, folder: Path) -> JudgedFilter:
        (folder / "marks.qrels").write_text("q0 0 d3 1\nq1 0 d4 0\n")
        return JudgedFilter(files=(str(folder / "marks.qrels"),))


def ranked(**scores: float) -> RankedList:
    return RankedList(list(scores), np.array(list(scores.values()), np.float32))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"rule": "denoised", "threshold": 0.4}, {"p": "score", "a": "score", "b": "score"}),
        ({"rule": "max-score", "threshold": 0.75}, {"p": "score", "a": "score"}),
        ({"rule": "pos-margin", "threshold": 0.2}, {"p": "score", "a": "score", "b": "score"}),
        ({"rule": "pos-percent", "threshold": 0.95}, {"p": "score", "a": "score"}),
    ],
)
def test_scores_by_each_rule(options: Any, expected: dict[str, str]) -> None:
    """The positive has .8: .8 - .2 is .6, below b's .7; 95 % of it is .76, below a's .78."""
    query = Candidates("q", ["p"], {"run": ranked(p=0.8, a=0.78, b=0.7, c=0.3)}, [])
    texts: Any = None
    assert list(ScoreFilter(**options).reasons([query], texts)) == [expected]


def test_scores_of_the_run_that_is_labelled_so_and_of_no_positive() -> None:
    texts: Any = None
    scored = {"dense": ranked(a=0.9, b=0.8, c=0.7), "scores": ranked(b=0.99, a=0.05)}
    query = Candidates("q", ["p"], scored, [])
    denoised = ScoreFilter(rule="denoised", threshold=0.1)
    assert list(denoised.reasons([query], texts)) == [{"b": "score", "c": "unscored"}]
    unknown = Candidates("q", ["p"], {"dense": ranked(a=0.9)}, [])
    for without, expected in (("drop", {"a": "no scored positive"}), ("keep", {})):
        by: Any = ScoreFilter(rule="pos-margin", threshold=0.1, without_positive=without)  # type: ignore[arg-type]
        assert list(by.reasons([unknown], texts)) == [expected]
    drawn = Candidates("q", ["p"], {"drawn": RankedList(["a"], np.array([np.nan], np.float32))}, [])
    assert list(denoised.reasons([drawn], texts)) == [{}]
    assert denoised.compares is False and by.compares is True


class Documents:
    """A query's positive, and texts that are more and less like it."""

    texts: ClassVar[dict[str, str]] = {
        "p": "The Rhine flows into the North Sea",
        "same": "the RHINE flows into the north sea.",
        "near": "The Rhine flows into the North Sea today",
        "far": "The Danube flows into the Black Sea",
        "short": "Rhine",
    }

    def documents(self, doc_ids: Any) -> list[Document]:
        return [Document(doc_id, self.texts[doc_id]) for doc_id in doc_ids]


def test_near_copies_by_runs_of_words() -> None:
    """The positive has 6 runs of two words; `near` has those and one more, 6/7; `far` has 2 of 6 + 6 - 2, 0.2."""
    texts: Any = Documents()
    query = Candidates("q", ["p"], {"run": ranked(same=5, near=4, far=3, short=2)}, [])
    found = {share: [*next(NearCopyFilter(share, 2).reasons([query], texts))] for share in (1.0, 6 / 7, 0.9, 0.2, 0.21)}
    assert found == {
        1.0: ["same"],
        6 / 7: ["same", "near"],
        0.9: ["same"],
        0.2: ["same", "near", "far"],
        0.21: ["same", "near"],
    }
    nothing_known = Candidates("q", [], {"run": ranked(same=5)}, [])
    assert list(NearCopyFilter().reasons([nothing_known], texts)) == [{}]


def test_judgements_count_by_their_content(tmp_path: Path) -> None:
    one, two = tmp_path / "one.qrels", tmp_path / "two.qrels"
    one.write_text("q0 0 d3 1\n")
    two.write_text("q0 0 d3 1\n")
    assert JudgedFilter(files=(str(one),)).fingerprint() == JudgedFilter(files=(str(two),)).fingerprint()
    two.write_text("q0 0 d4 1\n")
    assert JudgedFilter(files=(str(one),)).fingerprint() != JudgedFilter(files=(str(two),)).fingerprint()
    with pytest.raises(DataError, match=r"judged.files: no file .*none.qrels: name judgements"):
        JudgedFilter(files=(str(tmp_path / "none.qrels"),)).fingerprint()


@pytest.mark.parametrize(
    ("kind", "options", "told"),
    [
        (ScoreFilter, {"rule": "pos-percent", "threshold": 1.5}, "threshold of pos-percent must be above 0"),
        (ScoreFilter, {"rule": "denoised", "threshold": float("nan")}, "threshold must be a number"),
        (NearCopyFilter, {"resemblance": 0.0}, "resemblance must be above 0"),
        (NearCopyFilter, {"words": 0}, "words must be 1 or above"),
        (JudgedFilter, {"files": ()}, "names no file of judgements"),
    ],
)
def test_options_that_make_no_sense(kind: Any, options: dict[str, Any], told: str) -> None:
    with pytest.raises(PluginError, match=told):
        kind(**options)
