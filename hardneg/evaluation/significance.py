"""Whether one system is better than another: paired tests over the same queries, corrected for number.

With fewer than two queries nothing can be said: p is 1 and there is no interval.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.evaluation.levels import LEVEL
from hardneg.records.errors import MissingDependency, UsageError
from hardneg.runtime.seeding import generator

_BLOCK_VALUES = 1 << 21
_TOLERANCE = 1e-12


@dataclass(frozen=True, slots=True)
class Randomisation:
    """Draws of the randomisation test (exact where there are no more sign patterns), and their seed."""

    samples: int = 100_000
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Interval:
    """The 95 % confidence interval of a mean."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """One system against one baseline by one metric, over `n` paired queries.

    difference: mean score of the system minus that of the baseline; interval: its 95 % t interval.
    t_holm, randomisation_holm: the p values after Holm's correction over all comparisons by the metric.
    """

    system: str
    baseline: str
    metric: str
    difference: float
    interval: Interval | None
    n: int
    t_p: float
    t_holm: float
    randomisation_p: float
    randomisation_holm: float

    def significant(self, level: float = LEVEL) -> bool:
        """Whether both tests, corrected, give a p below `level`."""
        return self.t_holm < level and self.randomisation_holm < level


def paired_t_test(differences: NDArray[np.float64]) -> float:
    """The two-sided p of Student's paired t-test, from the differences by query [n].

    Where all are the same the test has no variance to go by: then it is the p of n equal signs, 2 ^ (1 - n), and 1 of
    differences that are all zero.
    """
    if len(differences) < 2 or not differences.any():
        return 1.0
    if np.ptp(differences) <= _TOLERANCE * np.abs(differences).max():
        return float(2.0 ** (1 - len(differences)))
    return float(distributions().ttest_rel(differences, np.zeros_like(differences)).pvalue)


def randomisation_test(differences: NDArray[np.float64], options: Randomisation | None = None) -> float:
    """The two-sided p of the paired randomisation test: random signs for the differences by query [n].

    With c of s drawn means at least as far from zero as the observed one, p is (1 + c) / (1 + s); where there
    are no more than s sign patterns, all are counted and p is exact.

    Source: Smucker, Allan and Carterette, "A comparison of statistical significance tests", CIKM 2007.
    """
    options = options or Randomisation()
    moved = differences[differences != 0.0]
    if len(differences) < 2 or len(moved) == 0:
        return 1.0
    patterns = 1 << len(moved)
    exact = patterns <= options.samples
    blocks = _all_patterns(len(moved)) if exact else _drawn_patterns(len(moved), options)
    total, size = moved.sum(), np.abs(moved).sum()
    bound = abs(total) - _TOLERANCE * size
    count = sum(int(np.count_nonzero(np.abs(total - 2.0 * (flips @ moved)) >= bound)) for flips in blocks)
    return count / patterns if exact else (1 + count) / (1 + options.samples)


def holm(p_values: Sequence[float]) -> list[float]:
    """The p values of one family after Holm's correction, in the order given.

    Source: Holm, "A simple sequentially rejective multiple test procedure", 1979.
    """
    corrected = [0.0] * len(p_values)
    running = 0.0
    for place, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        running = max(running, min(1.0, p_values[index] * (len(p_values) - place)))
        corrected[index] = running
    return corrected


def mean_interval(values: NDArray[np.float64]) -> Interval | None:
    """The 95 % interval of the mean of `values` [n] by Student's t; None for fewer than two values."""
    n = len(values)
    if n < 2:
        return None
    mean = float(values.mean())
    half = float(distributions().t.ppf(0.975, n - 1)) * float(values.std(ddof=1)) / n**0.5
    return Interval(mean - half, mean + half)


def share_interval(share: float, n: int) -> Interval | None:
    """The exact 95 % interval of a share of `n` independent cases; None where there are none.

    Of no case among n it reaches up to 1 - .025^(1/n): three cases leave .71 open.

    Source: Clopper and Pearson, "The use of confidence or fiducial limits", Biometrika 1934.
    """
    if n < 1:
        return None
    count, beta = share * n, distributions().beta
    low = 0.0 if count <= 0 else float(beta.ppf(0.025, count, n - count + 1))
    high = 1.0 if count >= n else float(beta.ppf(0.975, count + 1, n - count))
    return Interval(low, high)


def interval_of(scores: Mapping[str, float]) -> Interval | None:
    """`mean_interval` of one system's scores by query."""
    return mean_interval(np.array(list(scores.values()), np.float64))


def compare(
    scores: Mapping[str, Mapping[str, float]],
    metric: str,
    baselines: Sequence[str] = (),
    options: Randomisation | None = None,
) -> list[Comparison]:
    """Compares systems by one metric; `scores` holds each system's scores by query.

    Every other system is compared with each baseline; without baselines, each system with each one before it.
    Holm's correction is over the comparisons returned.

    Raises:
        UsageError: A baseline is not among the systems, or the systems were not scored on the same queries.
    """
    _check(scores, baselines)
    pairs = pairs_of(list(scores), list(dict.fromkeys(baselines)))
    differences = [
        np.array([score - scores[baseline][query_id] for query_id, score in scores[system].items()], np.float64)
        for system, baseline in pairs
    ]
    t_p = [paired_t_test(values) for values in differences]
    randomisation_p = [randomisation_test(values, options) for values in differences]
    t_holm, randomisation_holm = holm(t_p), holm(randomisation_p)
    return [
        Comparison(
            system=system,
            baseline=baseline,
            metric=metric,
            difference=float(values.mean()),
            interval=mean_interval(values),
            n=len(values),
            t_p=t_p[i],
            t_holm=t_holm[i],
            randomisation_p=randomisation_p[i],
            randomisation_holm=randomisation_holm[i],
        )
        for i, ((system, baseline), values) in enumerate(zip(pairs, differences, strict=True))
    ]


def compare_all(
    results: Mapping[str, Mapping[str, Mapping[str, float]]],
    baselines: Sequence[str] = (),
    options: Randomisation | None = None,
) -> list[Comparison]:
    """`compare` for each metric of what `evaluate` returned by system; each metric is a family of its own."""
    comparisons: list[Comparison] = []
    for metric in dict.fromkeys(name for scores in results.values() for name in scores):
        by_system = {system: scores[metric] for system, scores in results.items() if metric in scores}
        measured = [name for name in baselines if name in by_system or name not in results]
        if measured or not baselines:
            comparisons += compare(by_system, metric, measured, options)
    return comparisons


def _check(scores: Mapping[str, Mapping[str, float]], baselines: Sequence[str]) -> None:
    unknown = [name for name in baselines if name not in scores]
    if unknown:
        raise UsageError(f"baseline {', '.join(unknown)} is not among the systems: {', '.join(scores)}")
    first = next(iter(scores), "")
    for name, values in scores.items():
        if not values:
            raise UsageError(f"{name} has no scored query, so it cannot be compared")
        if values.keys() != scores[first].keys():
            counts = f"{len(values)} and {len(scores[first])}"
            raise UsageError(f"{name} and {first} were scored on different queries ({counts})")


def pairs_of(systems: list[str], baselines: list[str]) -> list[tuple[str, str]]:
    """(system, baseline), each pair of systems once."""
    if not baselines:
        return [(later, earlier) for earlier, later in combinations(systems, 2)]
    return [
        (system, baseline)
        for place, baseline in enumerate(baselines)
        for system in systems
        if system not in baselines[: place + 1]
    ]


def _all_patterns(n: int) -> Iterator[NDArray[np.float64]]:
    """Every 0/1 row of length n, in blocks."""
    rows = max(1, _BLOCK_VALUES // n)
    for start in range(0, 1 << n, rows):
        numbers = np.arange(start, min(start + rows, 1 << n), dtype=np.int64)
        yield ((numbers[:, None] >> np.arange(n)) & 1).astype(np.float64)


def _drawn_patterns(n: int, options: Randomisation) -> Iterator[NDArray[np.float64]]:
    """`samples` random 0/1 rows of length n, in blocks."""
    random = generator(options.seed, "randomisation test")
    rows = max(1, _BLOCK_VALUES // n)
    for start in range(0, options.samples, rows):
        count = min(rows, options.samples - start)
        yield random.integers(0, 2, (count, n), np.uint8).astype(np.float64)


def distributions() -> Any:
    """scipy's distributions and tests. Raises MissingDependency where it is not installed."""
    try:
        from scipy import stats
    except ImportError as error:
        raise MissingDependency(f'significance tests need scipy ({error}); pip install "hardneg"') from error
    return stats
