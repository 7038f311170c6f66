"""Whether one way of training is better than another: tests that know of queries and of seeds.

The tests by query (`significance`) ask whether these trained models would differ on other queries. Those here ask
whether systems that are trained anew would, on other queries. `variance` has the design.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hardneg.evaluation.bootstrap import Resampling, bootstrap_p, percentile_interval, query_draws, seed_weights
from hardneg.evaluation.equivalence import Design, tost
from hardneg.evaluation.intervals import GroupIndex, Interval, group_index, unit_count
from hardneg.evaluation.levels import LEVEL
from hardneg.evaluation.metrics import Scores
from hardneg.evaluation.significance import holm, pairs_of
from hardneg.evaluation.variance import SeedTable, Spread, spread

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
    seeds: tuple[int, int]
    shared: bool
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


@dataclass(frozen=True)
class SeedScores:
    """Scores of all systems by one metric.

    tables: of each system [seeds, queries], queries in one order. seeds: in the order of the rows, of those systems
    that have several. shared: pairs of systems in which a seed is one draw for both. groups: those of the queries.
    """

    tables: Mapping[str, SeedTable]
    seeds: Mapping[str, Sequence[int]]
    shared: Collection[frozenset[str]] = ()
    groups: GroupIndex | None = None

    @classmethod
    def of(
        cls,
        metric: str,
        results: Mapping[str, Scores],
        by_seed: Mapping[str, Mapping[int, Scores]],
        shared: Sequence[tuple[str, str]] = (),
        groups: Mapping[str, str] | None = None,
    ) -> "SeedScores":
        """From the scores of each system, which are means where it has several seeds, and those of each seed."""
        measured = [system for system, scores in results.items() if metric in scores]
        order = sorted(results[measured[0]][metric])
        rows = {system: [*by_seed.get(system, {0: results[system]}).values()] for system in measured}
        tables = {
            system: np.array([[scores[metric][query_id] for query_id in order] for scores in seeds], np.float64)
            for system, seeds in rows.items()
        }
        numbers = {system: list(by_seed[system]) for system in measured if system in by_seed}
        return cls(tables, numbers, frozenset(map(frozenset, shared)), group_index(order, groups))

    def share(self, one: str, other: str) -> bool:
        """Whether two systems are to be compared seed by seed."""
        same = self.seeds.get(one) == self.seeds.get(other)
        return same and frozenset((one, other)) in self.shared

    def compared(self, one: str, other: str) -> Spread:
        """The difference of two systems."""
        first, second = self.tables[one], self.tables[other]
        return spread([first - second] if self.share(one, other) else [first, second], self.groups)

    def drawn(self, one: str, other: str, means: Mapping[str, SeedTable], options: Resampling) -> NDArray[np.float64]:
        """Differences [draws] of two systems; means: of each [draws, seeds], over drawn queries."""
        first = seed_weights(len(self.tables[one]), one, options)
        second = first if self.share(one, other) else seed_weights(len(self.tables[other]), other, options)
        drawn: NDArray[np.float64] = (first * means[one]).sum(axis=1) - (second * means[other]).sum(axis=1)
        return drawn


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
    comparisons: list[TwoLevel] = []
    for metric in dict.fromkeys(name for scores in results.values() for name in scores) if by_seed else ():
        scores = SeedScores.of(metric, results, by_seed, shared, design.groups)
        against = [name for name in baselines if name in scores.tables]
        pairs = pairs_of(list(scores.tables), against) if against or not baselines else []
        pairs = [pair for pair in pairs if {*pair} & scores.seeds.keys()]
        means = query_draws(scores.tables, options, scores.groups) if pairs else {}
        tests = [_compared(metric, scores, pair, scores.drawn(*pair, means, options), design.margin) for pair in pairs]
        t, bootstrap = holm([each.t_p for each in tests]), holm([each.bootstrap_p for each in tests])
        equivalence = holm([each.equivalence_p for each in tests])
        comparisons += [
            replace(each, t_holm=t[i], bootstrap_holm=bootstrap[i], equivalence_holm=equivalence[i])
            for i, each in enumerate(tests)
        ]
    return comparisons


def _compared(
    metric: str, scores: SeedScores, pair: tuple[str, str], draws: NDArray[np.float64], margin: float
) -> TwoLevel:
    """A pair's tests, not yet corrected for number."""
    difference = scores.compared(*pair)
    error, units = difference.variance**0.5, unit_count(scores.tables[pair[0]][0], scores.groups)
    several = units > 1
    p = bootstrap_p(draws, difference.freedom) if several else 1.0
    equivalence_p = tost(difference.mean, error, difference.freedom, units, margin)
    return TwoLevel(
        *pair,
        metric,
        difference.mean,
        error,
        difference.query.variance**0.5,
        difference.seed_variance**0.5,
        difference.freedom,
        difference.interval,
        t_p=difference.p,
        t_holm=difference.p,
        bootstrap_interval=percentile_interval(draws, difference.freedom) if several else None,
        bootstrap_p=p,
        bootstrap_holm=p,
        seed_p=difference.seed_p,
        seeds=(len(scores.tables[pair[0]]), len(scores.tables[pair[1]])),
        shared=scores.share(*pair),
        equivalence_p=equivalence_p,
        equivalence_holm=equivalence_p,
        groups=None if scores.groups is None else units,
    )
