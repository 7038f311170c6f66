"""What a mean over queries and seeds varies by: variance components of a design in which queries cross seeds.

With y[a, q, s] the score of system a for query q in the training with seed s,

    y[a, q, s] = mu[a] + query[q] + system_query[a, q] + seed[a, s] + rest[a, q, s]

Queries and seeds are draws (random effects), systems are not. Each query is scored in every training, so queries cross
seeds and systems. Seeds are nested in systems: seed 1 of one system has nothing to do with seed 1 of another, unless
the two have a training in common. Then differences seed by seed are a single such table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardneg.evaluation.intervals import (
    Component,
    GroupIndex,
    Interval,
    distributions,
    group_index,
    group_sums,
    group_weights,
    interval_of,
    mean_variance,
)
from hardneg.evaluation.metrics import Scores

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
        return _satterthwaite(self.variance, (self.query, *self.seeds, *self.rest))

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
        return _t_p(self.mean, self.seed_variance, _satterthwaite(self.seed_variance, self.seeds))

    @property
    def interval(self) -> Interval | None:
        """The 95 % interval of the mean by Student's t; None for fewer than two queries."""
        if not self.query.freedom:
            return None
        half = float(distributions().t.ppf(0.975, self.freedom)) * self.variance**0.5 if self.variance else 0.0
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
        mean_variance(by_query, groups),
        tuple(mean_variance(table.mean(axis=1)) for table in several),
        tuple(_rest_variance(table, groups) for table in several),
    )


def spread_over_collections(
    collections: Sequence[Sequence[SeedTable]], groups: Sequence[GroupIndex | None] | None = None
) -> Spread:
    """The same of the mean of several collections' means, each with its own queries and an equal weight.

    Queries are draws within each collection. A seed is one draw for all of them, as one model is measured on each, so
    the part of seeds comes from means over collections. Collections are no draws: nothing is said of others.

    collections: the tables of each, those of one system in the same position. groups: of each one's queries.
    """
    parts = [
        spread(tables, chosen) for tables, chosen in zip(collections, groups or [None] * len(collections), strict=True)
    ]
    several = [at for at, table in enumerate(collections[0]) if len(table) > 1]
    by_seed = [np.mean([tables[at].mean(axis=1) for tables in collections], axis=0) for at in several]
    return Spread(
        float(np.mean([part.mean for part in parts])),
        _mean_of([part.query for part in parts]),
        tuple(mean_variance(values) for values in by_seed),
        tuple(_mean_of([part.rest[at] for part in parts]) for at in range(len(several))),
    )


def _mean_of(components: Sequence[Component]) -> Component:
    """The variance of the mean of independent means."""
    variance = sum(each.variance for each in components)
    return Component(variance / len(components) ** 2, _satterthwaite(variance, components))


def _rest_variance(table: SeedTable, groups: GroupIndex | None) -> Component:
    rest = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
    sums = np.array([group_sums(row, groups) for row in rest])
    seeds, units = sums.shape
    if seeds < 2 or units < 2:
        return Component(0.0, 0)
    weights, freedom = (units / (units - 1), units - 1.0) if groups is None else group_weights(groups)
    squares = float((weights * np.square(sums)).sum())
    return Component(squares / (seeds - 1) / seeds / table.shape[1] ** 2, (seeds - 1) * freedom)


def _satterthwaite(variance: float, components: Sequence[Component]) -> float:
    parts = sum(each.variance**2 / each.freedom for each in components if each.freedom)
    return variance**2 / parts if parts else float(sum(each.freedom for each in components))


def _t_p(mean: float, variance: float, freedom: float) -> float:
    if variance == 0.0:
        return 1.0 if mean == 0.0 else 0.0
    return float(2 * distributions().t.sf(abs(mean) / variance**0.5, freedom))


def system_intervals(
    scores: Mapping[str, Mapping[str, float]], seeds: Mapping[int, Scores] | None, groups: Mapping[str, str] | None
) -> dict[str, Interval | None]:
    """Return the 95 % interval of a system's mean by each metric: over queries and seeds where it has several seeds."""
    return {
        metric: interval_over_seeds(metric, seeds, groups) if seeds else interval_of(values, groups)
        for metric, values in scores.items()
    }


def interval_over_seeds(
    metric: str, seeds: Mapping[int, Scores], groups: Mapping[str, str] | None = None
) -> Interval | None:
    """Return the 95 % interval of a system's mean over queries, or their groups, and seeds."""
    rows = [scores[metric] for scores in seeds.values()]
    table = np.array([[row[query_id] for query_id in rows[0]] for row in rows], np.float64)
    return spread([table], group_index(list(rows[0]), groups)).interval
