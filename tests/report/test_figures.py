"""The figures that stand first in a report; settings."""

import base64
import hashlib
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hardneg.evaluation.intervals import Interval
from hardneg.evaluation.metrics_json import Measured
from hardneg.evaluation.significance import Comparison, TwoLevel
from hardneg.report.content import MeanScore, ReportContent
from hardneg.report.figure import fitted
from hardneg.report.page import comparison_section, html, markdown, sections, write_report
from hardneg.report.query_section import ByQuery, Passages, gains_section, query_section, shortened, write_query_table
from hardneg.report.table import Cell, Section

RESULTS = {
    "start": {"mrr": {"q1": 0.5, "q2": 0.0, "q3": 1.0, "q4": 0.2}},
    "best": {"mrr": {"q1": 1.0, "q2": 1.0, "q3": 0.75, "q4": 0.2 + 1e-12}},
    "other": {"mrr": {"q1": 0.5, "q2": 0.5, "q3": 1.0, "q4": 0.2}},
}
TESTS = [
    Comparison(name, "start", "mrr", 0.1, None, 4, 0.001, p, 0.001, p)
    for name, p in {"best": 0.001, "other": 0.4}.items()
]
ODD = '<script>alert(1)</script> & "q" </svg>\u202e\u0000 |'
TEXT = "{http://www.w3.org/2000/svg}text"


def drawn(section: Section | None) -> list[ElementTree.Element]:
    assert section is not None
    return [ElementTree.fromstring(graphic.svg) for graphic in section.graphics]


def test_gains_and_losses_stand_in_a_table_where_rounding_is_no_gain_and_lead_to_the_queries():
    section = gains_section(Measured(RESULTS, TESTS))
    assert section is not None and section.lead.endswith("Individual queries are in the section Queries.")
    rows = [[cell.text for cell in row] for row in section.tables[0].rows]
    assert rows == [
        ["best", "2", "1", "1", "+0.7500", "−0.2500", "+0.3125"],
        ["other", "1", "3", "0", "+0.5000", "–", "+0.1250"],
    ]
    assert gains_section(Measured({"start": RESULTS["start"]})) is None


def test_the_main_comparison_shows_means_and_differences():
    systems = {"start": MeanScore(0.425, Interval(0.1, 0.7)), "best": MeanScore(0.7375), "other": MeanScore(0.55)}
    report = ReportContent("", {name: {"mrr": found} for name, found in systems.items()}, 4, TESTS)
    section = comparison_section(report)
    means, differences = drawn(section)
    assert {"start", "best", "other", "0.4250", "0.7375"} <= {text.text for text in means.iter(TEXT)}
    assert {"baseline", "+0.1000 p = 0.001", "+0.1000 p = 0.400"} <= {text.text for text in differences.iter(TEXT)}
    assert comparison_section(ReportContent("", {"start": {"mrr": MeanScore(0.5)}}, 4)) is None


def test_with_seeds_there_are_both_intervals_and_each_seeds_mean():
    by_seed = {"best": {seed: {"mrr": {"q1": 0.5 + seed / 10, "q2": 0.1}} for seed in (1, 2)}}
    wide = Interval(-0.2, 0.4)
    over = TwoLevel("best", "start", "mrr", 0.1, 0.1, 0.1, 0.1, 3.0, wide, 0.5, 0.5, wide, 0.5, 0.5, 0.6, (2, 1), False)
    systems = {"start": {"mrr": MeanScore(0.4)}, "best": {"mrr": MeanScore(0.375, Interval(0.0, 0.9))}}
    by_query = [Comparison("best", "start", "mrr", 0.1, Interval(0.05, 0.15), 2, 0.001, 0.001, 0.001, 0.001)]
    report = ReportContent("", systems, 2, by_query, over_seeds=[over], by_seed=by_seed)
    section = comparison_section(report)
    assert section is not None
    means = section.graphics[0].svg
    assert means.count("stroke-width: 5") == means.count("stroke-width: 1.5") == 1
    assert "within the seeds' noise" in markdown(report)


def whole(name: str) -> ReportContent:
    systems = {name: {"mrr": MeanScore(0.5)}, "start": {"mrr": MeanScore(0.4)}}
    tests = [Comparison(name, "start", "mrr", 0.1, None, 4, 0.001, 0.001, 0.001, 0.001)]
    return ReportContent(name, systems, 4, tests, notes=[name], settings={name: name}, browse="hardneg browse .")


def test_what_is_looked_at_first_stands_first(tmp_path):
    measured = Measured({"best": RESULTS["best"], "start": RESULTS["start"]}, TESTS[:1])
    page, text = (path.read_text() for path in write_report(tmp_path, whole("best"), measured, Passages({}))[1::-1])
    order = ["Main comparison", "Gains and losses by query", "Effectiveness", "Paired tests", "Queries"]
    order += ["How it was made"]
    assert re.findall(r"<h2 id=\"[a-z-]+\">(.*?)</h2>", page) == order
    assert re.findall(r"^## (.*)$", text, flags=re.MULTILINE) == order[1:]
    assert "by mrr on 4 queries (p after Holm" in page and ": better: best (+0.1000, p = 0.001)." in page
    assert "see more results: hardneg browse ." in page and "hardneg browse ." in text


def test_each_figure_is_named_and_told_and_its_text_can_be_selected(tmp_path):
    measured = Measured(RESULTS, TESTS)
    page = write_report(tmp_path, whole("best"), measured, Passages({}))[1].read_text()
    tree = ElementTree.fromstring(page[page.index("<main>") : page.index("</main>") + 7])
    figures = list(tree.iter("{http://www.w3.org/2000/svg}svg"))
    assert len(figures) == 2
    for figure in figures:
        title, told = figure.find(TEXT.replace("text", "title")), figure.find(TEXT.replace("text", "desc"))
        assert figure.get("role") == "img" and title is not None and told is not None and title.text and told.text
        assert figure.get("aria-labelledby") == title.get("id") and figure.get("aria-describedby") == told.get("id")
        assert list(figure.iter(TEXT))
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert "currentColor" in page and "#000000" not in page[page.index("<main>") :]


def test_names_in_figures_are_escaped():
    page = html(whole(ODD))
    assert "<script>" not in page and "\u202e" not in page and "\x00" not in page
    ElementTree.fromstring(page[page.index("<main>") : page.index("</main>") + 7])
    assert fitted(ODD, 60) == '<script>alert(1)</script> & "q" </svg>\ufffd\ufffd |'


@pytest.mark.parametrize(("name", "most", "short"), [("short", 8, "short"), ("abcdefghij", 8, "abcd…hij")])
def test_long_names_keep_both_ends(name, most, short):
    assert fitted(name, most) == short and len(short) <= most


def test_settings_stand_in_order_those_of_all_systems_first() -> None:
    settings = {"STAR: seed": 1, "STAR: batch_size": 16, "passages": 5, "evaluated on": "3 queries"}
    page = ReportContent("t", {"a": {"mrr": MeanScore(0.5)}}, 3, settings=settings)
    [table] = sections(page)[-1].tables
    assert [row[0] for row in table.rows] == ["evaluated on", "passages", "STAR: batch_size", "STAR: seed"]


SCORED = {
    "start": {"mrr": {"q1": 0.5, "q2": 0.0, "q3": 1.0}, "map": {"q1": 0.5, "q2": 0.0, "q3": 1.0}},
    "best": {"mrr": {"q1": 1.0, "q2": 1.0, "q3": 0.75}},
    "other": {"mrr": {"q1": 1.0, "q2": 0.5, "q3": 0.5}},
}
QRELS = {"q1": {"d1": 1, "d2": 0, "d9": 2, "d8": 1, "d7": 1, "d6": 1}, "q2": {"d3": 1}}


def against(baseline: str) -> Comparison:
    return Comparison("best", baseline, "mrr", 0.1, None, 3, 1.0, 1.0, 1.0, 1.0)


def run_files(folder: Path) -> dict[str, Path]:
    lists = {"start": {"q1": "d1 d2 d3 d4", "q2": "d3"}, "best": {"q1": "d4 d1 d5 d2"}}
    for system, queries in lists.items():
        listed = [(query, rank, doc) for query, docs in queries.items() for rank, doc in enumerate(docs.split())]
        lines = [f"{query} Q0 {doc} 0 {9 - rank} x\n" for query, rank, doc in listed]
        (folder / f"{system}.trec").write_text("".join(lines))
    return {system: folder / f"{system}.trec" for system in lists}


def test_the_difference_is_against_the_first_baseline_or_between_the_two_best():
    found = ByQuery.of(Measured(SCORED, [against("start"), against("other")]))
    assert found.pair == ("best", "start") and found.query_ids == ["q2", "q1", "q3"]
    assert [found.difference(query_id) for query_id in found.query_ids] == [1.0, 0.5, -0.25]
    found = ByQuery.of(Measured(SCORED))
    assert found.pair == ("best", "other") and found.query_ids == ["q2", "q3", "q1"]


def test_one_system_has_its_lowest_scores_first(tmp_path):
    measured = Measured({"start": SCORED["start"]})
    assert ByQuery.of(measured).query_ids == ["q2", "q1", "q3"]
    section = query_section(measured, Passages({}))
    assert section.tables[0].rows[0] == ["q2", "0.0000", "0.0000"]
    write_query_table(tmp_path / "queries.tsv", measured)
    lines = (tmp_path / "queries.tsv").read_text().splitlines()
    assert lines[:2] == ["query_id\tmrr start\tmap start", "q2\t0.000000\t0.000000"]


def test_a_query_opens_to_the_best_of_each_system_and_to_relevant_passages(tmp_path):
    section = query_section(Measured(SCORED, [against("start")]), Passages(run_files(tmp_path), QRELS))
    [table] = section.tables
    assert [row[0] for row in table.rows] == ["q2", "q1", "q3"]
    assert [row[1] for row in table.rows] == ["+1.0000", "+0.5000", "−0.2500"]
    empty, opened = table.details[2], table.details[1]
    assert empty.table.rows == [] and opened.title == "passages"
    assert opened.table.columns == [Cell("passage", note="relevance; rank by system")]
    ranks = {"d1": "1: 1, 2, –", "d4": "–: 4, 1, –", "d2": "0: 2, 4, –", "d3": "–: 3, –, –", "d5": "–: –, 3, –"}
    ranks |= {"d9": "2: –, –, –", "d8": "1: –, –, –", "d7": "1: –, –, –"}
    notes = re.compile("(.*): (.*), (.*), (.*)")
    expected = [(name, notes.sub(r"relevance \1; start \2, best \3, other \4", each)) for name, each in ranks.items()]
    assert [(cell.text, cell.note) for [cell] in opened.table.rows] == expected


def test_the_500_largest_differences_are_shown_and_looked_up_and_all_are_in_the_table(tmp_path, monkeypatch):
    scores = {f"q{i}": i / 600 for i in range(600)}
    measured = Measured({"low": {"mrr": dict.fromkeys(scores, 0.0)}, "high": {"mrr": scores}})
    (tmp_path / "high.trec").write_text("".join(f"q{i} Q0 d{i} 1 1.0 x\n" for i in range(600)))
    asked: list[str] = []
    monkeypatch.setattr(Passages, "texts", lambda self, doc_ids: asked.extend(doc_ids) or {})
    passages = Passages({"high": tmp_path / "high.trec"})
    section = query_section(measured, passages)
    assert len(section.tables[0].rows) == len(section.tables[0].details) == 500
    assert asked == [f"d{i}" for i in range(599, 99, -1)]
    assert "the 500 largest of 600 queries" in section.lead
    text = markdown(ReportContent.of("All", measured, by_query=section))
    assert "| q580 |" in text and "| q579 |" not in text and "the first 20 of 500 rows" in text
    write_query_table(tmp_path / "queries.tsv", measured)
    assert len((tmp_path / "queries.tsv").read_text().splitlines()) == 601


def test_many_systems_are_cut_to_what_a_page_can_show():
    many = {f"s{i}": {name: {"q": i / 10} for name in ("mrr", "map", "ndcg@10")} for i in range(9)}
    section = query_section(Measured(many), Passages({}))
    [table] = section.tables
    heads = [(cell.text, cell.note) for cell in table.columns[2:]]
    assert [name for name, note in heads if note == "mrr"] == ["s0", "s1", "s2", "s3", "s7", "s8"]
    assert len(heads) == 12 and "For 3 more systems, see queries.tsv" in section.explained


WILD = "<script>alert('x')</script> &\u0000\t\n$x$ | *b* " + '"quoted"'


def test_only_the_pages_own_script_runs_and_all_that_is_given_is_escaped(tmp_path, monkeypatch):
    monkeypatch.setattr(Passages, "queries", {WILD: WILD, "plain": WILD})
    monkeypatch.setattr(Passages, "ranked", lambda self, system, query_ids: {WILD: [WILD], "plain": ["d1"]})
    monkeypatch.setattr(Passages, "texts", lambda self, doc_ids: dict.fromkeys(doc_ids, shortened(WILD)))
    measured = Measured({WILD: {"mrr": {WILD: 1.0, "plain": 0.5}}, "b": {"mrr": {WILD: 0.0, "plain": 0.0}}})
    passages = Passages({}, {WILD: {WILD: 1}})
    paths = write_report(tmp_path, ReportContent.of("Odd", measured), measured, passages)
    assert [path.name for path in paths] == ["report.md", "report.html", "queries.tsv"]
    text, page, table = (path.read_text() for path in paths)
    assert page.count("<script") == 1 and "<script" not in text.replace("\\<", "")
    [script] = re.findall("<script>(.*)</script>", page, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert "default-src 'none'" in page and f"script-src 'sha256-{digest}'" in page
    assert not re.search(r"(src|href)=(?![\"']?(data:|#))", page)
    ElementTree.fromstring(page[page.index("<main>") : page.index("</main>") + 7])
    assert [line.count("\t") for line in table.splitlines()] == [4, 4, 4]
    assert "<script" not in html(ReportContent("Nothing to sort", {}, 0))


def test_equal_results_give_equal_pages(tmp_path):
    passages = Passages(run_files(tmp_path), QRELS)
    for name in ("one", "two"):
        write_report(tmp_path / name, ReportContent.of("Same", Measured(SCORED)), Measured(SCORED), passages)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("one two", "one two"),
        ("one\ttwo\nthree", "one two three"),
        ("one two three", "one two three"),
        ("one two three four", "one two…"),
        ("unbrokenletters", "unbrokenlett…"),
    ],
)
def test_texts_are_cut_after_a_word(text: str, short: str) -> None:
    assert shortened(text, 13) == short


def test_no_text_of_the_table_is_a_formula(tmp_path):
    measured = Measured({"=a": {"mrr@10": {"-q": 0.5, "@q": 0.25}}})
    texts = {"-q": '=HYPERLINK("http://x")', "@q": "-3 degrees"}
    write_query_table(tmp_path / "queries.tsv", measured, texts)
    head, *rows = (tmp_path / "queries.tsv").read_text().splitlines()
    assert head == "query_id\tmrr@10 =a\ttext"
    assert sorted(rows) == ["'-q\t0.500000\t'=HYPERLINK(\"http://x\")", "'@q\t0.250000\t'-3 degrees"]
