"""The reading side: queries that are searched; what was left out."""

import pytest
from hardneg_browse.browsed import PAGE, QuerySearch, opened
from hardneg_browse.query_page import Survey, query_page
from hardneg_browse.sources import BrowseSources, of_files
from material import MINED, QUERIES

from hardneg.records import UsageError
from hardneg.runtime import Silent

FIRST, SECOND = list(QUERIES)[:2]
SEARCH = QuerySearch(["Q1", "q2", "x9"], ["Folic ACID", "acid (rain)", "Ärzte"])


@pytest.mark.parametrize(
    ("words", "places"),
    [
        ("", [0, 1, 2]),
        ("acid", [0, 1]),
        ("acid  FOLIC", [0]),
        ("q2", [1]),
        ("(rain", [1]),
        ("ärz", [2]),
        ("acid x9", []),
        ("%", []),
    ],
)
def test_queries_are_found_by_all_words_or_by_id(words, places):
    assert list(SEARCH.page(words, 1).positions) == places


def test_what_is_found_comes_in_pages():
    search = QuerySearch([str(n) for n in range(60)], [f"text {n}" for n in range(60)])
    second = search.page("text", 2)
    assert (second.total, second.pages, list(second.positions)) == (60, 3, list(range(PAGE, 2 * PAGE)))
    assert search.page("text", 99).page == 3 and list(search.page("text", 99).positions) == list(range(50, 60))
    assert search.page("", 0).page == 1


def test_a_query_is_shown_with_all_that_is_known_of_it(browsed):
    page = query_page(browsed, FIRST, "mined", {"far"})
    assert [item.doc_id for item in page.positives] == ["p1"]
    assert [item.doc_id for item in page.negatives] == MINED[FIRST]
    copy, far, other = page.negatives
    assert page.systems == ["dense", "judge"]
    assert copy.standings == ((1, 10.0), (1, 10.0)) and other.standings == (None, None)
    assert (copy.mined_score, far.marked, copy.marked) == (10.0, True, False)
    assert copy.suspected.reasons[0].startswith("shares 69 %") and other.suspected is None
    assert "<mark>folic</mark> <mark>acid</mark>" in copy.text.start


def test_what_a_miner_left_out_is_told_with_its_reason(browsed):
    page = query_page(browsed, FIRST, "mined")
    assert page.candidates == 5
    told = [(item.doc_id, item.rank, item.why, item.score) for item in page.left_out]
    assert told == [("long", 1, "score too high", pytest.approx(0.93)), ("p1", 2, "a known positive", None)]
    assert page.left_out[1].text.startswith("Folic acid folic acid is a vitamin")
    assert query_page(browsed, FIRST, "other").candidates is None


def test_the_survey_goes_over_all_queries(browsed):
    survey = Survey(browsed).run()
    found = survey.lists["mined"]
    assert survey.finished and found.negatives == sum(map(len, MINED.values()))
    worst = found.most_suspicious()[0]
    # 9 of 13 word triples; the judge has it at 1 before 3: 2/3; dense at 1 before 2: 1/2; the mean of both
    assert (worst.query_id, worst.doc_id) == (FIRST, "copy")
    assert worst.score == pytest.approx(9 / 13 + (2 / 3 + 1 / 2) / 2)


def test_without_a_dataset_ids_are_shown(sources):
    alone = BrowseSources("files", sources.marks, negatives=sources.negatives)
    with opened(alone, Silent()) as found:
        assert list(found.search.query_ids) == list(MINED) and found.text(FIRST) == ""
        page = query_page(found, FIRST, "mined")
        assert [item.doc_id for item in page.negatives] == MINED[FIRST] and page.negatives[0].text.length == 0
        assert [item.doc_id for item in page.positives] == ["p1"]


def test_files_are_named_by_what_they_are_called(tmp_path):
    found = of_files([tmp_path / "mined.arrow", tmp_path / "bm25.trec.gz", tmp_path / "b.trec"], "train")
    assert (list(found.negatives), list(found.runs)) == (["mined"], ["bm25", "b"])
    assert found.marks == tmp_path / "mined.marks.qrels"
    with pytest.raises(UsageError, match="bm25: two files have this name"):
        of_files([tmp_path / "bm25.trec", tmp_path / "bm25.trec.gz"], "train")
