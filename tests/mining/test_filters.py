"""Each built-in filter against the kit that authors of plugins use, and by numbers; what filters leave of lists."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from hardneg.datasets.beir import Beir
from hardneg.formats.collection import StoredCollection, write_collection
from hardneg.formats.corpus import Corpus, write_corpus
from hardneg.formats.texts import PassageAnswers
from hardneg.mining.choosing import Choosing, filled
from hardneg.mining.filters import (
    AnswerFilter,
    DocumentsFilter,
    Filters,
    MiningTexts,
    NearCopyFilter,
    ScoreFilter,
    paired,
)
from hardneg.mining.ranks import TopK
from hardneg.mining.thresholds import MaxScore
from hardneg.records import Candidates, DataError, Document, Negatives, PluginError, RankedList
from hardneg.runtime import Silent
from hardneg.testing import FilterTests
from tests.run_lists import falling, ranked


class TestEvery(FilterTests):
    @pytest.fixture(
        autouse=True,
        ids=lambda param: type(param).__name__,
        params=[
            AnswerFilter(),
            ScoreFilter(rule="pos-percent", threshold=0.9),
            NearCopyFilter(0.5, 2),
            DocumentsFilter(),
        ],
    )
    def _each(self, request: pytest.FixtureRequest) -> None:
        self.plugin = request.param


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
    with pytest.raises(DataError, match=r"documents.of: no split 'tran'; available"):
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
        (ScoreFilter, {"rule": "denoised", "threshold": float("nan")}, "threshold must be a finite number"),
        (NearCopyFilter, {"resemblance": 0.0}, "resemblance must be above 0"),
        (NearCopyFilter, {"words": 0}, "words must be at least 1"),
    ],
)
def test_options_that_make_no_sense(kind: Any, options: dict[str, Any], told: str) -> None:
    with pytest.raises(PluginError, match=told):
        kind(**options)


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
    return Filters([AnswerFilter()], texts).apply(given, dropped)


def query(query_id: str, positives: Sequence[str] = (), **hits: str) -> Candidates:
    return Candidates(query_id, positives, falling(hits), list(TEXTS))


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
    first, second, third = Filters([AnswerFilter()], texts).apply_to_drawn(mined)
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
    (found,) = Filters(filters, texts).apply([query("q1", ["a"], dense="abcde", bm25="cb")], dropped)
    lists = {name: "".join(hits.doc_ids) for name, hits in found.hits.items()}
    assert lists == {"dense": "ade", "bm25": ""} and dropped == {"one": 2, "two": 2}


@pytest.mark.parametrize(("answers", "told"), [(0, "fewer"), (2, "more")])
def test_a_filter_that_does_not_answer_for_each_query_is_told(answers: int, told: str) -> None:
    """And no query is lost in silence."""
    filters, texts = [Says({}, answers)], Texts
    with pytest.raises(PluginError, match=f"returned {told} results than queries"):
        list(Filters(filters, texts).apply([query("q1", dense="ab")], Counter()))  # type: ignore[arg-type]


def corpus_query(name: str = "q", listed: str = "p d1 d2 d3", corpus: int = 12) -> Candidates:
    ranking = RankedList(listed.split(), np.arange(9, 9 - len(listed.split()), -1, dtype=np.float32))
    return Candidates(name, ["p"], {"run": ranking}, ["p", *(f"d{row}" for row in range(1, corpus))], frozenset({"d4"}))


def fill(miner: TopK | MaxScore, count: int, asked: Candidates, seed: int = 0) -> Negatives:
    (found,) = filled(miner, [asked], seed, count)
    return found


def test_what_is_missing_is_drawn_behind_what_was_mined() -> None:
    found = fill(TopK(depth=2), 5, corpus_query())
    assert list(found.negatives[:2]) == ["d1", "d2"] and len(set(found.negatives)) == 5
    assert not {"p", "d4"} & {*found.negatives}
    np.testing.assert_array_equal(found.scores, np.array([8, 7, np.nan, np.nan, np.nan], np.float32))
    assert found.noted == ("random negatives",) and found.dropped == {"positive": 1}


def test_a_list_that_is_long_enough_stays_as_it_is() -> None:
    found = fill(TopK(depth=2), 2, corpus_query())
    assert list(found.negatives) == ["d1", "d2"] and found.noted == ()


def test_a_small_corpus_gives_all_it_has() -> None:
    assert sorted(fill(TopK(), 30, corpus_query(corpus=7)).negatives) == ["d1", "d2", "d3", "d5", "d6"]


def test_what_a_filter_records_of_its_drops_still_fits() -> None:
    """Scores 9 to 6; up to 7 is kept: the first documents are dropped, the two others stand at ranks 3 and 4."""
    found = fill(MaxScore(highest=7), 4, corpus_query())
    assert list(found.negatives[:2]) == ["d2", "d3"] and found.drops is not None
    assert found.drops.chosen.tolist() == [3, 4, 0, 0] and found.dropped == {"positive": 1, "score": 1}


def test_draws_depend_on_seed_and_query_and_are_uniform() -> None:
    counts = dict.fromkeys([f"d{row}" for row in range(2, 12) if row != 4], 0)
    for number in range(1800):
        for doc_id in fill(TopK(depth=1), 3, corpus_query(f"q{number}")).negatives[1:]:
            counts[doc_id] += 1
    assert list(counts.values()) == pytest.approx([400] * 9, abs=80)
    assert list(fill(TopK(), 9, corpus_query(), 1).negatives) == list(fill(TopK(), 9, corpus_query(), 1).negatives)
    assert list(fill(TopK(), 9, corpus_query(), 1).negatives) != list(fill(TopK(), 9, corpus_query(), 2).negatives)


def test_no_more_candidates_are_held_than_the_miner_reads_ahead() -> None:
    read: list[str] = []

    def asked():  # type: ignore[no-untyped-def]
        for number in range(100):
            read.append(f"q{number}")
            yield corpus_query(f"q{number}")

    pairs = paired(asked(), lambda queries: TopK(depth=1).mine(queries, seed=0))
    given, found = next(pairs)
    assert given.query_id == found.query_id == "q0" and len(read) == 1
