"""Whether one system is better than another, or as good: paired tests over the same queries, corrected for number.

With fewer than two queries nothing can be said: p is 1 and there is no interval. Where queries come in groups, the
units of all tests are groups: variances and signs are those of sums by group.

A difference that is not significant may be nothing, or may be too small for so few queries. Two systems are equivalent
where the data rule out that they differ by the margin or more, either way: two one-sided tests (TOST). Source:
Schuirmann (1987), "A comparison of the two one-sided tests procedure and the power approach for assessing the
equivalence of average bioavailability", Journal of Pharmacokinetics and Biopharmaceutics 15.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from hardneg.evaluation import intervals
from hardneg.evaluation.bootstrap import Resampling, bootstrap_p, percentile_interval, query_draws
from hardneg.evaluation.intervals import GroupIndex, Interval
from hardneg.evaluation.levels import LEVEL, MARGIN
from hardneg.records.errors import UsageError
from hardneg.runtime.seeding import FIXED, generator

Verdict = Literal["difference", "equivalent", "undecided"]
_BLOCK_VALUES = 1 << 21
_TOLERANCE = 1e-12


@dataclass(frozen=True, slots=True)
class Randomisation:
    """Draws of the randomisation test (exact where there are no more sign patterns), and their seed."""

    samples: int = 100_000
    seed: int = FIXED


@dataclass(frozen=True, slots=True)
class Design:
    """What tests take for granted: the margin in which systems are equal, and the group of each query, if any."""

    margin: float = MARGIN
    groups: Mapping[str, str] | None = None


class _Tested(Protocol):
    @property
    def equivalence_holm(self) -> float: ...

    def significant(self, level: float) -> bool: ...


@dataclass(frozen=True, slots=True)
class Comparison:
    """One system against one baseline by one metric, over `n` paired queries.

    difference: mean score of the system minus that of the baseline; error: its standard error; interval: its 95 % t
    interval. t_holm, randomisation_holm, equivalence_holm: p values after Holm's correction over all comparisons by the
    metric, each kind of test on its own. equivalence_p: TOST's, of a difference of the margin or more. groups: how many
    groups the queries come in; None where each is one of its own. bootstrap_interval, bootstrap_p: of groups drawn with
    replacement; None without groups.
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
    error: float = 0.0
    equivalence_p: float = 1.0
    equivalence_holm: float = 1.0
    groups: int | None = None
    bootstrap_interval: Interval | None = None
    bootstrap_p: float | None = None

    def significant(self, level: float = LEVEL) -> bool:
        """Whether both tests, corrected, give a p below `level`."""
        return self.t_holm < level and self.randomisation_holm < level


def paired_t_test(differences: NDArray[np.float64], groups: GroupIndex | None = None) -> float:
    """The two-sided p of Student's paired t-test, from the differences by query [n].

    Where all are the same the test has no variance to go by: then it is the p of equal signs of all n queries, or
    groups, 2 ^ (1 - n), and 1 of differences that are all zero.
    """
    component = intervals.mean_variance(differences, groups)
    if not component.freedom or not differences.any():
        return 1.0
    mean, error, tiny = abs(float(differences.mean())), component.variance**0.5, _TOLERANCE * np.abs(differences).max()
    if error <= tiny:
        return 1.0 if mean <= tiny else float(2.0 ** (1 - intervals.unit_count(differences, groups)))
    return float(2 * intervals.distributions().t.sf(mean / error, component.freedom))


def randomisation_test(
    differences: NDArray[np.float64], options: Randomisation | None = None, groups: GroupIndex | None = None
) -> float:
    """The two-sided p of the paired randomisation test: random signs for the differences by query [n], or by group.

    With c of s drawn means at least as far from zero as the observed one, p is (1 + c) / (1 + s); where there
    are no more than s sign patterns, all are counted and p is exact.

    Source: Smucker, Allan and Carterette, "A comparison of statistical significance tests", CIKM 2007.
    """
    options, sums = options or Randomisation(), intervals.group_sums(differences, groups)
    moved = sums[sums != 0.0]
    if len(sums) < 2 or len(moved) == 0:
        return 1.0
    patterns = min(1 << len(moved), options.samples)
    exact = patterns == 1 << len(moved)
    total, size = moved.sum(), np.abs(moved).sum()
    bound = abs(total) - _TOLERANCE * size
    count = sum(
        int(np.count_nonzero(np.abs(total - 2.0 * (flips @ moved)) >= bound))
        for flips in _patterns(len(moved), patterns, options)
    )
    return count / patterns if exact else (1 + count) / (1 + patterns)


def tost(difference: float, error: float, freedom: float, units: int, margin: float) -> float:
    """The p of a true difference of `margin` or more, up or down: the larger p of two one-sided t-tests.

    Where no query differs there is no error to go by. Scores are at most 1, so that a difference of `margin` needs one
    query in 1 / margin: p is then the chance to meet none of these, (1 - margin)^units.

    Args:
        difference: the mean difference.
        error: its standard error.
        freedom: degrees of freedom of the error; without any p is 1.
        units: how many queries, or groups of queries, there are.
        margin: the least difference that matters.
    """
    distance = margin - abs(difference)
    if freedom <= 0 or units < 2:
        return 1.0
    if error <= _TOLERANCE * max(margin, abs(difference)):
        return float(max(0.0, 1.0 - distance) ** units) if distance > 0 else 1.0
    return float(intervals.distributions().t.sf(distance / error, freedom))


def verdict(test: _Tested, level: float) -> Verdict:
    """A difference where the tests of one are significant; else equivalent where TOST is, corrected; else undecided."""
    if test.significant(level):
        return "difference"
    return "equivalent" if test.equivalence_holm < level else "undecided"


def holm(p_values: Sequence[float]) -> list[float]:
    """The p values of one family after Holm's correction, in the order given.

    Source: Holm, "A simple sequentially rejective multiple test procedure", 1979.
    """
    corrected = [0.0] * len(p_values)
    running = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        running = max(running, min(1.0, p_values[index] * (len(p_values) - rank)))
        corrected[index] = running
    return corrected


def compare(
    scores: Mapping[str, Mapping[str, float]],
    metric: str,
    baselines: Sequence[str] = (),
    options: Randomisation | None = None,
    design: Design | None = None,
) -> list[Comparison]:
    """Compares systems by one metric; `scores` holds each system's scores by query.

    Every other system is compared with each baseline; without baselines, each system with each one before it.
    Holm's correction is over the comparisons returned.

    Raises:
        UsageError: A baseline is not among the systems, the systems were not scored on the same queries, or a query has
            no group.
    """
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
    pairs = pairs_of(list(scores), list(dict.fromkeys(baselines)))
    tests = [_compared(pair, scores, metric, options or Randomisation(), design or Design()) for pair in pairs]
    t, randomisation = holm([each.t_p for each in tests]), holm([each.randomisation_p for each in tests])
    equivalence = holm([each.equivalence_p for each in tests])
    return [
        replace(each, t_holm=t[i], randomisation_holm=randomisation[i], equivalence_holm=equivalence[i])
        for i, each in enumerate(tests)
    ]


def _compared(
    pair: tuple[str, str],
    scores: Mapping[str, Mapping[str, float]],
    metric: str,
    options: Randomisation,
    design: Design,
) -> Comparison:
    """A pair's tests, not yet corrected for number."""
    system, baseline = scores[pair[0]], scores[pair[1]]
    values = np.array([score - baseline[query_id] for query_id, score in system.items()], np.float64)
    groups = intervals.group_index(list(system), design.groups)
    component, mean, units = (
        intervals.mean_variance(values, groups),
        float(values.mean()),
        intervals.unit_count(values, groups),
    )
    t_p, randomisation_p = paired_t_test(values, groups), randomisation_test(values, options, groups)
    equivalence_p = tost(mean, component.variance**0.5, component.freedom, units, design.margin)
    comparison = Comparison(
        *pair,
        metric,
        difference=mean,
        interval=intervals.mean_interval(values, groups),
        n=len(values),
        t_p=t_p,
        t_holm=t_p,
        randomisation_p=randomisation_p,
        randomisation_holm=randomisation_p,
        error=component.variance**0.5,
        equivalence_p=equivalence_p,
        equivalence_holm=equivalence_p,
    )
    if groups is None:
        return comparison
    draws = query_draws({"": values[None]}, Resampling(seed=options.seed), groups)[""][:, 0]
    freedom = component.freedom
    return replace(
        comparison,
        groups=units,
        bootstrap_interval=percentile_interval(draws, freedom) if freedom else None,
        bootstrap_p=bootstrap_p(draws, freedom) if freedom else 1.0,
    )


def compare_all(
    results: Mapping[str, Mapping[str, Mapping[str, float]]],
    baselines: Sequence[str] = (),
    options: Randomisation | None = None,
    design: Design | None = None,
) -> list[Comparison]:
    """`compare` for each metric of what `evaluate` returned by system; each metric is a family of its own."""
    comparisons: list[Comparison] = []
    for metric in dict.fromkeys(name for scores in results.values() for name in scores):
        by_system = {system: scores[metric] for system, scores in results.items() if metric in scores}
        measured = [name for name in baselines if name in by_system or name not in results]
        if measured or not baselines:
            comparisons += compare(by_system, metric, measured, options, design)
    return comparisons


def pairs_of(systems: list[str], baselines: list[str]) -> list[tuple[str, str]]:
    """(system, baseline), each pair of systems once."""
    if not baselines:
        return [(later, earlier) for earlier, later in combinations(systems, 2)]
    return [
        (system, baseline)
        for position, baseline in enumerate(baselines)
        for system in systems
        if system not in baselines[: position + 1]
    ]


def _patterns(n: int, count: int, options: Randomisation) -> Iterator[NDArray[np.float64]]:
    """0/1 rows of length n, in blocks: all, where these are `count`, else so many random ones."""
    random, rows = generator(options.seed, "randomisation test"), max(1, _BLOCK_VALUES // n)
    for start in range(0, count, rows):
        numbers = np.arange(start, min(start + rows, count), dtype=np.int64)
        every = (numbers[:, None] >> np.arange(n)) & 1 if count == 1 << n else None
        yield (random.integers(0, 2, (len(numbers), n), np.uint8) if every is None else every).astype(np.float64)
