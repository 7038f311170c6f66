"""Uncertainty of a mean over queries and over training seeds: variances, confidence intervals, bootstrap.

Queries may be related, such as questions on one disease or generated from one document. If groups are given, they are
the units drawn at random, and variances are computed from group sums; otherwise, each query is a unit.

A mean over queries and seeds has the variance components of a design in which queries cross seeds. With y[a, q, s] the
score of system a for query q in the training run with seed s,

    y[a, q, s] = mu[a] + query[q] + system_query[a, q] + seed[a, s] + rest[a, q, s]

Queries and seeds are random effects, systems are not. Seeds are nested in systems: seed 1 of one system is unrelated to
seed 1 of another, unless the two share a training run; then the differences of their scores are analysed as one system.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.records import MissingDependency, UsageError
from hardneg.runtime import FIXED, generator

_BLOCK_VALUES = 1 << 21

GroupIndex = NDArray[np.int64]
"""The group number of each query, int64 [queries], counted from 0."""


@dataclass(frozen=True, slots=True)
class Interval:
    """The 95% confidence interval of a mean."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Component:
    """An estimate of the variance of a mean, and its degrees of freedom."""

    variance: float
    freedom: float


def group_index(query_ids: Sequence[str], groups: Mapping[str, str] | None) -> GroupIndex | None:
    """Return each query's group number, int64 [queries], in order of first occurrence; None without groups.

    Raises:
        UsageError: a query has no group.
    """
    if groups is None:
        return None
    if missing := [query_id for query_id in query_ids if query_id not in groups]:
        reason = f"{len(missing)} of {len(query_ids)} queries, such as {missing[0]!r}, have no group"
        raise UsageError(f"{{query_groups}}: {reason}; add lines of query id, tab and group", "query_groups")
    numbers = {name: number for number, name in enumerate(dict.fromkeys(groups[query_id] for query_id in query_ids))}
    return np.array([numbers[groups[query_id]] for query_id in query_ids], np.int64)


def group_sums(values: NDArray[np.float64], groups: GroupIndex | None) -> NDArray[np.float64]:
    """Return the sums of values [queries] by group, float64 [groups]; without groups, return the values themselves."""
    return values if groups is None else np.asarray(np.bincount(groups, values), np.float64)


def unit_count(values: NDArray[np.float64], groups: GroupIndex | None) -> int:
    """Return the number of queries, or the number of groups if queries are grouped."""
    return len(values) if groups is None else int(groups.max()) + 1


def mean_variance(values: NDArray[np.float64], groups: GroupIndex | None = None) -> Component:
    """Return the variance of the mean of n `values` [queries]: the sample variance / n, or a grouped variance.

    With T the group sums of the centred values, and m the group sizes, the grouped variance is
    sum(T^2 / (1 - m / n)) / n^2, with the degrees of freedom for independent queries: G - 1 for G groups of equal size,
    and fewer for unequal sizes. Fewer than two queries or groups give 0 for both. Source: Bell and McCaffrey (2002),
    "Bias reduction in standard errors for linear regression with multi-stage samples", Survey Methodology 28.
    """
    if len(values) == 0 or (units := unit_count(values, groups)) < 2:
        return Component(0.0, 0)
    squares = np.square(group_sums(values - values.mean(), groups))
    if groups is None:
        return Component(float(squares.sum()) / (units - 1) / units, units - 1)
    weights, freedom = group_weights(groups)
    return Component(float(weights @ squares) / len(values) ** 2, freedom)


def group_weights(groups: GroupIndex) -> tuple[NDArray[np.float64], float]:
    """Return Bell and McCaffrey's weights [groups] of squared sums, 1 / (1 - m / n), and the degrees of freedom.

    Group sums of centred independent values have the covariance C = diag(m) - m m' / n. With W the diagonal matrix of
    weights, the degrees of freedom are tr(W C)^2 / tr(W C W C), where tr(W C) = n.
    """
    sizes = np.bincount(groups).astype(np.float64)
    count = sizes.sum()
    weights = 1.0 / (1.0 - sizes / count)
    off_diagonal = (weights @ sizes**2) ** 2 - float(np.square(weights * sizes**2).sum())
    return weights, float(count**2 / (np.square(sizes).sum() + off_diagonal / count**2))


def mean_interval(values: NDArray[np.float64], groups: GroupIndex | None = None) -> Interval | None:
    """Return the 95% interval of the mean of `values` [queries] by Student's t; None for fewer than two units."""
    component = mean_variance(values, groups)
    if not component.freedom:
        return None
    mean = float(values.mean())
    half = float(distributions().t.ppf(0.975, component.freedom)) * component.variance**0.5
    return Interval(mean - half, mean + half)


def interval_of(scores: Mapping[str, float], groups: Mapping[str, str] | None = None) -> Interval | None:
    """Return `mean_interval` of one system's scores by query; groups: the group of each query, if any."""
    return mean_interval(np.array(list(scores.values()), np.float64), group_index(list(scores), groups))


def distributions() -> Any:
    """Return `scipy.stats`, for distributions and tests. Raises MissingDependency if scipy is not installed."""
    try:
        from scipy import stats
    except ImportError as error:
        raise MissingDependency(f'significance tests need scipy ({error}); pip install "hardneg"') from error
    return stats


SeedTable = NDArray[np.float64]
"""A system's scores by one metric, float64 [seeds, queries]."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A mean, or the difference of two, with the components of its variance.

    query: variance over queries, from means over seeds. seeds: for each table with several seeds, the variance over
    seeds, from means over queries. rest: for each such table, the part that `query` and `seeds` share.
    """

    mean: float
    query: Component
    seeds: tuple[Component, ...]
    rest: tuple[Component, ...]

    @property
    def seed_variance(self) -> float:
        """The variance over seeds of the mean over the given queries."""
        return sum(each.variance for each in self.seeds)

    @property
    def variance(self) -> float:
        """The variance of the mean over queries and seeds: query + seeds - rest, but at least max(query, seeds).

        For two tables of one size, it is 2 / (seeds x queries) times V = MS(system x query) + MS(seeds) - MS(rest),
        so that the square of t is the quasi-F ratio MS(system) / V. Source: Clark (1973), "The language-as-fixed-effect
        fallacy", Journal of Verbal Learning and Verbal Behavior 12, for a design in which words (here seeds) are nested
        in treatments (systems) and crossed with subjects (queries).
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
        """The two-sided p value for a mean of 0 by Student's t; 1 for fewer than two queries or groups."""
        return _t_p(self.mean, self.variance, self.freedom) if self.query.freedom else 1.0

    @property
    def seed_p(self) -> float:
        """The two-sided p value over seeds alone, for given queries. Without variance, it is 0, or 1 if the mean is 0.

        Source: Welch (1947), "The generalization of Student's problem when several different population variances are
        involved", Biometrika 34.
        """
        return _t_p(self.mean, self.seed_variance, satterthwaite(self.seed_variance, self.seeds))

    @property
    def interval(self) -> Interval | None:
        """The 95% interval of the mean by Student's t; None for fewer than two queries or groups."""
        if not self.query.freedom:
            return None
        t = float(distributions().t.ppf(0.975, self.freedom)) if self.variance else 0.0
        half = t * self.variance**0.5
        return Interval(self.mean - half, self.mean + half)


def spread(tables: Sequence[SeedTable], groups: GroupIndex | None = None) -> Spread:
    """Return the spread of the mean of one score table [seeds, queries], or of the first table minus the second.

    Two tables have the same queries; if they share seeds, pass one table of differences. A table with one seed is a
    fixed model. groups: the group of each query; `query` and `rest` are then computed from group sums.
    """
    by_query = tables[0].mean(axis=0) - (tables[1].mean(axis=0) if len(tables) > 1 else 0.0)
    several = [table for table in tables if len(table) > 1]
    return Spread(
        float(by_query.mean()),
        mean_variance(by_query, groups),
        tuple(mean_variance(table.mean(axis=1)) for table in several),
        tuple(_rest_variance(table, groups) for table in several),
    )


def _rest_variance(table: SeedTable, groups: GroupIndex | None) -> Component:
    rest = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
    sums = np.array([group_sums(row, groups) for row in rest])
    seeds, units = sums.shape
    if seeds < 2 or units < 2:
        return Component(0.0, 0)
    weights, freedom = (units / (units - 1), units - 1.0) if groups is None else group_weights(groups)
    squares = float((weights * np.square(sums)).sum())
    return Component(squares / (seeds - 1) / seeds / table.shape[1] ** 2, (seeds - 1) * freedom)


def satterthwaite(variance: float, components: Sequence[Component]) -> float:
    """Return the degrees of freedom of a variance that is a sum or difference of the given components."""
    parts = sum(each.variance**2 / each.freedom for each in components if each.freedom)
    return variance**2 / parts if parts else float(sum(each.freedom for each in components))


def _t_p(mean: float, variance: float, freedom: float) -> float:
    if variance == 0.0:
        return 1.0 if mean == 0.0 else 0.0
    return float(2 * distributions().t.sf(abs(mean) / variance**0.5, freedom))


def system_intervals(
    scores: Mapping[str, Mapping[str, float]],
    seeds: Mapping[int, Mapping[str, Mapping[str, float]]] | None,
    groups: Mapping[str, str] | None,
) -> dict[str, Interval | None]:
    """Return a system's 95% interval by metric: over queries or, given scores by seed, over queries and seeds."""
    if not seeds:
        return {metric: interval_of(values, groups) for metric, values in scores.items()}
    intervals = {}
    for metric in scores:
        rows = [by_metric[metric] for by_metric in seeds.values()]
        table = np.array([[row[query_id] for query_id in rows[0]] for row in rows], np.float64)
        intervals[metric] = spread([table], group_index(list(rows[0]), groups)).interval
    return intervals


@dataclass(frozen=True, slots=True)
class Resampling:
    """The number of bootstrap draws over queries and seeds, and the random seed of the draws.

    Queries (or their groups: Field and Welsh (2007), "Bootstrapping clustered data", JRSS B 69) and seeds are drawn
    with replacement, and a drawn query counts in every training run: the pigeonhole bootstrap, which does not
    underestimate the variance (Owen (2007), Annals of Applied Statistics 1(2)). Two corrections apply to few seeds or
    groups: S - 1 of S units are drawn (Rao and Wu (1988), "Resampling inference with complex survey data", JASA 83),
    and percentiles follow Student's t (Hesterberg (2015), "What teachers should know about the bootstrap", The
    American Statistician 69(4)).
    """

    samples: int = 10_000
    seed: int = FIXED


def query_draws(
    tables: Mapping[str, NDArray[np.float64]], options: Resampling, groups: GroupIndex | None = None
) -> dict[str, NDArray[np.float64]]:
    """Return, for each score table [seeds, queries], the means by seed [draws, seeds] over randomly drawn queries.

    The same queries, or groups of queries, are drawn with replacement for all tables.
    """
    scores = np.concatenate(list(tables.values()))
    sums = np.array([group_sums(row, groups) for row in scores])
    sizes = group_sums(np.ones(scores.shape[1]), groups)
    count, random = len(sizes), generator(options.seed, "bootstrap of queries")
    drawn = count if groups is None else max(1, count - 1)
    rows, chances = max(1, _BLOCK_VALUES // count), np.full(count, 1 / count)
    blocks = []
    for start in range(0, options.samples, rows):
        weights = random.multinomial(drawn, chances, min(rows, options.samples - start))
        blocks.append(weights @ sums.T / (weights @ sizes)[:, None])
    ends = np.cumsum([len(table) for table in tables.values()])[:-1]
    return dict(zip(tables, np.split(np.concatenate(blocks), ends, axis=1), strict=True))


def seed_weights(seeds: int, system: str, options: Resampling) -> NDArray[np.float64]:
    """Return weights [draws, seeds] that average S - 1 draws with replacement from a system's S seeds; 1 if S is 1."""
    if seeds == 1:
        return np.ones((options.samples, 1))
    random = generator(options.seed, "bootstrap of seeds", system)
    return random.multinomial(seeds - 1, np.full(seeds, 1 / seeds), options.samples) / (seeds - 1)


def bootstrap_test(draws: NDArray[np.float64], freedom: float) -> tuple[Interval, float]:
    """Return the 95% interval of a mean from its draws [n] and degrees of freedom, and the two-sided p of a mean of 0.

    The interval's ends are the quantiles q and 1 - q, where q is the normal tail beyond Student's t at 97.5%. If c is
    the smaller of the counts of draws <= 0 and >= 0, p is twice Student's t tail at the normal quantile of (1+c)/(1+n).
    """
    stats = distributions()
    share = float(stats.norm.sf(stats.t.ppf(0.975, freedom)))
    low, high = np.quantile(draws, [share, 1 - share])
    fewer = min(int(np.count_nonzero(draws <= 0)), int(np.count_nonzero(draws >= 0)))
    p = 2 * float(stats.t.cdf(stats.norm.ppf((1 + fewer) / (1 + len(draws))), freedom))
    return Interval(float(low), float(high)), min(1.0, p)
