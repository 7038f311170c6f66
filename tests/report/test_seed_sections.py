"""What a report says of systems with several seeds."""

from dataclasses import replace

import numpy as np

from hardneg.cli.console import measured_tables, stdout_console
from hardneg.evaluation.metrics import averaged
from hardneg.evaluation.metrics_json import Measured
from hardneg.evaluation.significance import Design, compare_all, compare_over_seeds
from hardneg.report.content import ReportContent, estimates, legend, marks_of, outcome, tests_by_metric as query_tables
from hardneg.report.page import html, latex, markdown, sections


def seeded(effects: dict[str, list[float]], queries: int = 40) -> Measured:
    """Systems whose score of a query is that query's, and what is added with each seed."""
    random = np.random.default_rng(0)
    base = random.uniform(0.2, 0.6, queries)
    by_seed = {
        system: {
            seed: {"mrr@10": {f"q{i}": float(x) for i, x in enumerate(base + added + random.normal(0, 0.01, queries))}}
            for seed, added in enumerate(seeds, 1)
        }
        for system, seeds in effects.items()
    }
    results = {"BM25": {"mrr@10": {f"q{i}": float(x) for i, x in enumerate(base)}}}
    results |= {system: averaged([*seeds.values()]) for system, seeds in by_seed.items()}
    tests = compare_over_seeds(results, by_seed, ["BM25"])
    return Measured(results, compare_all(results, ["BM25"]), by_seed=by_seed, over_seeds=tests)


def test_a_difference_within_the_seeds_noise_is_told_as_such_where_queries_alone_would_see_one():
    noisy, steady = [0.1, -0.08, 0.05, 0.02, -0.03], [0.1, 0.101, 0.099, 0.102, 0.098]
    measured = seeded({"noisy": noisy, "steady": steady})
    page = ReportContent.of("", measured)
    assert [outcome(test, 0.01) for test in page.over_seeds] == ["undecided, within the seeds' noise", "better"]
    assert all(test.significant() for test in measured.comparisons)
    assert marks_of(page, "noisy", "mrr@10") == "" and marks_of(page, "steady", "mrr@10") == "▲"
    wide = page.systems["noisy"]["mrr@10"].interval
    narrow = estimates(measured.results["noisy"])["mrr@10"].interval
    assert wide is not None and narrow is not None and wide.high - wide.low > 1.1 * (narrow.high - narrow.low)
    assert any(line.startswith("Rows of several seeds") for line in legend(page)) and "Brackets" not in latex(page)


def test_seeds_stand_in_every_form_of_the_report_alike(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    measured = seeded({"noisy": [0.1, -0.08, 0.05], "steady": [0.1, 0.101, 0.099]})
    page = ReportContent.of("", measured)
    section = next(section for section in sections(page) if section.title == "Seeds")
    deviation = np.std([np.mean([*made["mrr@10"].values()]) for made in measured.by_seed["noisy"].values()], ddof=1)
    assert section.tables[0].rows[0][:3] == ["mrr@10", "noisy", "3"]
    assert section.tables[0].rows[0][4] == f"{deviation:.4f}"
    assert section.lines[-1].startswith("Only one run: BM25.")
    measured_tables(stdout_console(), measured)
    for text in (markdown(page), html(page).replace("&#39;", "'"), capsys.readouterr().out):
        assert "within the seeds' noise" in text and "over seeds" in text
        assert "randomised p" not in text and "Undecided: neither a difference nor equivalence is shown." in text
    assert page.query_tests == [] and [len(table.rows) for table in query_tables(page)] == [2]
    once = {"mrr@10": {name: score + 0.001 for name, score in measured.results["BM25"]["mrr@10"].items()}}
    results = {**measured.results, "dense": once}
    mixed = replace(measured, results=results, comparisons=compare_all(results, ["BM25"]))
    assert [test.system for test in ReportContent.of("", mixed).query_tests] == ["dense"]


def test_a_report_says_that_queries_come_in_groups_and_shows_their_bootstrap():
    groups = {f"q{i}": f"disease {i // 4}" for i in range(40)}
    results = seeded({}).results | {"dense": {"mrr@10": {f"q{i}": 0.9 for i in range(40)}}}
    measured = Measured(results, compare_all(results, ["BM25"], design=Design(groups=groups)), query_groups=groups)
    text = markdown(ReportContent.of("", measured))
    assert "Queries are in 10 groups; intervals and tests are over groups." in text
    assert "bootstrap of groups" in text
