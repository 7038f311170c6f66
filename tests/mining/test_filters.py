"""Each built-in filter against the kit that authors of plugins use, and by numbers."""

from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from hardneg.datasets.beir import Beir
from hardneg.formats.collection import StoredCollection, write_collection
from hardneg.mining.choosing import Choosing, Filters
from hardneg.mining.filters import AnswerFilter, DocumentsFilter, MiningTexts, NearCopyFilter, ScoreFilter
from hardneg.mining.miners.ranks import TopK
from hardneg.records import Candidates, DataError, Document, PluginError, RankedList
from hardneg.runtime import Silent
from hardneg.testing import FilterTests
from tests.run_lists import ranked


class TestAnswerFilter(FilterTests):
    plugin = AnswerFilter()


class TestScoreFilter(FilterTests):
    plugin = ScoreFilter(rule="pos-percent", threshold=0.9)


class TestNearCopyFilter(FilterTests):
    plugin = NearCopyFilter(0.5, 2)


class TestDocumentsFilter(FilterTests):
    plugin = DocumentsFilter()


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
    two = ["same", "near"]
    assert found == {1.0: ["same"], 6 / 7: two, 0.9: ["same"], 0.2: [*two, "far"], 0.21: two}
    nothing_known = Candidates("q", [], {"run": ranked(same=5)}, [])
    assert list(NearCopyFilter().reasons([nothing_known], texts)) == [{}]


@pytest.fixture
def split_texts(tmp_path: Path) -> MiningTexts:
    """d0 to d4; d0 is relevant to a query of train, d1 to one of dev, d2 is judged 0 for it, d3 for both splits."""
    folder = tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text("".join(f'{{"_id": "d{i}", "text": "text {i}"}}\n' for i in range(5)))
    (folder / "queries.jsonl").write_text("".join(f'{{"_id": "{q}", "text": "{q}"}}\n' for q in ("t", "v")))
    head = "query-id\tcorpus-id\tscore\n"
    (folder / "qrels" / "train.tsv").write_text(f"{head}t\td0\t1\nt\td3\t1\n")
    (folder / "qrels" / "dev.tsv").write_text(f"{head}v\td1\t1\nv\td2\t0\nv\td3\t1\n")
    write_collection(Beir(str(folder)).load(), tmp_path / "stored", Silent())
    return MiningTexts(StoredCollection.open(tmp_path / "stored"), "train")


ALL = Candidates("t", ["d0"], {"run": ranked(d0=5, d1=4, d2=3, d3=2, d4=1)}, [])


def outside(each: DocumentsFilter, texts: MiningTexts) -> set[str]:
    (reasons,) = each.reasons([ALL], texts)
    assert set(reasons.values()) <= {"outside the named documents"}
    return set(reasons)


def test_documents_judged_for_other_splits_go(split_texts: MiningTexts) -> None:
    assert outside(DocumentsFilter(), split_texts) == {"d1", "d2", "d3"}
    assert outside(DocumentsFilter(of="train"), split_texts) == {"d1", "d2", "d3"}
    assert outside(DocumentsFilter(of="dev"), split_texts) == {"d0", "d3"}
    with pytest.raises(DataError, match=r"documents.of: no split 'tran' in this collection; it has"):
        outside(DocumentsFilter(of="tran"), split_texts)


def test_negatives_that_are_positives_of_other_splits_are_counted(split_texts: MiningTexts) -> None:
    """The positives of the query are d0 and d3; d1 is one of dev; with the filter it is not mined."""
    known = {"t": ["d0", "d3"]}
    for plugins, count in (([], 1), ([DocumentsFilter()], 0)):
        facts = Counter[str]()
        choosing = Choosing(
            split_texts.collection.corpus, known, TopK(5), Filters.of(split_texts, plugins, None, known), 1
        )
        (mined,) = choosing.negatives([("t", ALL.hits)], facts)
        assert ("d1" in mined.negatives) == bool(count)
        assert facts["negatives relevant to queries of dev"] == count


@pytest.mark.parametrize(
    ("kind", "options", "told"),
    [
        (ScoreFilter, {"rule": "pos-percent", "threshold": 1.5}, "threshold must be above 0"),
        (ScoreFilter, {"rule": "denoised", "threshold": float("nan")}, "threshold must be a number"),
        (NearCopyFilter, {"resemblance": 0.0}, "resemblance must be above 0"),
        (NearCopyFilter, {"words": 0}, "words must be 1 or above"),
    ],
)
def test_options_that_make_no_sense(kind: Any, options: dict[str, Any], told: str) -> None:
    with pytest.raises(PluginError, match=told):
        kind(**options)
