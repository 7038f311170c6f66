"""Whether one way of training is better than another: tests that know of queries and of seeds.

The tests by query (`significance`) ask whether these trained models would differ on other queries. Those here ask
whether systems that are trained anew would, on other queries. What a mean varies by are the variance components of a
design in which queries cross seeds. With y[a, q, s] the score of system a for query q in the training with seed s,

    y[a, q, s] = mu[a] + query[q] + system_query[a, q] + seed[a, s] + rest[a, q, s]

Queries and seeds are draws (random effects), systems are not. Each query is scored in every training, so queries cross
seeds and systems. Seeds are nested in systems: seed 1 of one system has nothing to do with seed 1 of another, unless
the two have a training in common. Then differences seed by seed are a single such table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.evaluation import LEVEL, intervals
from hardneg.evaluation.intervals import Component, GroupIndex, Interval, Resampling
from hardneg.evaluation.metrics import Scores
from hardneg.evaluation.significance import Design, corrected, pairs_of, tost

SeedTable = NDArray[np.float64]
"""Scores [seeds, queries]."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A mean, or the difference of two, with the components of its variance.

    query: as queries vary, from means over seeds. seeds: as seeds vary, from means over queries; one a table of several
    seeds. rest: what both of these contain, once too often in their sum; one a table of several seeds.
    """

    mean: float
    query: Component
    seeds: tuple[Component, ...]
    rest: tuple[Component, ...]

    @property
    def seed_variance(self) -> float:
        """The variance of the mean over the given queries as seeds vary."""
        return sum(each.variance for each in self.seeds)

    @property
    def variance(self) -> float:
        """The variance of the mean as queries and seeds vary: query + seeds - rest, and no less than query or seeds.

        Of two tables of one size it is 2 / (seeds x queries) of MS(system x query) + MS(seeds) - MS(rest), so that the
        square of t is the quasi-F ratio MS(system) / (MS(system x query) + MS(seeds) - MS(rest)). Source: Clark (1973),
        "The language-as-fixed-effect fallacy", Journal of Verbal Learning and Verbal Behavior 12, for the design: words
        (here seeds) nested in treatments (systems), crossed with subjects (queries).
        """
        seeds, rest = self.seed_variance, sum(each.variance for each in self.rest)
        return max(self.query.variance, seeds, self.query.variance + seeds - rest)

    @property
    def freedom(self) -> float:
        """The degrees of freedom of `variance`.

        Source: Satterthwaite (1946), "An approximate distribution of estimates of variance components", Biometrics 2.
        """
        return satterthwaite(self.variance, (self.query, *self.seeds, *self.rest))

    @property
    def p(self) -> float:
        """The two-sided p of a mean of 0 by Student's t; 1 for fewer than two queries."""
        return _t_p(self.mean, self.variance, self.freedom) if self.query.freedom else 1.0

    @property
    def seed_p(self) -> float:
        """The same for the given queries alone: whether other seeds might turn the sign. 0 where no seed varies.

        Source: Welch (1947), "The generalization of Student's problem when several different population variances are
        involved", Biometrika 34.
        """
        return _t_p(self.mean, self.seed_variance, satterthwaite(self.seed_variance, self.seeds))

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval of the mean by Student's t; None for fewer than two queries."""
        if not self.query.freedom:
            return None
        t = float(intervals.distributions().t.ppf(0.975, self.freedom)) if self.variance else 0.0
        half = t * self.variance**0.5
        return Interval(self.mean - half, self.mean + half)


def spread(tables: Sequence[SeedTable], groups: GroupIndex | None = None) -> Spread:
    """The mean of one table of scores [seeds, queries], or the mean of the first minus that of the second.

    The tables have the same queries; where they have the same seeds too, give the one table of their differences. A
    table of one seed is a model as it is, whose seed does not vary. groups: where they are given, groups of queries are
    the draws, and both parts that queries have come from sums by group.
    """
    by_query = tables[0].mean(axis=0) - (tables[1].mean(axis=0) if len(tables) > 1 else 0.0)
    several = [table for table in tables if len(table) > 1]
    return Spread(
        float(by_query.mean()),
        intervals.mean_variance(by_query, groups),
        tuple(intervals.mean_variance(table.mean(axis=1)) for table in several),
        tuple(_rest_variance(table, groups) for table in several),
    )


def _rest_variance(table: SeedTable, groups: GroupIndex | None) -> Component:
    rest = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
    sums = np.array([intervals.group_sums(row, groups) for row in rest])
    seeds, units = sums.shape
    if seeds < 2 or units < 2:
        return Component(0.0, 0)
    weights, freedom = (units / (units - 1), units - 1.0) if groups is None else intervals.group_weights(groups)
    squares = float((weights * np.square(sums)).sum())
    return Component(squares / (seeds - 1) / seeds / table.shape[1] ** 2, (seeds - 1) * freedom)


def satterthwaite(variance: float, components: Sequence[Component]) -> float:
    """Return the degrees of freedom of a variance that is a sum or difference of these components."""
    parts = sum(each.variance**2 / each.freedom for each in components if each.freedom)
    return variance**2 / parts if parts else float(sum(each.freedom for each in components))


def _t_p(mean: float, variance: float, freedom: float) -> float:
    if variance == 0.0:
        return 1.0 if mean == 0.0 else 0.0
    return float(2 * intervals.distributions().t.sf(abs(mean) / variance**0.5, freedom))


def interval_over_seeds(
    metric: str, seeds: Mapping[int, Scores], groups: Mapping[str, str] | None = None
) -> Interval | None:
    """Return the 95 % interval of a system's mean over queries, or their groups, and seeds."""
    rows = [scores[metric] for scores in seeds.values()]
    table = np.array([[row[query_id] for query_id in rows[0]] for row in rows], np.float64)
    return spread([table], intervals.group_index(list(rows[0]), groups)).interval


def system_intervals(
    scores: Mapping[str, Mapping[str, float]], seeds: Mapping[int, Scores] | None, groups: Mapping[str, str] | None
) -> dict[str, Interval | None]:
    """Return the 95 % interval of a system's mean by each metric: over queries and seeds where it has several seeds."""
    return {
        metric: interval_over_seeds(metric, seeds, groups) if seeds else intervals.interval_of(values, groups)
        for metric, values in scores.items()
    }


SEED_LEVEL = 0.05
"""From this p on, by seeds alone, a difference is within the seeds' noise."""


@dataclass(frozen=True, slots=True)
class TwoLevel:
    """One system against one baseline by one metric, over queries and seeds.

    difference: mean of the system minus that of the baseline. error, query_error, seed_error: its standard errors: of
    both levels, of queries alone (from means over seeds), of seeds alone (from means over queries). freedom: that of
    the t-test. interval, t_p: by the t-test with these. bootstrap_interval, bootstrap_p: by the bootstrap over both
    levels. t_holm, bootstrap_holm, equivalence_holm: p after Holm's correction over all such comparisons by the metric,
    each kind of test on its own. seed_p: p by seeds alone. seeds: how many the system has, and the baseline. shared:
    whether a seed is one draw for both. equivalence_p: TOST's with the t-test's error and freedom, of a difference of
    the margin or more. groups: how many groups the queries come in; None where each is one of its own.
    """

    system: str
    baseline: str
    metric: str
    difference: float
    error: float
    query_error: float
    seed_error: float
    freedom: float
    interval: Interval | None
    t_p: float
    t_holm: float
    bootstrap_interval: Interval | None
    bootstrap_p: float
    bootstrap_holm: float
    seed_p: float
    seeds: tuple[int, int] = (1, 1)
    shared: bool = False
    equivalence_p: float = 1.0
    equivalence_holm: float = 1.0
    groups: int | None = None

    def significant(self, level: float = LEVEL) -> bool:
        """Whether the t-test over queries and seeds, corrected, gives a p below `level`."""
        return self.t_holm < level

    @property
    def within_seeds(self) -> bool:
        """Whether the difference is within the seeds' noise: the same two trained anew might be the other way round."""
        return self.seed_p >= SEED_LEVEL


def compare_over_seeds(
    results: Mapping[str, Scores],
    by_seed: Mapping[str, Mapping[int, Scores]],
    baselines: Sequence[str],
    shared: Sequence[tuple[str, str]] = (),
    options: Resampling | None = None,
    design: Design | None = None,
) -> list[TwoLevel]:
    """Every pair of system and baseline in which one has several seeds, by each metric.

    results: scores by system and metric, means over seeds where there are several; by_seed: those of each seed. shared:
    pairs of systems in which a seed is one draw for both. The systems have been scored on the same queries. Holm's
    correction is over the comparisons by a metric.
    """
    options, design = options or Resampling(), design or Design()
    together, comparisons = {frozenset(pair) for pair in shared}, list[TwoLevel]()
    for metric in dict.fromkeys(name for scores in results.values() for name in scores) if by_seed else ():
        measured = {system: scores for system, scores in results.items() if metric in scores}
        order = sorted(next(iter(measured.values()))[metric])
        groups = intervals.group_index(order, design.groups)
        tables = dict[str, SeedTable]()
        for system, scores in measured.items():
            rows = by_seed.get(system, {0: scores}).values()
            tables[system] = np.array([[each[metric][query_id] for query_id in order] for each in rows], np.float64)
        against = [name for name in baselines if name in tables]
        pairs = pairs_of(list(tables), against) if against or not baselines else []
        pairs = [pair for pair in pairs if {*pair} & by_seed.keys()]
        means = intervals.query_draws(tables, options, groups) if pairs else {}
        units, tests = intervals.unit_count(np.empty(len(order)), groups), list[TwoLevel]()
        for pair in pairs:
            first, second = (tables[name] for name in pair)
            same = frozenset(pair) in together and [*by_seed.get(pair[0], ())] == [*by_seed.get(pair[1], ())]
            difference = spread([first - second] if same else [first, second], groups)
            one = intervals.seed_weights(len(first), pair[0], options)
            other = one if same else intervals.seed_weights(len(second), pair[1], options)
            draws = (one * means[pair[0]]).sum(axis=1) - (other * means[pair[1]]).sum(axis=1)
            errors = (difference.variance**0.5, difference.query.variance**0.5, difference.seed_variance**0.5)
            freedom, several, t_p = difference.freedom, units > 1, difference.p
            ends = intervals.percentile_interval(draws, freedom) if several else None
            p = intervals.bootstrap_p(draws, freedom) if several else 1.0
            tested: list[Any] = [difference.interval, t_p, t_p, ends, p, p, difference.seed_p]
            test = TwoLevel(*pair, metric, difference.mean, *errors, freedom, *tested)
            test = replace(test, seeds=(len(first), len(second)), shared=same, groups=None if groups is None else units)
            tests.append(replace(test, equivalence_p=tost(test.difference, test.error, freedom, units, design.margin)))
        comparisons += corrected(tests, t_holm="t_p", bootstrap_holm="bootstrap_p", equivalence_holm="equivalence_p")
    return comparisons
