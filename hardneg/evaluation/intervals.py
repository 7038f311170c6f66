"""How far a mean may be from the one that other queries, and seeds, would give: variances, intervals, bootstrap.

Queries may hang together: questions on one disease, or made from one document. Where their groups are given, groups are
what is drawn at random, so that variances come from sums by group. Without groups each query is one of its own.
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
"""The group's number [queries] of each query, counted from 0."""


@dataclass(frozen=True, slots=True)
class Interval:
    """The 95 % confidence interval of a mean."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Component:
    """An estimate of the variance of a mean, and its degrees of freedom."""

    variance: float
    freedom: float


def group_index(query_ids: Sequence[str], groups: Mapping[str, str] | None) -> GroupIndex | None:
    """The number of each query's group; None where there are no groups.

    Raises:
        UsageError: a query has no group.
    """
    if groups is None:
        return None
    if missing := [query_id for query_id in query_ids if query_id not in groups]:
        reason = f"no group of {len(missing)} of {len(query_ids)} queries, such as {missing[0]!r}"
        raise UsageError(f"{{query_groups}}: {reason}: add a line with its id, a tab and a group", "query_groups")
    numbers = {name: number for number, name in enumerate(dict.fromkeys(groups[query_id] for query_id in query_ids))}
    return np.array([numbers[groups[query_id]] for query_id in query_ids], np.int64)


def group_sums(values: NDArray[np.float64], groups: GroupIndex | None) -> NDArray[np.float64]:
    """The sum of the values [queries] by group [groups]; the values themselves where there are no groups."""
    return values if groups is None else np.asarray(np.bincount(groups, values), np.float64)


def unit_count(values: NDArray[np.float64], groups: GroupIndex | None) -> int:
    """How many queries there are, or groups of them."""
    return len(values) if groups is None else int(groups.max()) + 1


def mean_variance(values: NDArray[np.float64], groups: GroupIndex | None = None) -> Component:
    """The variance of the mean of `values` [queries]: the usual one over n, or that of groups.

    With T the sums by group of the values less their mean, and m the sizes of groups, it is
    sum(T^2 / (1 - m / n)) / n^2, with the degrees of freedom that it has where queries are independent: G - 1 for G
    groups of one size, fewer the more unequal they are. Source: Bell and McCaffrey (2002), "Bias reduction in standard
    errors for linear regression with multi-stage samples", Survey Methodology 28, for a mean.
    """
    if len(values) == 0 or (units := unit_count(values, groups)) < 2:
        return Component(0.0, 0)
    squares = np.square(group_sums(values - values.mean(), groups))
    if groups is None:
        return Component(float(squares.sum()) / (units - 1) / units, units - 1)
    weights, freedom = group_weights(groups)
    return Component(float(weights @ squares) / len(values) ** 2, freedom)


def group_weights(groups: GroupIndex) -> tuple[NDArray[np.float64], float]:
    """Bell and McCaffrey's weights [groups] of squared sums, 1 / (1 - m / n), and the degrees of freedom.

    Of independent queries sums less their mean have the covariance C = diag(m) - m m' / n; with the weights W as a
    diagonal the degrees of freedom are tr(W C)^2 / tr(W C W C), in which tr(W C) = n.
    """
    sizes = np.bincount(groups).astype(np.float64)
    count = sizes.sum()
    weights = 1.0 / (1.0 - sizes / count)
    off_diagonal = (weights @ sizes**2) ** 2 - float(np.square(weights * sizes**2).sum())
    return weights, float(count**2 / (np.square(sizes).sum() + off_diagonal / count**2))


def mean_interval(values: NDArray[np.float64], groups: GroupIndex | None = None) -> Interval | None:
    """The 95 % interval of the mean of `values` [queries] by Student's t; None for fewer than two values or groups."""
    component = mean_variance(values, groups)
    if not component.freedom:
        return None
    mean = float(values.mean())
    half = float(distributions().t.ppf(0.975, component.freedom)) * component.variance**0.5
    return Interval(mean - half, mean + half)


def interval_of(scores: Mapping[str, float], groups: Mapping[str, str] | None = None) -> Interval | None:
    """`mean_interval` of one system's scores by query; groups: the group of each query."""
    return mean_interval(np.array(list(scores.values()), np.float64), group_index(list(scores), groups))


def distributions() -> Any:
    """scipy's distributions and tests. Raises MissingDependency where it is not installed."""
    try:
        from scipy import stats
    except ImportError as error:
        raise MissingDependency(f'significance tests need scipy ({error}); pip install "hardneg"') from error
    return stats


@dataclass(frozen=True, slots=True)
class Resampling:
    """Draws of the bootstrap over queries and seeds, and their seed.

    Both are drawn with replacement, and a draw's score is the mean over both. Queries cross seeds, so a query that is
    drawn is drawn in every training, and a seed on every query: the pigeonhole bootstrap. Its variance holds what both
    have together three times instead of once, so it is no less than it should be. Source: Owen (2007), "The pigeonhole
    bootstrap", Annals of Applied Statistics 1(2). Where queries come in groups, groups are drawn in their place, with
    all their queries. Source: Field and Welsh (2007), "Bootstrapping clustered data", Journal of the Royal Statistical
    Society B 69.

    A bootstrap of a few seeds, or groups, tells too little, in two ways, and both are corrected: the variance of S
    things drawn from S is (S - 1) / S of what it should be, so S - 1 are drawn (Rao and Wu (1988), "Resampling
    inference with complex survey data", Journal of the American Statistical Association 83); percentiles are those of a
    normal distribution, so those further out are taken at which Student's t would be (Hesterberg (2015), "What teachers
    should know about the bootstrap", The American Statistician 69(4)).
    """

    samples: int = 10_000
    seed: int = FIXED


def query_draws(
    tables: Mapping[str, NDArray[np.float64]], options: Resampling, groups: GroupIndex | None = None
) -> dict[str, NDArray[np.float64]]:
    """Of each table of scores [seeds, queries] the means by seed [draws, seeds] over queries drawn with replacement.

    The same queries, or groups of queries, are drawn for all tables.
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
    """The weights [draws, seeds] of S - 1 of S seeds drawn with replacement; 1 where there is one alone."""
    if seeds == 1:
        return np.ones((options.samples, 1))
    random = generator(options.seed, "bootstrap of seeds", system)
    return random.multinomial(seeds - 1, np.full(seeds, 1 / seeds), options.samples) / (seeds - 1)


def percentile_interval(draws: NDArray[np.float64], freedom: float) -> Interval:
    """The 95 % interval from draws [n] of a mean, at the percentiles at which a normal value is as far out as t's."""
    stats = distributions()
    share = float(stats.norm.sf(stats.t.ppf(0.975, freedom)))
    low, high = np.quantile(draws, [share, 1 - share])
    return Interval(float(low), float(high))


def bootstrap_p(draws: NDArray[np.float64], freedom: float) -> float:
    """The two-sided p of a mean of 0 from draws [n] of it: where 0 is in their distribution, taken as a t.

    With c of n draws on the side of 0 that fewer are on, or at 0, the normal value of (1 + c) / (1 + n) is looked up in
    Student's t.
    """
    stats = distributions()
    least = min(int(np.count_nonzero(draws <= 0)), int(np.count_nonzero(draws >= 0)))
    return min(1.0, 2 * float(stats.t.cdf(stats.norm.ppf((1 + least) / (1 + len(draws))), freedom)))
