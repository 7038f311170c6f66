"""The bootstrap over queries and seeds: both are drawn with replacement, and a draw's score is the mean over both.

Where queries come in groups, groups are drawn in their place, with all their queries; a draw's mean is over as many
queries as it has. Of G groups G - 1 are drawn, for the reason below. Source: Field and Welsh (2007), "Bootstrapping
clustered data", Journal of the Royal Statistical Society B 69.

Queries cross seeds, so a query that is drawn is drawn in every training, and a seed on every query: the pigeonhole
bootstrap. Its variance holds what queries and seeds have together three times instead of once, so it is no less than
it should be. Source: Owen (2007), "The pigeonhole bootstrap", Annals of Applied Statistics 1(2).

A bootstrap of a few seeds tells too little, in two ways, and both are corrected:

- The variance of S things drawn from S is (S - 1) / S of what it should be. S - 1 of them are drawn. Source: Rao and
  Wu (1988), "Resampling inference with complex survey data", Journal of the American Statistical Association 83.
- Percentiles are those of a normal distribution, where those of Student's t would be right. Percentiles further out are
  taken. Source: Hesterberg (2015), "What teachers should know about the bootstrap", The American Statistician 69(4).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardneg.evaluation.intervals import GroupIndex, Interval, group_sums
from hardneg.runtime import FIXED, generator

_BLOCK_VALUES = 1 << 21


@dataclass(frozen=True, slots=True)
class Resampling:
    """Draws of the bootstrap, and their seed."""

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
    from scipy import stats

    share = float(stats.norm.sf(stats.t.ppf(0.975, freedom)))
    low, high = np.quantile(draws, [share, 1 - share])
    return Interval(float(low), float(high))


def bootstrap_p(draws: NDArray[np.float64], freedom: float) -> float:
    """The two-sided p of a mean of 0 from draws [n] of it: where 0 is in their distribution, taken as a t.

    With c of n draws on the side of 0 that fewer are on, or at 0, the normal value of (1 + c) / (1 + n) is looked up in
    Student's t.
    """
    from scipy import stats

    least = min(int(np.count_nonzero(draws <= 0)), int(np.count_nonzero(draws >= 0)))
    return min(1.0, 2 * float(stats.t.cdf(stats.norm.ppf((1 + least) / (1 + len(draws))), freedom)))
