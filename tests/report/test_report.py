import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from markupsafe import escape

from hardneg.evaluation.intervals import Interval
from hardneg.evaluation.metrics_json import Measured
from hardneg.evaluation.significance import Comparison
from hardneg.report.content import (
    MeanScore,
    RecipeRun,
    ReportContent,
    estimates,
    legend,
    marks_of,
    next_steps,
    tests_by_metric as query_tables,
    tests_section as section_of_tests,
)
from hardneg.report.figure import learning_graphics, measurements
from hardneg.report.page import html, latex, markdown, summary, write_report
from hardneg.report.query_section import ByQuery, Passages, gains_section
from hardneg.report.table import Cell

HISTORY = [
    {"step": 1, "loss": 2.0, "lr": 1e-5},
    {"step": 2, "loss": 1.0, "dev": {"ndcg@10": 0.4, "seconds": 3}},
    {"step": 3, "loss": float("nan")},
    {"step": 4, "loss": 1.5, "dev_ndcg@10": 0.3},
]


def comparison(system: str, baseline: str, p: float) -> Comparison:
    return Comparison(system, baseline, "ndcg@10", 0.1, Interval(-0.05, 0.25), 43, p, p, p, p)


def report(**changes: object) -> ReportContent:
    systems = {"bm25": {"ndcg@10": MeanScore(0.5, Interval(0.4, 0.6)), "mrr": MeanScore(0.7)}}
    systems["dense"] = {"ndcg@10": MeanScore(0.6, Interval(0.5, 0.7))}
    fields: dict[str, object] = {
        "title": "Two systems",
        "systems": systems,
        "queries": 43,
        "comparisons": [comparison("dense", "bm25", 0.002)],
        "histories": {"dense": HISTORY},
        "settings": {"learning rate": 1e-5, "loss": "star"},
        "notes": ["2 queries have no ranking."],
    }
    return ReportContent(**(fields | changes))  # type: ignore[arg-type]


def test_measurements() -> None:
    assert measurements(HISTORY) == {"loss": [(1, 2.0), (2, 1.0), (4, 1.5)], "ndcg@10": [(2, 0.4), (4, 0.3)]}


def test_intervals_end_where_metrics_do() -> None:
    found = estimates({"hit_rate@1": {"q1": 1.0, "q2": 1.0, "q3": 0.9}, "mrr": {"q1": 0.0, "q2": 0.0, "q3": 0.1}})
    high, low = found["hit_rate@1"].interval, found["mrr"].interval
    assert high is not None and low is not None
    assert high.high == 1.0 and high.low == pytest.approx(29 / 30 - 4.302653 * 0.1 / 3, abs=1e-6)
    assert low.low == 0.0 and low.high == pytest.approx(1 / 30 + 4.302653 * 0.1 / 3, abs=1e-6)
    wide = Comparison("dense", "bm25", "mrr", 0.6, Interval(-0.1, 1.3), 2, 0.1, 0.1, 0.1, 0.1)
    assert query_tables(report(comparisons=[wide]))[0].rows[0][3].text == "[−0.100, +1.000]"  # type: ignore[union-attr]
    assert "clipped to [0, 1]" in legend(report())[-2]


def test_a_narrow_table_has_the_corrected_p_values() -> None:
    test = Comparison("dense", "bm25", "mrr", 0.1, Interval(-0.05, 0.25), 43, 0.001, 0.002, 0.003, 0.004, 0, 0.5, 0.6)
    page = report(comparisons=[test])
    wide, (narrow,) = section_of_tests(page).tables[0], query_tables(page)
    first, second = (
        [(cell.text, cell.note) for cell in row if isinstance(cell, Cell)] for row in (wide.rows[0], narrow.rows[0])
    )
    numbers = {"+0.1000": "[−0.050, +0.250]", "0.001": "Holm 0.002", "0.003": "Holm 0.004", "0.500": "Holm 0.600"}
    assert first == [(word, "") for word in ("mrr", "dense", "bm25", "better")] + [*numbers.items()]
    assert [text for text, _ in second] == ["dense − bm25", "better", "+0.1000", "[−0.050, +0.250]", "0.002", "0.004"]


def test_markdown_reads_as_a_paper() -> None:
    text = markdown(report())
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    assert headings == ["Two systems", "Effectiveness", "Paired tests", "Training", "How it was made"]
    assert r"| bm25 | 0.5000 \[0.400, 0.600\] | 0.7000 |" in text
    assert r"| dense | **0.6000**▲ \[0.500, 0.700\] | – |" in text
    assert "▲ better, ▼ worse than bm25: p \\< 0.01 in both paired tests" in text
    assert "| dense | loss | 2.0000 | 1.5000 | 1.0000 | 2 |" in text
    assert "| dense | ndcg@10 | 0.4000 | 0.3000 | 0.4000 | 2 |" in text
    assert "| learning rate | 1e-05 |" in text


def test_one_sentence_tells_what_was_compared_on_what_and_what_holds() -> None:
    assert summary(report()) == (
        "Against the baseline bm25, by ndcg@10 on 43 queries (p after Holm's correction, level 0.01): "
        "better: dense (+0.1000, 95% interval −0.050 to +0.250, p = 0.002)."
    )
    chance = summary(report(comparisons=[comparison("dense", "bm25", 0.2)], over="43 queries of split test"))
    assert "on 43 queries of split test" in chance
    assert chance.endswith(": undecided: dense (+0.1000, 95% interval −0.050 to +0.250, p = 0.200).")
    assert summary(report(comparisons=[])).endswith("0.500 to 0.700). No difference was tested.")
    alone = report(systems={"bm25": {"mrr": MeanScore(0.25)}}, comparisons=[])
    assert summary(alone) == "bm25 reaches mrr 0.2500 on 43 queries."


def test_of_many_systems_four_of_an_outcome_are_named() -> None:
    names = ["as shipped", "a", "b", "c", "d", "e", "f", "g"]
    systems = {name: {"ndcg@10": MeanScore(0.5)} for name in names}
    p_values = dict(zip(names[1:], (0.0001, 0.002, 0.003, 0.004, 0.005, 0.3, 0.5), strict=True))
    tests = [
        Comparison(name, "as shipped", "ndcg@10", 0.1 + place / 100, None, 43, p, p, p, p / 2)
        for place, (name, p) in enumerate(p_values.items())
    ]
    assert summary(report(systems=systems, comparisons=tests)).endswith(
        ": better: e (+0.1400, p = 0.005), d (+0.1300, p = 0.004), c (+0.1200, p = 0.003), b (+0.1100, p = 0.002) "
        "and 1 more; undecided: g (+0.1600, p = 0.500) and f (+0.1500, p = 0.300)."
    )


def test_each_baseline_has_its_sign() -> None:
    pair = [comparison("dense", "bm25", 0.001), comparison("dense", "other", 0.001)]
    assert "**0.6000**▲a▲b" in markdown(report(comparisons=pair))
    assert any(line.startswith("▲b better, ▼b worse than other: ") for line in legend(report(comparisons=pair)))
    none = report(comparisons=[comparison("dense", "bm25", 0.01)])
    assert "▲" not in markdown(none)
    assert "No difference has p < 0.01 in both paired tests after Holm's correction." in legend(none)


def test_a_mark_is_for_who_beats_all_that_it_names() -> None:
    systems = {name: {"ndcg@10": MeanScore(0.5)} for name in ("a", "b", "c", "d")}
    worse = Comparison("a", "d", "ndcg@10", -0.1, None, 43, 0.001, 0.001, 0.001, 0.001)
    tests = [comparison("c", "a", 0.002), comparison("c", "b", 0.002), comparison("d", "b", 0.2), worse]
    marked = report(systems=systems, comparisons=tests, marks={"*": ["a", "b"], "‡": ["a"]})
    assert [marks_of(marked, name, "ndcg@10") for name in systems] == ["", "", "*‡", "‡"]
    assert legend(marked)[:2] == [
        "* better than each of a, b: p < 0.01 in both paired tests after Holm's correction.",
        "‡ better than a: p < 0.01 in both paired tests after Holm's correction.",
    ]


def test_page_is_self_contained_and_well_formed() -> None:
    page = html(report())
    assert not re.search(r"<script|<link|@import|url\(['\"]?(?!#)", page)
    assert "<img" not in page and page.count('<svg class="drawn"') == 4
    assert set(re.findall(r"https?://[^\s\"'<>]+", page)) <= {
        "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink",
    }  # fmt: skip
    body = page[page.index("<main>") : page.index("</body>")]
    ElementTree.fromstring(body)
    assert html(report()) == page


def test_latex_is_a_table_of_booktabs() -> None:
    systems = {r"a_b & 50% \x": {"ndcg@10": MeanScore(0.5)}, "dense": {"ndcg@10": MeanScore(0.6)}}
    tests = [comparison("dense", r"a_b & 50% \x", 0.001)]
    assert latex(report(title="A & B", systems=systems, comparisons=tests)) == (
        r"""\begin{table}
\centering
\caption{A \& B. Means over 43 queries. $\uparrow$ better, $\downarrow$ worse than a\_b \& 50\% \textbackslash{}x: """
        r"""p \textless{} 0.01 in both paired tests after Holm's correction. Bold: the highest mean.}
\label{tab:a-b}
\begin{tabular}{lr}
\toprule
system & ndcg@10 \\
\midrule
a\_b \& 50\% \textbackslash{}x & 0.5000 \\
dense & \textbf{0.6000}\textsuperscript{$\uparrow$} \\
\bottomrule
\end{tabular}
\end{table}
"""
    )


ROWS = ("BM25", "as shipped", "STAR")


@pytest.mark.parametrize(
    ("tests", "commands"),
    [
        (
            {"BM25": -0.2, "as shipped": 0.1},
            ["fuse --run r/STAR --run r/BM25", "recipe run R --set model.name=", "start FOLDER"],
        ),
        ({"BM25": 0.2, "as shipped": -0.1}, ["diagnose runs/star"]),
        ({"BM25": 0.2, "as shipped": 0.0}, ["recipe run R --set 'seeds=[1, 2, 3]'"]),
        ({"BM25": 0.2, "as shipped": 0.1}, ["search --dataset beir:FOLDER --model runs/star/model"]),
    ],
)
def test_the_next_step_follows_from_the_tests(tests: dict[str, float], commands: list[str]) -> None:
    mean = {"STAR": 0.5, **{row: 0.5 - difference for row, difference in tests.items()}}
    found = [
        Comparison("STAR", row, "mrr", value, None, 9, p, p, p, p)
        for row, value in tests.items()
        for p in [0.001 if value else 0.5]
    ]
    measured = Measured({row: {"mrr": {"q1": mean[row]}} for row in ROWS}, found)
    files = {row: f"r/{row}" for row in ROWS}
    ran = RecipeRun("runs/star", "hardneg recipe run R", "static", "as shipped")
    steps = next_steps(measured, "STAR", files, ran)
    assert len(steps) == len(commands)
    assert all(command.startswith(f"hardneg {start}") for (_, command), start in zip(steps, commands, strict=True))
    assert f'<td class="word">{escape(steps[0][1])}</td>' in html(page(next=steps))


ODD = "<script>alert('x')</script> & $x_1$ \"q\" | *b*"


@pytest.mark.parametrize("name", [ODD, "_hidden", "数据"])
def test_whatever_is_given_is_escaped(name: str) -> None:
    systems = {name: {name: MeanScore(0.5)}, "b": {name: MeanScore(0.4)}}
    tests = [Comparison(name, "b", name, 0.1, None, 1, 1.0, 1.0, 1.0, 1.0)]
    more = {"histories": {name: HISTORY}, "settings": {name: name}, "notes": [name]}
    odd = report(title=name, systems=systems, comparisons=tests, **more)
    page = html(odd)
    assert "<script" not in page
    ElementTree.fromstring(page[page.index("<main>") : page.index("</body>")])
    assert "<script" not in markdown(odd).replace("\\<", "")


def test_an_empty_report() -> None:
    empty = ReportContent("Nothing yet", {}, 0)
    assert markdown(empty) == "# Nothing yet\n"
    assert "<h2>" not in html(empty)


def test_curve_takes_the_colour_of_the_page() -> None:
    loss, dev = learning_graphics({"dense": HISTORY})
    assert loss.caption == "Training loss by step." and dev.caption == "ndcg@10 on the dev set by step."
    assert "currentColor" in loss.svg and ">dense: 2.0000 to 1.5000.</desc>" in loss.svg
    assert "#000000" not in loss.svg and "dense: 0.4000 to 0.3000." in dev.svg
    assert learning_graphics({"dense": [{"step": 1, "lr": 0.1}]}) == []


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
        "STAR is better than its initial model, “as shipped” (+0.2500, 95% interval +0.125 to +0.375, "
        "p < 0.001) and not distinguishable from BM25 (−0.2500, 95% interval −0.375 to −0.125, p = 0.020), by mrr on "
        "3 queries (p after Holm's correction, level 0.01)."
    )


def test_the_sentence_says_what_is_equivalent_and_how_surely():
    near = replace(test("STAR", "as shipped", 0.001, 0.4), equivalence_p=0.002, equivalence_holm=0.004)
    known = Measured(RESULTS, [near])
    told = summary(ReportContent.of("STAR", known, system="STAR"))
    told_of = "STAR is equivalent to “as shipped” (+0.0010, 95% interval −0.124 to +0.126, TOST p = 0.004)"
    assert told.startswith(told_of)
    other = summary(ReportContent.of("", known, system="BM25"))
    assert ": equivalent: STAR (+0.0010, 95% interval −0.124 to +0.126, TOST p = 0.004)." in other


def test_the_level_decides_what_the_sentence_the_marks_and_the_legend_say():
    easy = page(level=0.05)
    assert "is better than its initial model" in summary(easy) and "worse than BM25 (−0.2500" in summary(easy)
    assert "level 0.05" in summary(easy)
    assert marks_of(page(), "BM25", "mrr") == "▲" and marks_of(easy, "BM25", "mrr") == "▲a▲b"
    assert any("▲b better, ▼b worse than STAR: p < 0.05" in line for line in legend(easy))


def test_gains_and_queries_are_the_systems(tmp_path):
    assert ByQuery.of(MEASURED).pair == ("BM25", "as shipped")
    assert ByQuery.of(MEASURED, "STAR").pair == ("STAR", "as shipped")
    assert ByQuery.of(replace(MEASURED, comparisons=()), "STAR").pair == ("STAR", "BM25")
    section = gains_section(MEASURED, "STAR")
    assert section is not None and section.lead.startswith("By mrr, against as shipped")
    paths = write_report(tmp_path, page(), MEASURED, Passages({}))
    assert "mrr, STAR minus as shipped" in paths[0].read_text()
    assert paths[2].read_text().splitlines()[1].startswith("q1\t")


def test_a_system_that_others_were_tested_against_is_told_from_its_side():
    turned = ReportContent.of("BM25", MEASURED, system="BM25", over="3 queries")
    assert summary(turned).startswith("BM25 is better than “as shipped” (+0.5000")
    base = ReportContent.of("start", MEASURED, system="as shipped", over="3 queries")
    assert summary(base).startswith("“as shipped” is worse than BM25 (−0.5000, 95% interval −0.625 to −0.375")


def test_notes_stand_beside_the_figures(tmp_path):
    note = "STAR: 2 judged queries are not in the run and score 0"
    paths = write_report(tmp_path, page(notes=[note]), MEASURED, Passages({}))
    assert [path.read_text().count(note) for path in paths[:2]] == [1, 2]
