"""Several seeds in a report: means and deviations over seeds, tests over queries and seeds, outcomes in words."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from hardneg.evaluation.equivalence import verdict
from hardneg.evaluation.metrics import Scores, means
from hardneg.evaluation.significance import Comparison
from hardneg.evaluation.two_level import SEED_LEVEL, TwoLevel
from hardneg.evaluation.variance import interval_over_seeds
from hardneg.report.numbers import bounds, number, p_value, signed, within
from hardneg.report.table import Cell, Section, Table

EQUIVALENT, UNDECIDED = "equivalent", "undecided"
WITHIN = f"{UNDECIDED}, within the seeds' noise"
_EXPLAINED = (
    "Systems are compared as if both were trained anew, with other seeds, and measured on other queries. "
    "The t-test is quasi-F: its error has a part of queries and a part of seeds, its degrees of freedom are "
    "Satterthwaite's. It is the test to go by; signs in tables are its. The bootstrap draws both, and needs "
    "no normal distribution; with few seeds it is weak. TOST, of equivalence, has the t-test's error and degrees of "
    "freedom. Holm's correction is over all such comparisons by the metric."
)


def seed_section(
    by_seed: Mapping[str, Mapping[int, Scores]],
    tests: Sequence[TwoLevel],
    level: float,
    groups: Mapping[str, str] | None = None,
) -> Section:
    """Return a table of means and deviations over seeds, and one of the tests with their outcomes.

    level: below this corrected p a difference or an equivalence is significant. groups: that of each query.
    """
    columns = ["metric", "system", "seeds", "mean", "deviation over seeds", "lowest", "highest", "95 % interval"]
    tables = [Table(columns, list(_systems(by_seed, groups)), words=2)]
    if tests:
        parts = ["error by queries", "error by seeds", "t-test p", "Holm", "bootstrap p", "Holm", "TOST p", "Holm"]
        heads = ["metric", "system", "baseline", "outcome", "difference", "95 % interval", *parts]
        tables.append(Table(heads, [_test(each, level) for each in tests], words=4))
    return Section("Seeds", tables, _EXPLAINED if tests else "", lines=_lines(tests, level))


def seed_tests_by_metric(tests: Sequence[TwoLevel], level: float) -> list[Table]:
    """Return the tests for a narrow screen: a table for each metric, with corrected p values alone."""
    columns = ["outcome", "difference", "95 % interval", "t-test p", "bootstrap p"]
    by_metric: dict[str, list[TwoLevel]] = {}
    for each in tests:
        by_metric.setdefault(each.metric, []).append(each)
    return [
        Table([f"{metric}, over seeds", *columns], [_short(each, level) for each in metric_tests], words=2)
        for metric, metric_tests in by_metric.items()
    ]


def outcome(test: TwoLevel | Comparison, level: float) -> str:
    """Return the outcome of a test in words."""
    if test.significant(level):
        return "better" if test.difference > 0 else "worse"
    if verdict(test, level) == EQUIVALENT:
        return EQUIVALENT
    return WITHIN if isinstance(test, TwoLevel) and test.within_seeds else UNDECIDED


def _systems(by_seed: Mapping[str, Mapping[int, Scores]], groups: Mapping[str, str] | None) -> Iterator[list[str]]:
    metrics = dict.fromkeys(name for seeds in by_seed.values() for scores in seeds.values() for name in scores)
    for metric in metrics:
        for system, seeds in by_seed.items():
            scores_by_seed = np.array([means(scores)[metric] for scores in seeds.values()])
            figures = [scores_by_seed.mean(), scores_by_seed.std(ddof=1), scores_by_seed.min(), scores_by_seed.max()]
            interval = bounds(within(interval_over_seeds(metric, seeds, groups), 0.0))
            yield [metric, system, str(len(scores_by_seed)), *(number(float(value)) for value in figures), interval]


def _test(test: TwoLevel, level: float) -> list[Cell]:
    errors = [number(test.query_error), number(test.seed_error)]
    tests = (test.t_p, test.t_holm, test.bootstrap_p, test.bootstrap_holm, test.equivalence_p, test.equivalence_holm)
    p_values = [p_value(value) for value in tests]
    words = [test.metric, test.system, test.baseline, outcome(test, level)]
    texts = [*words, signed(test.difference), _bounds(test), *errors, *p_values]
    return [Cell(text, test.significant(level)) for text in texts]


def _short(test: TwoLevel, level: float) -> list[Cell]:
    p_values = [p_value(test.t_holm), p_value(test.bootstrap_holm)]
    name = Cell(f"{test.system} − {test.baseline}", test.significant(level))
    return [name, *map(Cell, [outcome(test, level), signed(test.difference), _bounds(test), *p_values])]


def _bounds(test: TwoLevel) -> str:
    return bounds(within(test.interval, -1.0), "+.3f")


def _lines(tests: Sequence[TwoLevel], level: float) -> list[str]:
    """What the outcomes shown mean, and what the tests cannot see."""
    said = {outcome(each, level) for each in tests}
    meanings = {
        WITHIN: f"other seeds may turn the sign on these very queries (p ≥ {SEED_LEVEL:g} by seeds alone).",
        UNDECIDED: f"more than the seeds' noise on these queries, but p ≥ {level:g} where other queries count too.",
    }
    lines = [f"{word[:1].upper()}{word[1:]}: {meaning}" for word, meaning in meanings.items() if word in said]
    counts = dict(pair for each in tests for pair in zip((each.system, each.baseline), each.seeds, strict=True))
    once = [name for name, count in counts.items() if count == 1]
    if once:
        lines.append(
            f"One run alone: {', '.join(once)}. What a seed does there, if it was trained, is not in the tests."
        )
    return lines
