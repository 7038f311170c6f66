"""Queries that are searched, dropped candidates, the survey, and the file of marks, which others may write too."""

import pytest
from hardneg_browse.browsed import PAGE, QuerySearch, opened
from hardneg_browse.query_page import Survey, query_page
from hardneg_browse.sources import BrowseSources, Marks, of_files
from material import MINED, QUERIES
from nfs_locks import as_nfs

from hardneg.formats.qrels import read_qrels
from hardneg.records import DataError, UsageError
from hardneg.runtime import Silent

FIRST, SECOND = list(QUERIES)[:2]
SEARCH = QuerySearch(["Q1", "q2", "x9"], ["Folic ACID", "acid (rain)", "Ärzte"])


def test_queries_are_found_by_all_words_or_by_id_in_pages():
    found = {"": [0, 1, 2], "acid": [0, 1], "acid  FOLIC": [0], "q2": [1], "(rain": [1], "ärz": [2]}
    found |= {"acid x9": [], "%": []}
    assert {words: list(SEARCH.page(words, 1).positions) for words in found} == found
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
    assert copy.suspected.reasons[0].startswith("shares 69%") and other.suspected is None
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


def test_marks_are_written_as_trec_has_them_and_taken_away_again(tmp_path, monkeypatch):
    path = tmp_path / "new" / "marks.qrels"
    marks = Marks(path)
    assert marks.all() == [] and not path.exists()
    marks.set("q1", "d/1", True)
    marks.set("q2", "דג", True)
    assert path.read_text() == "q1 0 d/1 1\nq2 0 דג 1\n"
    assert marks.of("q1") == {"d/1"} and marks.of("q3") == frozenset()
    marks.set("q1", "d/1", False)
    marks.set("q1", "never", False)
    assert marks.all() == [("q2", "דג")] and read_qrels(path) == {"q2": {"דג": 1}}
    marks.set("q2", "דג", False)
    assert path.read_text() == "" and Marks(path).all() == []
    assert sorted(found.name for found in path.parent.iterdir()) == [".marks.qrels.lock", "marks.qrels"]
    asked = as_nfs(monkeypatch)
    marks.set("q1", "d1", True)
    assert len(asked) == 1 and path.read_text() == "q1 0 d1 1\n"


def test_what_stands_in_the_file_already_stays(tmp_path):
    path = tmp_path / "marks.qrels"
    path.write_text("q1 0 d1 2\nq1 0 d2 0\n")
    marks = Marks(path)
    path.write_text("q1 0 d1 2\nq1 0 d2 0\nq9 0 d9 1\n")  # another program adds a line
    marks.set("q1", "d1", True)
    marks.set("q1", "d2", True)
    assert path.read_text() == "q1 0 d1 2\nq1 0 d2 1\nq9 0 d9 1\n"
    assert ("q9", "d9") in marks.all()


def test_a_file_of_something_else_is_refused_and_unchanged(tmp_path):
    path = tmp_path / "marks.qrels"
    path.write_text("dear diary\n")
    with pytest.raises(DataError, match=r"marks\.qrels:1: expected 4 columns"):
        Marks(path)
    dataset = tmp_path / "train.tsv"
    dataset.write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    with pytest.raises(UsageError, match=r"train\.tsv: is in BEIR format"):
        Marks(dataset)
    assert dataset.read_text().startswith("query-id")
    path.write_text("q1 0 d1 1\n")
    marks = Marks(path)
    path.write_text("dear diary\n")
    with pytest.raises(DataError):
        marks.set("q1", "d2", True)
    assert path.read_text() == "dear diary\n"
