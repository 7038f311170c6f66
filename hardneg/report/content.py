"""The content of a report: systems, paired tests, seeds and next steps, as sentences and tables; `page` lays it out."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np

from hardneg.evaluation import LEVEL, MARGIN, intervals, significance
from hardneg.evaluation.metrics import Scores, means
from hardneg.evaluation.metrics_json import Measured
from hardneg.evaluation.significance import Comparison, TwoLevel
from hardneg.records import counted, joined
from hardneg.report.figure import History
from hardneg.report.table import Cell, Section, Table, bounds, number, p_value, signed, within

Test = Comparison | TwoLevel

BRACKETS = (
    "Brackets: 95% confidence interval of the mean over queries (Student's t, clipped to [0, 1]).",
    "Brackets in rows of several seeds: the interval over queries and seeds.",
)
BETTER, WORSE = "▲", "▼"
EQUIVALENT, UNDECIDED = "equivalent", "undecided"
WITHIN = f"{UNDECIDED}, within the seeds' noise"

_Columns = Mapping[str, tuple[str, str]]
_PAIR: dict[str, tuple[str, str]] = {name: (name, "") for name in ("metric", "system", "baseline", "outcome")}
_PAIR |= {"difference": ("difference", "interval"), "t-test p": ("t_p", "t_holm")}
_TOST = {"TOST p": ("equivalence_p", "equivalence_holm")}
_QUERY_COLUMNS = {**_PAIR, "randomised p": ("randomisation_p", "randomisation_holm"), **_TOST}
_SEED_COLUMNS = {**_PAIR, "bootstrap p": ("bootstrap_p", "bootstrap_holm"), **_TOST}
_SEED_COLUMNS |= {"error by queries": ("query_error", ""), "error by seeds": ("seed_error", "")}
_GROUP_COLUMNS = {"bootstrap of groups": ("bootstrap_interval", "")}
"""By column heading, the fields of a test that a cell shows: the main one, and the smaller one below it, or empty."""
_TESTS_EXPLAINED = (
    "Differences are system minus baseline over the same queries, with a 95% t interval. "
    "Tests are two-sided: the paired t-test and the paired randomisation test. Two one-sided t-tests (TOST) test "
    "equivalence. Below each p: after Holm's correction over all comparisons by the same metric."
)
_OVER_SEEDS_EXPLAINED = (
    "Systems are compared as if both were retrained with other seeds and measured on other queries. The t-test is a "
    "quasi-F test: its error combines queries and seeds, with Satterthwaite's degrees of freedom. It decides the "
    "outcome and the signs in tables. The bootstrap resamples queries and seeds and assumes no normal distribution, "
    "but has little power with few seeds. TOST tests equivalence with the t-test's error and degrees of freedom. "
    "Below each p: after Holm's correction over all comparisons over seeds by the same metric."
)


@dataclass(frozen=True, slots=True)
class MeanScore:
    """A mean and its 95% confidence interval; the interval is None for fewer than two queries."""

    mean: float
    interval: intervals.Interval | None = None


@dataclass(frozen=True, slots=True)
class ReportContent:
    """The content of a report page.

    systems: mean scores by system and metric, in display order. queries: the number of queries. comparisons: tests over
    queries. over_seeds: tests over queries and seeds. by_seed: scores by system and seed. histories: the training log
    of each model. settings: values by name, shown before `settings_tables`. marks: for each sign, the systems that a
    system with this sign beats; if empty, each baseline gets a sign. over: a description of the queries, such as "895
    queries of split test"; if empty, their number is shown. gains, by_query: sections with results by query. browse: a
    command that shows the hits and negatives of each query, or empty. sections: analyses, shown before the settings.
    next: next steps, each a sentence and a command. system: the system that the page is about, or empty. began: the
    system that `system` was trained from, or empty. notes: remarks on the means. level: the significance level of
    corrected p values. margin: the equivalence margin. query_groups: the group of each query; None without groups.
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
    settings_tables: Sequence[Table] = ()
    browse: str = ""
    over_seeds: Sequence[TwoLevel] = ()
    by_seed: Mapping[str, Mapping[int, Scores]] = field(default_factory=dict)
    level: float = LEVEL
    system: str = ""
    began: str = ""
    margin: float = MARGIN
    query_groups: Mapping[str, str] | None = None
    next: Sequence[tuple[str, str]] = ()

    @classmethod
    def of(cls, title: str, measured: Measured, **others: Any) -> "ReportContent":
        """Return the content of a report on an evaluation. others: fields to set; they override measured values."""
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
        """One test per system, baseline and metric: over queries and seeds if there is one, else over queries."""
        return deciding(self.comparisons, self.over_seeds)

    @property
    def query_tests(self) -> list[Comparison]:
        """The tests over queries for which there is no test over queries and seeds."""
        return [each for each in self.tests if isinstance(each, Comparison)]

    @property
    def groups(self) -> int:
        """The number of groups of the measured queries; 0 without groups."""
        return len(set((self.query_groups or {}).values()))

    @property
    def main_tests(self) -> "dict[str, Test]":
        """The test of each system, by name, against the first baseline by the first metric; empty without tests."""
        tests = [each for each in self.tests if each.metric in self.metrics[:1]]
        return {each.system: each for each in tests if each.baseline == tests[0].baseline}

    @property
    def baseline(self) -> str:
        """The baseline of the main tests; empty if nothing was compared."""
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
    """Return a system's mean score by metric, each with a 95% interval clipped to [0, 1].

    scores: by metric and query. seeds: the scores of each seed, if there are several; intervals are then over queries
    and seeds. groups: the group of each query, if queries have groups.
    """
    ends = intervals.system_intervals(scores, seeds, groups)
    return {name: MeanScore(mean, within(ends[name], 0.0)) for name, mean in means(scores).items()}


def deciding(comparisons: Iterable[Comparison], over_seeds: Iterable[TwoLevel]) -> list[Test]:
    """Return the comparisons, each replaced with the test over seeds for the same systems and metric if it exists."""
    known = {(each.system, each.baseline, each.metric): each for each in over_seeds}
    return [known.get((each.system, each.baseline, each.metric), each) for each in comparisons]


def p_of(test: Test) -> float:
    """Return a test's Holm-corrected p value: of the t-test over seeds, or the larger of the two over queries."""
    return test.t_holm if isinstance(test, TwoLevel) else max(test.t_holm, test.randomisation_holm)


def outcome(test: Test, level: float) -> str:
    """Return `better`, `worse`, `equivalent` or `undecided`, or `WITHIN` if undecided and within the seeds' noise."""
    if test.significant(level):
        return "better" if test.difference > 0 else "worse"
    if significance.verdict(test, level) == EQUIVALENT:
        return EQUIVALENT
    return WITHIN if isinstance(test, TwoLevel) and test.within_seeds else UNDECIDED


def baseline_marks(report: ReportContent) -> dict[str, str]:
    """Return a letter for each baseline with significant differences (after z, a number); empty for a lone one."""
    named = list(dict.fromkeys(c.baseline for c in report.tests if c.significant(report.level)))
    if len(named) == 1:
        return {named[0]: ""}
    return {name: ascii_lowercase[i] if i < len(ascii_lowercase) else f"[{i + 1}]" for i, name in enumerate(named)}


def marks_of(report: ReportContent, system: str, metric: str) -> str:
    """Return a system's signs for a metric: those in `report.marks` or, without any, one per significant difference."""
    tests = [c for c in report.tests if c.metric == metric and c.significant(report.level)]
    if report.marks:
        # a test may compare the two in the other order
        above = {c.baseline for c in tests if c.system == system and c.difference > 0}
        beaten = above | {c.system for c in tests if c.baseline == system and c.difference < 0}
        return "".join(sign for sign, rows in report.marks.items() if beaten.issuperset(rows))
    letters = baseline_marks(report)
    own = [c for c in tests if c.system == system]
    return "".join(f"{BETTER if c.difference > 0 else WORSE}{letters[c.baseline]}" for c in own)


def legend(report: ReportContent) -> list[str]:
    """Return sentences that explain the bold type, brackets and signs in the table of means, followed by the notes."""
    signs = {} if report.marks else baseline_marks(report)
    proof = f"p < {report.level:g} in both paired tests after Holm's correction"
    proof += " (rows of several seeds: in the t-test over queries and seeds)" if report.over_seeds else ""
    lines = [f"{BETTER}{sign} better, {WORSE}{sign} worse than {name}: {proof}." for name, sign in signs.items()]
    lines += [
        f"{sign} better than {'each of ' if len(rows) > 1 else ''}{', '.join(rows)}: {proof}."
        for sign, rows in report.marks.items()
    ]
    bracketed = any(e.interval for values in report.systems.values() for e in values.values())
    for holds, line in (
        (report.comparisons and not report.marks and not signs, f"No difference has {proof}."),
        (len(report.systems) > 1, "Bold: the highest mean."),
        (bracketed, BRACKETS[0]),
        (report.groups, f"Queries are in {report.groups} groups; intervals and tests are over groups."),
        (report.by_seed, "Rows of several seeds: means over seeds."),
        (report.by_seed and bracketed, BRACKETS[1]),
    ):
        lines += [line] if holds else []
    return [*lines, *report.notes]


def outcomes_explained(report: ReportContent) -> str:
    """Return an explanation of the outcomes `equivalent` and `undecided`."""
    return (
        f"Equivalent: TOST rules out a difference of {report.margin:g} or more in either direction, p < "
        f"{report.level:g} after Holm's correction. If no query differs, p is the chance of drawing none that does. "
        "Undecided: neither a difference nor equivalence is shown."
    )


def systems_section(report: ReportContent) -> Section:
    """Return the section with the mean scores by system; bold marks the highest, and signs significant differences."""
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
    """Return the section on tests over queries, for pairs without a test over queries and seeds."""
    columns = _QUERY_COLUMNS | (_GROUP_COLUMNS if report.groups else {})
    table = _tests_table(report.query_tests, report.level, columns)
    return Section("Paired tests", [table], _TESTS_EXPLAINED, lines=[outcomes_explained(report)])


def tests_by_metric(report: ReportContent) -> list[Table]:
    """Return terminal tables of the tests, one per metric and kind of test, with only the corrected p values."""
    columns = {"outcome": ("outcome", ""), "difference": ("difference", ""), "95% interval": ("interval", "")}
    tables = []
    kinds: list[tuple[Sequence[Test], str, str, str]] = [
        (report.query_tests, "", "randomisation_holm", "randomised p"),
        (report.over_seeds, ", over seeds", "bootstrap_holm", "bootstrap p"),
    ]
    for tests, over, field_name, second in kinds:
        shown = {**columns, "t-test p": ("t_holm", ""), second: (field_name, "")}
        for metric in dict.fromkeys(test.metric for test in tests):
            chosen = [test for test in tests if test.metric == metric]
            table = _tests_table(chosen, report.level, shown)
            pairs = [Cell(f"{test.system} − {test.baseline}", test.significant(report.level)) for test in chosen]
            rows = [[pair, *cells] for pair, cells in zip(pairs, table.rows, strict=True)]
            tables.append(Table([f"{metric}{over}", *table.columns], rows, words=2))
    return tables


def _tests_table(tests: Sequence[Test], level: float, columns: _Columns) -> Table:
    """Return one row per test, bold if it shows a difference."""

    def shown(test: Test, name: str) -> str:
        value: Any = outcome(test, level) if name == "outcome" else getattr(test, name, "")
        if name == "difference":
            return signed(value)
        if name.endswith("interval"):
            return bounds(within(value, -1.0), "+.3f")
        if name.endswith("_error"):
            return number(value)
        return p_value(value) if isinstance(value, float) else str(value)

    rows = []
    for test in tests:
        cells = []
        for name, below in columns.values():
            note = shown(test, below) if below else ""
            note = f"Holm {note}" if below.endswith("_holm") else note
            cells.append(Cell(shown(test, name), test.significant(level), note=note))
        rows.append(cells)
    return Table([*columns], rows, words=4)


def seed_section(report: ReportContent) -> Section:
    """Return the section on seeds: means and deviations and, if there are any, the tests over queries and seeds."""
    rows, level, tests = [], report.level, report.over_seeds
    for metric in dict.fromkeys(name for seeds in report.by_seed.values() for each in seeds.values() for name in each):
        for system, seeds in report.by_seed.items():
            values = np.array([means(scores)[metric] for scores in seeds.values()])
            figures = [values.mean(), values.std(ddof=1), values.min(), values.max()]
            scores = {metric: next(iter(seeds.values()))[metric]}
            interval = bounds(within(intervals.system_intervals(scores, seeds, report.query_groups)[metric], 0.0))
            rows.append([metric, system, str(len(values)), *(number(float(value)) for value in figures), interval])
    columns = ["metric", "system", "seeds", "mean", "deviation over seeds", "lowest", "highest", "95% interval"]
    tables, said = [Table(columns, rows, words=2)], {outcome(each, level) for each in tests}
    if tests:
        tables.append(_tests_table(tests, level, _SEED_COLUMNS))
    meanings = {
        WITHIN: f"other seeds may reverse it on the same queries (p ≥ {significance.SEED_LEVEL:g} by seeds alone).",
        UNDECIDED: f"larger than the seeds' noise on these queries, but p ≥ {level:g} over queries and seeds.",
    }
    lines = [outcomes_explained(report)] if tests else []
    lines += [f"{word[:1].upper()}{word[1:]}: {meaning}" for word, meaning in meanings.items() if word in said]
    counts = dict(pair for each in tests for pair in zip((each.system, each.baseline), each.seeds, strict=True))
    if once := ", ".join(name for name, count in counts.items() if count == 1):
        lines.append(f"Only one run: {once}. If it was trained, the tests do not cover its variation over seeds.")
    return Section("Seeds", tables, _OVER_SEEDS_EXPLAINED if tests else "", lines=lines)


TRANSFORMER = "packaged:all-MiniLM-L6-v2"
_SEEDS = [1, 2, 3, 4, 5]
_MANY = 50  # with so many judged queries, no more are advised


@dataclass(frozen=True)
class RecipeRun:
    """The facts about a finished run of a recipe that its next steps depend on.

    folder: the run folder. command: the command that ran the recipe, or empty if unknown. model: the name of the start
    model. began: the row of the metrics for the model that training started from, or empty. diagnosed: whether the
    user has just run `hardneg diagnose`, so that it is not advised again.
    """

    folder: str
    command: str
    model: str
    began: str = ""
    diagnosed: bool = False

    def again(self, setting: str) -> str:
        """Return the command that reruns the recipe with one more setting, PATH=VALUE."""
        return f"{self.command or 'hardneg recipe run RECIPE'} --set {shlex.quote(setting)}"


def next_steps(
    measured: Measured, system: str = "", runs: Mapping[str, str | Path] | None = None, run: RecipeRun | None = None
) -> list[tuple[str, str]]:
    """Return next steps after an evaluation, based on the first metric: pairs of a sentence and a command to copy.

    system: the row of the trained model; if empty, the row with the highest mean, except BM25. runs: the run file of
    each row; ROW.trec.gz if missing. run: the recipe run that was evaluated, if any.
    """
    results, level, runs = measured.results, measured.significance_level, runs or {}
    metric = next((name for scores in results.values() for name in scores), "")
    mean = {row: means(scores)[metric] for row, scores in results.items() if metric in scores}
    lexical = next((row for row in mean if re.fullmatch(r"bm25([._-].*)?", row, re.IGNORECASE)), "")
    if system not in mean:
        system = max((row for row in mean if row != lexical), key=mean.__getitem__, default="")
    if not system:
        return []
    deciders = [each for each in deciding(measured.comparisons, measured.over_seeds) if each.metric == metric]
    tests = {t.baseline if t.system == system else t.system: t for t in deciders if system in (t.system, t.baseline)}
    undecided = [row for row, test in tests.items() if outcome(test, level) in (UNDECIDED, WITHIN)]

    def worse(than: str) -> bool:
        return than in mean and mean[system] < mean[than] and (than not in tests or tests[than].significant(level))

    def named(*rows: str) -> str:
        return " ".join(f"--run {shlex.quote(str(runs.get(row, f'{row}.trec.gz')))}" for row in rows)

    steps, fell = list[tuple[str, str]](), run is not None and worse(run.began)
    if lexical and worse(lexical):
        better = f"{lexical} is better than {system} ({metric} {number(mean[lexical])} and {number(mean[system])})"
        steps = [(f"{better}: fuse their runs", f"hardneg fuse {named(system, lexical)} --output fused.trec.gz")]
        if run is not None and run.model != TRANSFORMER:
            steps += [("Start from a transformer", run.again(f"model.name={TRANSFORMER}"))]
        if len(results[system][metric]) < _MANY:
            steps += [("Label about fifty queries, and train and test with them", "hardneg start FOLDER --run")]
    if run is not None and fell and not run.diagnosed:
        problem = f"{system} is worse than {run.began}, the model it was trained from"
        steps += [(f"{problem}: lower the learning rate or train for fewer steps", f"hardneg diagnose {run.folder}")]
    elif undecided and not fell:
        problem = f"{counted(len(results[system][metric]), 'query')} do not separate {system} from {joined(undecided)}"
        command = f"hardneg evaluate --qrels MORE {named(system, *undecided)}"
        steps += [_separating(problem, command, len(measured.by_seed.get(system, ())), run)]
    if run is not None and not steps and not fell:
        folder = shlex.quote(run.folder)
        command = f"hardneg search --dataset beir:FOLDER --model {folder}/model --output run.trec.gz"
        steps = [(f"Search a collection with {system}", command)]
    return steps


def _separating(problem: str, command: str, seeds: int, run: RecipeRun | None) -> tuple[str, str]:
    """Return the advice to measure on more queries or train with more seeds, and its command."""
    problem = f"{problem}: search and measure on more queries"
    if run is None or seeds >= len(_SEEDS):
        return problem, command
    return f"{problem}, or train with more seeds", run.again(f"seeds={_SEEDS[: 5 if seeds else 3]}")
