"""The sections of a report, in order."""

from collections.abc import Mapping
from dataclasses import replace

from hardneg.report.content import ReportContent, outcomes_explained, systems_section, tests_section
from hardneg.report.curve import History, learning_graphics, measurements
from hardneg.report.intervals import comparison_section
from hardneg.report.numbers import number
from hardneg.report.seed_section import seed_section
from hardneg.report.table import Section, Table


def sections(report: ReportContent) -> list[Section]:
    """Return the sections below the title and the summary, in order, without empty ones.

    Figures first: the main comparison, gains and losses by query. Then the tables, what the systems cost, single
    queries, training, analyses, and how it was made.
    """
    seeds = seed_section(report.by_seed, report.over_seeds, report.level, report.query_groups)
    outcomes = [outcomes_explained(report)] if report.over_seeds else []
    names = sorted(report.settings, key=lambda name: (": " in name, name.casefold()))  # of all systems, then of one
    rows = [[name, str(report.settings[name])] for name in names]
    settings = [*([Table(["setting", "value"], rows, words=2)] if rows else []), *report.settings_tables]
    all_sections = (
        comparison_section(report),
        report.gains,
        systems_section(report) if report.systems else None,
        replace(seeds, lines=[*outcomes, *seeds.lines]) if report.by_seed else None,
        tests_section(report) if report.query_tests else None,
        report.costs,
        _query_section(report),
        _training_section(report.histories),
        *report.sections,
        Section("How it was made", settings) if settings else None,
    )
    return [section for section in all_sections if section is not None]


def _query_section(report: ReportContent) -> Section | None:
    """The table by query, and the command that shows more of each query."""
    section = report.by_query
    if section is None or not report.browse:
        return section
    explained = f"{section.explained} To search them all, and to see more of what was found: {report.browse}"
    return replace(section, explained=explained.strip())


def _training_section(histories: Mapping[str, History]) -> Section | None:
    """First, last and best loss and dev metrics of each model; None where nothing was measured."""
    rows = []
    for model, history in histories.items():
        for name, points in measurements(history).items():
            step, value = (min if name == "loss" else max)(points, key=lambda point: point[1])
            rows.append([model, name, number(points[0][1]), number(points[-1][1]), number(value), f"{step:g}"])
    table = Table(["model", "measured", "first", "last", "best", "at step"], rows, words=2)
    return Section("Training", [table], graphics=learning_graphics(histories)) if rows else None
