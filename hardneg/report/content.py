"""What is known at the end of a recipe, as a page to read: systems, paired tests, training, how it was made.

This module holds the `ReportContent`, and its words and tables; `page` lays them out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_lowercase
from typing import Any

from hardneg.evaluation.levels import LEVEL
from hardneg.evaluation.metrics import Scores, means
from hardneg.evaluation.metrics_json import Measured
from hardneg.evaluation.significance import Comparison, Interval, interval_of
from hardneg.evaluation.two_level import TwoLevel
from hardneg.records.wording import counted
from hardneg.report.curve import History
from hardneg.report.numbers import bounds, number, p_value, signed, within
from hardneg.report.seed_section import interval_over_seeds
from hardneg.report.table import Cell, Section, Table

BRACKETS = "Brackets: 95 % confidence interval of the mean over queries (Student's t, cut at 0 and 1)."

SEED_ROWS = "Rows of several seeds: means over these, with intervals over queries and seeds."

Test = Comparison | TwoLevel

BETTER, WORSE = "▲", "▼"


@dataclass(frozen=True, slots=True)
class MeanScore:
    """A mean and its 95 % confidence interval, None where there are fewer than two queries."""

    mean: float
    interval: Interval | None = None


@dataclass(frozen=True, slots=True)
class ReportContent:
    """All that a report page says.

    systems: estimates by metric by system, in the order to show.
    histories: for each trained model the trainer's rows: `step`, `loss`, and measurements on the dev set.
    settings: how it was made, name by name; values are shown as they print.
    marks: signs, and the systems that one must be better than to have it; empty: a sign for each baseline.
    over: what was asked of what, such as "895 queries of split test"; empty: as many queries. gains, costs: what
    systems gain and lose by query, and what they take beside their quality. by_query: the table by query.
    browse: the command that shows what the systems found, or had for negatives, query by query; empty: none.
    sections: analyses, shown before how it was made. made: the tables of how it was made, after the settings.
    system: the one that the page is about; empty: that with the highest mean. began: the system that it was trained
    from; empty: none. notes: what must be known beside the means. level: below it corrected p values have a difference
    marked.
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

    @classmethod
    def of(cls, title: str, measured: Measured, **others: Any) -> "ReportContent":
        """The report of an evaluation; others: fields that it does not fill."""
        systems = {
            label: estimates(scores, measured.by_seed.get(label, {})) for label, scores in measured.results.items()
        }
        sizes = [len(values) for scores in measured.results.values() for values in scores.values()]
        fields: dict[str, Any] = {
            "by_seed": measured.by_seed,
            "over_seeds": measured.over_seeds,
            "marks": measured.marks,
        }
        fields |= {"level": measured.significance_level, "notes": measured.notes, **others}
        return cls(title, systems, max(sizes, default=0), measured.comparisons, **fields)

    @property
    def tests(self) -> "list[Test]":
        """The test of each pair that decides: over queries and seeds where there is one, else by query."""
        known = {(each.system, each.baseline, each.metric): each for each in self.over_seeds}
        return [known.get((each.system, each.baseline, each.metric), each) for each in self.comparisons]

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
    scores: Mapping[str, Mapping[str, float]], seeds: Mapping[int, Scores] | None = None
) -> dict[str, MeanScore]:
    """One system's means and intervals from its scores by metric and query; intervals end where metrics do.

    seeds: the same of each seed, where there are several: then intervals are over queries and seeds.
    """
    intervals = {name: interval_over_seeds(name, seeds) if seeds else interval_of(scores[name]) for name in scores}
    return {name: MeanScore(mean, within(intervals[name], 0.0)) for name, mean in means(scores).items()}


def p_of(test: Test) -> float:
    """The p value that decides, after Holm's correction: of the two tests by query the larger one."""
    return test.t_holm if isinstance(test, TwoLevel) else max(test.t_holm, test.randomisation_holm)


def baseline_marks(report: ReportContent) -> dict[str, str]:
    """By what each baseline that something differs from significantly is told: a letter; nothing where it is alone."""
    named = list(dict.fromkeys(c.baseline for c in report.tests if c.significant(report.level)))
    if len(named) == 1:
        return {named[0]: ""}
    return {name: ascii_lowercase[i] if i < len(ascii_lowercase) else f"[{i + 1}]" for i, name in enumerate(named)}


def marks_of(report: ReportContent, system: str, metric: str) -> str:
    """Signs of the baselines that this system is better or worse than by this metric, or those that it has earned."""
    if report.marks:
        # a test may have been made the other way round
        tests = [c for c in report.tests if c.metric == metric and c.significant(report.level)]
        above = {c.baseline for c in tests if c.system == system and c.difference > 0}
        beaten = above | {c.system for c in tests if c.baseline == system and c.difference < 0}
        return "".join(sign for sign, rows in report.marks.items() if beaten.issuperset(rows))
    letters = baseline_marks(report)
    own = (c for c in report.tests if c.system == system and c.metric == metric and c.significant(report.level))
    return "".join(f"{BETTER if c.difference > 0 else WORSE}{letters[c.baseline]}" for c in own)


def best(report: ReportContent, metric: str) -> float | None:
    """The highest mean by a metric; None where there is nothing to choose from."""
    scores = [values[metric].mean for values in report.systems.values() if metric in values]
    return max(scores) if len(scores) > 1 else None


def legend(report: ReportContent) -> list[str]:
    """What bold, brackets and each sign of the first table mean, one sentence each; then what must be known besides."""
    signs = {} if report.marks else baseline_marks(report)
    proof = f"p < {report.level:g} in both paired tests after Holm's correction"
    proof += " (rows of several seeds: in the t-test over queries and seeds)" if report.over_seeds else ""
    lines = [f"{BETTER}{sign} better, {WORSE}{sign} worse than {name}: {proof}." for name, sign in signs.items()]
    lines += [f"{sign} better than {_all_of(rows)}: {proof}." for sign, rows in report.marks.items()]
    if report.comparisons and not report.marks and not signs:
        lines.append(f"No difference has {proof}.")
    if len(report.systems) > 1:
        lines.append("Bold: the highest mean.")
    if any(e.interval for values in report.systems.values() for e in values.values()):
        lines.append(BRACKETS)
    return [*lines, *([SEED_ROWS] if report.by_seed else []), *report.notes]


_TESTS_EXPLAINED = (
    "Differences are system minus baseline over the same queries, with a 95 % t interval. "
    "Tests are two-sided: the paired t-test and the paired randomisation test, each with Holm's correction "
    "over all comparisons by the same metric."
)


def difference_bounds(comparison: Comparison) -> str:
    """The interval of a difference with signs, between -1 and 1."""
    return bounds(within(comparison.interval, -1.0), "+.3f")


def tests_section(report: ReportContent) -> Section:
    """The tests by query, and what they do not tell of systems with several seeds."""
    means_alone = " Scores of several seeds are their means: nothing is said here of other seeds."
    explained = _TESTS_EXPLAINED + (means_alone if report.by_seed else "")
    return Section("Paired tests", [_tests(report.comparisons, report.level)], explained)


def systems_section(report: ReportContent) -> Section:
    """A row a system with its means; the highest stand out, significant differences have signs."""
    tops = {metric: best(report, metric) for metric in report.metrics}
    rows = [
        [Cell(name), *(_mean(report, name, metric, top) for metric, top in tops.items())] for name in report.systems
    ]
    queries = f"Means over {counted(report.queries, 'query')}."
    return Section("Effectiveness", [Table(["system", *tops], rows)], lead=queries, lines=legend(report))


def tests_by_metric(comparisons: Sequence[Comparison], level: float) -> list[Table]:
    """The paired tests as a narrow screen takes them: a table a metric, p values after Holm's correction alone."""
    tables = []
    for metric in dict.fromkeys(c.metric for c in comparisons):
        tested = [(c, _test_row(c, level)) for c in comparisons if c.metric == metric]
        rows = [
            [Cell(f"{c.system} − {c.baseline}", c.significant(level)), row[3], row[4], row[6], row[8]]
            for c, row in tested
        ]
        tables.append(Table([metric, "difference", "95 % interval", "t-test p", "randomised p"], rows))
    return tables


def _mean(report: ReportContent, system: str, metric: str, top: float | None) -> Cell:
    score = report.systems[system].get(metric)
    if score is None:
        return Cell("–")
    note = bounds(score.interval) if score.interval else ""
    return Cell(number(score.mean), score.mean == top, marks_of(report, system, metric), note)


def _tests(comparisons: Sequence[Comparison], level: float) -> Table:
    tests = ("t-test p", "Holm", "randomised p", "Holm")
    columns = ["metric", "system", "baseline", "difference", "95 % interval", *tests]
    return Table(columns, [_test_row(comparison, level) for comparison in comparisons], words=3)


def _test_row(comparison: Comparison, level: float) -> list[Cell]:
    c = comparison
    tests = [p_value(c.t_p), p_value(c.t_holm), p_value(c.randomisation_p), p_value(c.randomisation_holm)]
    texts = [c.metric, c.system, c.baseline, signed(c.difference), difference_bounds(c), *tests]
    return [Cell(text, strong=c.significant(level)) for text in texts]


def _all_of(names: Sequence[str]) -> str:
    return f"each of {', '.join(names)}" if len(names) > 1 else "".join(names)
