"""A report about one system: its sentence, gains and queries are that system's, whatever the highest mean is."""

from dataclasses import replace

from hardneg.evaluation.intervals import Interval
from hardneg.evaluation.metrics_json import Measured
from hardneg.evaluation.significance import Comparison
from hardneg.report.content import ReportContent, legend, marks_of
from hardneg.report.page import summary, write_report
from hardneg.report.query_section import ByQuery, Passages, gains_section

RESULTS = {
    "BM25": {"mrr": {"q1": 1.0, "q2": 0.5, "q3": 1.0}},
    "as shipped": {"mrr": {"q1": 0.25, "q2": 0.5, "q3": 0.5}},
    "STAR": {"mrr": {"q1": 1.0, "q2": 0.5, "q3": 0.5}},
}


def test(system: str, baseline: str, difference: float, p: float) -> Comparison:
    interval = Interval(difference - 0.125, difference + 0.125)
    return Comparison(system, baseline, "mrr", difference, interval, 3, p, p, p, p)


test.__test__ = False  # type: ignore[attr-defined]
PAIRS = (("BM25", "as shipped", 0.5, 0.0001), ("STAR", "as shipped", 0.25, 0.0004), ("BM25", "STAR", 0.25, 0.02))
TESTS = [test(*pair) for pair in PAIRS]
MEASURED = Measured(RESULTS, TESTS)


def page(**more: object) -> ReportContent:
    return ReportContent.of("STAR", MEASURED, system="STAR", began="as shipped", over="3 queries", **more)


def test_the_sentence_is_about_the_system():
    assert summary(page()) == (
        "STAR is better than the model it began from, “as shipped” (+0.2500, 95 % interval +0.125 to +0.375, "
        "p < 0.001) and undecided against BM25 (−0.2500, 95 % interval −0.375 to −0.125, p = 0.020), by mrr on "
        "3 queries (p after Holm's correction, level 0.01)."
    )


def test_the_sentence_says_what_is_equivalent_and_how_surely():
    near = replace(test("STAR", "as shipped", 0.001, 0.4), equivalence_p=0.002, equivalence_holm=0.004)
    known = Measured(RESULTS, [near])
    told = summary(ReportContent.of("STAR", known, system="STAR"))
    told_of = "STAR is equivalent to “as shipped” (+0.0010, 95 % interval −0.124 to +0.126, TOST p = 0.004)"
    assert told.startswith(told_of)
    other = summary(ReportContent.of("", known, system="BM25"))
    assert ": equivalent: STAR (+0.0010, 95 % interval −0.124 to +0.126, TOST p = 0.004)." in other


def test_the_level_decides_what_the_sentence_the_marks_and_the_legend_say():
    easy = page(level=0.05)
    assert "is better than the model" in summary(easy) and "worse than BM25 (−0.2500" in summary(easy)
    assert "level 0.05" in summary(easy)
    assert marks_of(page(), "BM25", "mrr") == "▲" and marks_of(easy, "BM25", "mrr") == "▲a▲b"
    assert any("▲b better, ▼b worse than STAR: p < 0.05" in line for line in legend(easy))


def test_gains_and_queries_are_the_systems(tmp_path):
    assert ByQuery.of(MEASURED).pair == ("BM25", "as shipped")
    assert ByQuery.of(MEASURED, "STAR").pair == ("STAR", "as shipped")
    assert ByQuery.of(replace(MEASURED, comparisons=()), "STAR").pair == ("STAR", "BM25")
    section = gains_section(MEASURED, "STAR")
    assert section is not None and section.graphics[0].caption.startswith("STAR minus as shipped")
    paths = write_report(tmp_path, page(), MEASURED, Passages({}))
    assert "mrr, STAR minus as shipped" in paths[0].read_text()
    assert paths[2].read_text().splitlines()[1].startswith("q1\t")


def test_a_system_that_others_were_tested_against_is_told_from_its_side():
    turned = ReportContent.of("BM25", MEASURED, system="BM25", over="3 queries")
    assert summary(turned).startswith("BM25 is better than “as shipped” (+0.5000")
    base = ReportContent.of("start", MEASURED, system="as shipped", over="3 queries")
    assert summary(base).startswith("“as shipped” is worse than BM25 (−0.5000, 95 % interval −0.625 to −0.375")


def test_notes_stand_beside_the_figures(tmp_path):
    note = "STAR: 2 judged queries are not in the run and score 0"
    paths = write_report(tmp_path, page(notes=[note]), MEASURED, Passages({}))
    assert [path.read_text().count(note) for path in paths[:2]] == [1, 2]
