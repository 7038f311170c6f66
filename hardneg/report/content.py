"""The content of a report: systems, paired tests, training, settings, as sentences and tables; `page` lays it out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_lowercase
from typing import Any

import numpy as np

from hardneg.evaluation import LEVEL, MARGIN
from hardneg.evaluation.intervals import Interval
from hardneg.evaluation.metrics import Scores, means
from hardneg.evaluation.metrics_json import Measured
from hardneg.evaluation.significance import Comparison, verdict
from hardneg.evaluation.two_level import SEED_LEVEL, TwoLevel, interval_over_seeds, system_intervals
from hardneg.records import counted
from hardneg.report.figure import History
from hardneg.report.table import Cell, Section, Table, bounds, number, p_value, signed, within

Test = Comparison | TwoLevel

BRACKETS = "Brackets: 95 % confidence interval of the mean over queries (Student's t, cut at 0 and 1)."
BETTER, WORSE = "▲", "▼"
EQUIVALENT, UNDECIDED = "equivalent", "undecided"
WITHIN = f"{UNDECIDED}, within the seeds' noise"

_WORDS = {"metric": "metric", "system": "system", "baseline": "baseline", "outcome": "outcome"}
_WORDS |= {"difference": "difference", "interval": "95 % interval"}
_EQUIVALENCE = {"equivalence_p": "TOST p", "equivalence_holm": "Holm"}
_QUERY_COLUMNS = _WORDS | {"t_p": "t-test p", "t_holm": "Holm"}
_QUERY_COLUMNS |= {"randomisation_p": "randomised p", "randomisation_holm": "Holm", **_EQUIVALENCE}
_SEED_COLUMNS = _WORDS | {"query_error": "error by queries", "seed_error": "error by seeds", "t_p": "t-test p"}
_SEED_COLUMNS |= {"t_holm": "Holm", "bootstrap_p": "bootstrap p", "bootstrap_holm": "Holm", **_EQUIVALENCE}
_TESTS_EXPLAINED = (
    "Differences are system minus baseline over the same queries, with a 95 % t interval. "
    "Tests are two-sided: the paired t-test and the paired randomisation test. Two one-sided t-tests (TOST) are of "
    "equivalence. Each kind has Holm's correction over all comparisons by the same metric."
)
_OVER_SEEDS_EXPLAINED = (
    "Systems are compared as if both were trained anew, with other seeds, and measured on other queries. "
    "The t-test is quasi-F: its error has a part of queries and a part of seeds, its degrees of freedom are "
    "Satterthwaite's. It is the test to go by; signs in tables are its. The bootstrap draws both, and needs "
    "no normal distribution; with few seeds it is weak. TOST, of equivalence, has the t-test's error and degrees of "
    "freedom. Holm's correction is over all such comparisons by the metric."
)


@dataclass(frozen=True, slots=True)
class MeanScore:
    """A mean and its 95 % confidence interval, None where there are fewer than two queries."""

    mean: float
    interval: Interval | None = None


@dataclass(frozen=True, slots=True)
class ReportContent:
    """The content of a report page.

    systems: estimates by metric by system, in the order to show.
    histories: for each trained model the trainer's rows: `step`, `loss`, and measurements on the dev set.
    settings: by name, shown as `str` prints them. settings_tables: more tables, shown after the settings.
    marks: signs, and the systems that one must be better than to have it; empty: a sign for each baseline.
    over: the queries, such as "895 queries of split test"; empty: their number. gains, costs: gains and losses by
    query, and costs beside quality. by_query: the table by query.
    browse: the command that shows hits and negatives of each query; empty: none.
    sections: analyses, shown before the settings.
    system: the one that the page is about; empty: that with the highest mean. began: the system that it was trained
    from; empty: none. notes: remarks on the means. level: differences with a corrected p below it are marked. margin:
    that of equivalence. query_groups: the group of each query, where they come in groups.
    """

    title: str
    systems: Mapping[str, Mapping[str, MeanScore]]
    queries: int
    comparisons: Sequence[Comparison] = ()
    histories: Mapping[str, History] = field(default_factory=dict)
    settings: Mapping[str, object] = field(default_factory=dict)
    notes: Sequence[str] = ()
    marks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    sections: Sequence[Section] = ()
    by_query: Section | None = None
    over: str = ""
    gains: Section | None = None
    costs: Section | None = None
    settings_tables: Sequence[Table] = ()
    browse: str = ""
    over_seeds: Sequence[TwoLevel] = ()
    by_seed: Mapping[str, Mapping[int, Scores]] = field(default_factory=dict)
    level: float = LEVEL
    system: str = ""
    began: str = ""
    margin: float = MARGIN
    query_groups: Mapping[str, str] | None = None

    @classmethod
    def of(cls, title: str, measured: Measured, **others: Any) -> "ReportContent":
        """Return the report of an evaluation; others: more fields."""
        systems = {
            label: estimates(scores, measured.by_seed.get(label, {}), measured.query_groups)
            for label, scores in measured.results.items()
        }
        tables = [values for scores in measured.results.values() for values in scores.values()]
        groups = measured.query_groups and {each: measured.query_groups[each] for values in tables for each in values}
        same = {name: getattr(measured, name) for name in ("by_seed", "over_seeds", "marks", "notes", "comparisons")}
        fields = {**same, "margin": measured.equivalence_margin, "level": measured.significance_level}
        fields |= {"query_groups": groups, **others}
        return cls(title, systems, max(map(len, tables), default=0), **fields)

    @property
    def tests(self) -> "list[Test]":
        """The deciding test of each pair: over queries and seeds where there is one, else by query."""
        known = {(each.system, each.baseline, each.metric): each for each in self.over_seeds}
        return [known.get((each.system, each.baseline, each.metric), each) for each in self.comparisons]

    @property
    def query_tests(self) -> list[Comparison]:
        """The tests by query of the pairs that have none over queries and seeds, which is the right one."""
        return [each for each in self.tests if isinstance(each, Comparison)]

    @property
    def groups(self) -> int:
        """How many groups the measured queries come in; 0 where each is one of its own."""
        return len(set((self.query_groups or {}).values()))

    @property
    def main_tests(self) -> "dict[str, Test]":
        """By system the test against the first baseline by the first metric; empty where nothing was compared."""
        tests = [each for each in self.tests if each.metric in self.metrics[:1]]
        return {each.system: each for each in tests if each.baseline == tests[0].baseline}

    @property
    def baseline(self) -> str:
        """The system that those tests are against; empty where nothing was compared."""
        return next((each.baseline for each in self.main_tests.values()), "")

    @property
    def metrics(self) -> list[str]:
        """The metrics of all systems, each once, in order of appearance."""
        return list(dict.fromkeys(name for estimates in self.systems.values() for name in estimates))


def estimates(
    scores: Mapping[str, Mapping[str, float]],
    seeds: Mapping[int, Scores] | None = None,
    groups: Mapping[str, str] | None = None,
) -> dict[str, MeanScore]:
    """Return one system's means and intervals from its scores by metric and query; intervals stay within [0, 1].

    seeds: the scores of each seed, where there are several; intervals are then over queries and seeds. groups: the
    group of each query, where they come in groups.
    """
    intervals = system_intervals(scores, seeds, groups)
    return {name: MeanScore(mean, within(intervals[name], 0.0)) for name, mean in means(scores).items()}


def p_of(test: Test) -> float:
    """Return the deciding p value after Holm's correction: of the two tests by query, the larger one."""
    return test.t_holm if isinstance(test, TwoLevel) else max(test.t_holm, test.randomisation_holm)


def p_of_outcome(test: Test, level: float) -> float:
    """Return the p value of what is said of a pair: that of TOST where it is equivalent."""
    return test.equivalence_holm if outcome(test, level) == EQUIVALENT else p_of(test)


def outcome(test: Test, level: float) -> str:
    """Return the outcome of a test in words."""
    if test.significant(level):
        return "better" if test.difference > 0 else "worse"
    if verdict(test, level) == EQUIVALENT:
        return EQUIVALENT
    return WITHIN if isinstance(test, TwoLevel) and test.within_seeds else UNDECIDED


def baseline_marks(report: ReportContent) -> dict[str, str]:
    """Return the letter of each baseline with a significant difference; an empty text if there is one such baseline."""
    named = list(dict.fromkeys(c.baseline for c in report.tests if c.significant(report.level)))
    if len(named) == 1:
        return {named[0]: ""}
    return {name: ascii_lowercase[i] if i < len(ascii_lowercase) else f"[{i + 1}]" for i, name in enumerate(named)}


def marks_of(report: ReportContent, system: str, metric: str) -> str:
    """Return the signs of the baselines that this system is better or worse than by this metric, or its `marks`."""
    tests = [c for c in report.tests if c.metric == metric and c.significant(report.level)]
    if report.marks:
        # a test may have been made the other way round
        above = {c.baseline for c in tests if c.system == system and c.difference > 0}
        beaten = above | {c.system for c in tests if c.baseline == system and c.difference < 0}
        return "".join(sign for sign, rows in report.marks.items() if beaten.issuperset(rows))
    letters = baseline_marks(report)
    own = [c for c in tests if c.system == system]
    return "".join(f"{BETTER if c.difference > 0 else WORSE}{letters[c.baseline]}" for c in own)


def legend(report: ReportContent) -> list[str]:
    """Return what bold, brackets and each sign of the first table mean, one sentence each, then the notes."""
    signs = {} if report.marks else baseline_marks(report)
    proof = f"p < {report.level:g} in both paired tests after Holm's correction"
    proof += " (rows of several seeds: in the t-test over queries and seeds)" if report.over_seeds else ""
    lines = [f"{BETTER}{sign} better, {WORSE}{sign} worse than {name}: {proof}." for name, sign in signs.items()]
    lines += [
        f"{sign} better than {'each of ' if len(rows) > 1 else ''}{', '.join(rows)}: {proof}."
        for sign, rows in report.marks.items()
    ]
    intervals = any(e.interval for values in report.systems.values() for e in values.values())
    for holds, line in (
        (report.comparisons and not report.marks and not signs, f"No difference has {proof}."),
        (len(report.systems) > 1, "Bold: the highest mean."),
        (intervals, BRACKETS),
        (report.groups, f"Queries come in {report.groups} groups: intervals and tests are those of groups."),
        (report.by_seed, "Rows of several seeds: means over these, with intervals over queries and seeds."),
    ):
        lines += [line] if holds else []
    return [*lines, *report.notes]


def outcomes_explained(report: ReportContent) -> str:
    """Return what the words for outcomes mean that are no difference."""
    return (
        f"Equivalent: TOST rules out a difference of {report.margin:g} or more, up or down, p < {report.level:g} after "
        "Holm's correction. Where no query differs, its p is the chance to meet none that does. Undecided: neither a "
        "difference nor equivalence is shown."
    )


def systems_section(report: ReportContent) -> Section:
    """Return the table of means by system; the highest are bold, significant differences have signs."""
    rows = []
    for name, values in report.systems.items():
        cells = [Cell("–")] * len(report.metrics)
        for column, metric in enumerate(report.metrics):
            scores = [each[metric].mean for each in report.systems.values() if metric in each]
            if score := values.get(metric):
                strong, note = len(scores) > 1 and score.mean == max(scores), bounds(score.interval, empty="")
                cells[column] = Cell(number(score.mean), strong, marks_of(report, name, metric), note)
        rows.append([Cell(name), *cells])
    table = Table(["system", *report.metrics], rows)
    return Section(
        "Effectiveness", [table], lead=f"Means over {counted(report.queries, 'query')}.", lines=legend(report)
    )


def tests_section(report: ReportContent) -> Section:
    """Return the section of the tests by query, of pairs that have none over queries and seeds."""
    columns = _QUERY_COLUMNS | ({"bootstrap_interval": "bootstrap of groups"} if report.groups else {})
    rows = [_cells(test, report.level, columns) for test in report.query_tests]
    table = Table([*columns.values()], rows, words=4)
    return Section("Paired tests", [table], _TESTS_EXPLAINED, lines=[outcomes_explained(report)])


def tests_by_metric(report: ReportContent) -> list[Table]:
    """Return the tests for a narrow screen: a table for each metric, with corrected p values alone."""
    tables, columns = [], ["outcome", "difference", "95 % interval", "t-test p"]
    kinds: list[tuple[Sequence[Test], str, str, str]] = [
        (report.query_tests, "", "randomisation_holm", "randomised p"),
        (report.over_seeds, ", over seeds", "bootstrap_holm", "bootstrap p"),
    ]
    for tests, over, name, second in kinds:
        for metric in dict.fromkeys(test.metric for test in tests):
            rows = [
                [
                    Cell(f"{test.system} − {test.baseline}", test.significant(report.level)),
                    *_cells(test, report.level, ("outcome", "difference", "interval", "t_holm", name)),
                ]
                for test in tests
                if test.metric == metric
            ]
            tables.append(Table([f"{metric}{over}", *columns, second], rows, words=2))
    return tables


def _cells(test: Test, level: float, names: Sequence[str] | Mapping[str, str]) -> list[Cell]:
    """Return the cells of a test by the names of its fields; bold where it shows a difference."""
    cells = []
    for name in names:
        value: Any = outcome(test, level) if name == "outcome" else getattr(test, name)
        if name == "difference":
            text = signed(value)
        elif name.endswith("interval"):
            text = bounds(within(value, -1.0), "+.3f")
        elif name.endswith("_error"):
            text = number(value)
        else:
            text = p_value(value) if isinstance(value, float) else str(value)
        cells.append(Cell(text, test.significant(level)))
    return cells


def seed_section(report: ReportContent) -> Section:
    """Return a table of means and deviations over seeds, and one of the tests with their outcomes."""
    rows, level, tests = [], report.level, report.over_seeds
    metrics = dict.fromkeys(name for seeds in report.by_seed.values() for scores in seeds.values() for name in scores)
    for metric in metrics:
        for system, seeds in report.by_seed.items():
            values = np.array([means(scores)[metric] for scores in seeds.values()])
            figures = [values.mean(), values.std(ddof=1), values.min(), values.max()]
            interval = bounds(within(interval_over_seeds(metric, seeds, report.query_groups), 0.0))
            rows.append([metric, system, str(len(values)), *(number(float(value)) for value in figures), interval])
    columns = ["metric", "system", "seeds", "mean", "deviation over seeds", "lowest", "highest", "95 % interval"]
    tables, said = [Table(columns, rows, words=2)], {outcome(each, level) for each in tests}
    if tests:
        tested = [_cells(test, level, _SEED_COLUMNS) for test in tests]
        tables.append(Table([*_SEED_COLUMNS.values()], tested, words=4))
    meanings = {
        WITHIN: f"other seeds may turn the sign on these very queries (p ≥ {SEED_LEVEL:g} by seeds alone).",
        UNDECIDED: f"more than the seeds' noise on these queries, but p ≥ {level:g} where other queries count too.",
    }
    lines = [outcomes_explained(report)] if tests else []
    lines += [f"{word[:1].upper()}{word[1:]}: {meaning}" for word, meaning in meanings.items() if word in said]
    counts = dict(pair for each in tests for pair in zip((each.system, each.baseline), each.seeds, strict=True))
    if once := ", ".join(name for name, count in counts.items() if count == 1):
        lines.append(f"One run alone: {once}. What a seed does there, if it was trained, is not in the tests.")
    return Section("Seeds", tables, _OVER_SEEDS_EXPLAINED if tests else "", lines=lines)
