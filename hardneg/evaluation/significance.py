"""Paired tests of one system against another, over queries, or over queries and training seeds.

Tests over queries ask whether these trained models would differ on other queries; tests over both ask whether newly
trained ones would. With fewer than two queries, p is 1 and there is no interval. If queries have groups, groups are
the units of all tests, and variances and signs come from group sums.

A difference that is not significant may be zero, or too small to detect here. Two systems are equivalent if
two one-sided tests (TOST) rule out a difference of the margin or more, up or down. Source: Schuirmann (1987), "A
comparison of the two one-sided tests procedure and the power approach for assessing the equivalence of average
bioavailability", Journal of Pharmacokinetics and Biopharmaceutics 15.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hardneg.evaluation import LEVEL, MARGIN, intervals
from hardneg.records import UsageError
from hardneg.runtime import FIXED, generator

Verdict = Literal["difference", "equivalent", "undecided"]
SEED_LEVEL = 0.05
"""The lowest p value over seeds alone for which a difference is within the noise of seeds."""
_BLOCK_VALUES = 1 << 21
_TOLERANCE = 1e-12


@dataclass(frozen=True, slots=True)
class Randomisation:
    """Options for the randomisation test: draws and seed. It is exact if there are at most `samples` sign patterns."""

    samples: int = 100_000
    seed: int = FIXED


@dataclass(frozen=True, slots=True)
class Design:
    """Assumptions of the tests: the margin within which systems are equivalent, and the group of each query, if any."""

    margin: float = MARGIN
    groups: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """One system against one baseline by one metric, over `n` paired queries.

    difference: mean score of the system minus the baseline's; error: its standard error; interval: its 95% t interval.
    t_p, randomisation_p: p values of the two tests of a difference. equivalence_p: the TOST p value for a difference of
    the margin or more. t_holm, randomisation_holm, equivalence_holm: these p values after Holm's correction over all
    comparisons by the metric, separately for each kind of test. groups: the number of query groups.
    bootstrap_interval, bootstrap_p: results of the bootstrap over groups. Without groups, these three are None.
    """

    system: str
    baseline: str
    metric: str
    difference: float
    interval: intervals.Interval | None
    n: int
    t_p: float
    t_holm: float
    randomisation_p: float
    randomisation_holm: float
    error: float = 0.0
    equivalence_p: float = 1.0
    equivalence_holm: float = 1.0
    groups: int | None = None
    bootstrap_interval: intervals.Interval | None = None
    bootstrap_p: float | None = None

    def significant(self, level: float = LEVEL) -> bool:
        """Return whether the corrected p values of both tests are below `level`."""
        return self.t_holm < level and self.randomisation_holm < level


@dataclass(frozen=True, slots=True)
class TwoLevel:
    """One system against one baseline by one metric, over queries and seeds.

    difference: mean of the system minus the baseline's. error, query_error, seed_error: standard errors over both
    levels, over queries (from means over seeds), and over seeds (from means over queries). freedom: degrees of freedom
    of the t-test. interval, t_p: results of that t-test. bootstrap_interval, bootstrap_p: results of the bootstrap over
    both levels. t_holm, bootstrap_holm, equivalence_holm: p values after Holm's correction, for each kind of test over
    all such comparisons by the metric. seed_p: the p value over seeds alone. seeds: numbers of seeds of the system and
    the baseline. shared: whether both share seeds. equivalence_p: the TOST p value for a difference of the margin or
    more, with `error` and `freedom`. groups: the number of query groups; None without groups.
    """

    system: str
    baseline: str
    metric: str
    difference: float
    error: float
    query_error: float
    seed_error: float
    freedom: float
    interval: intervals.Interval | None
    t_p: float
    t_holm: float
    bootstrap_interval: intervals.Interval | None
    bootstrap_p: float
    bootstrap_holm: float
    seed_p: float
    seeds: tuple[int, int] = (1, 1)
    shared: bool = False
    equivalence_p: float = 1.0
    equivalence_holm: float = 1.0
    groups: int | None = None

    def significant(self, level: float = LEVEL) -> bool:
        """Return whether the corrected p value of the t-test over queries and seeds is below `level`."""
        return self.t_holm < level

    @property
    def within_seeds(self) -> bool:
        """Whether the difference is within the noise of seeds, so that retraining might reverse it."""
        return self.seed_p >= SEED_LEVEL


def paired_t_test(differences: NDArray[np.float64], groups: intervals.GroupIndex | None = None) -> float:
    """Return the two-sided p value of Student's paired t-test, from the differences by query [n].

    Equal differences have no variance; p is then 2^(1 - n), the probability that all n queries (or groups) have equal
    signs. If all differences are zero, or for fewer than two queries or groups, p is 1.
    """
    component = intervals.mean_variance(differences, groups)
    if not component.freedom or not differences.any():
        return 1.0
    mean, error, tiny = abs(float(differences.mean())), component.variance**0.5, _TOLERANCE * np.abs(differences).max()
    if error <= tiny:
        return 1.0 if mean <= tiny else float(2.0 ** (1 - intervals.unit_count(differences, groups)))
    return float(2 * intervals.distributions().t.sf(mean / error, component.freedom))


def randomisation_test(
    differences: NDArray[np.float64], options: Randomisation | None = None, groups: intervals.GroupIndex | None = None
) -> float:
    """Return the two-sided p value of the paired randomisation test, from the differences by query [n].

    The signs of the differences, or of group sums, are drawn at random s times. If c of the means are at least as far
    from 0 as the observed mean, p is (1 + c) / (1 + s). With at most s sign patterns, all are counted and p is exact.

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


def _patterns(n: int, count: int, options: Randomisation) -> Iterator[NDArray[np.float64]]:
    """Yield 0/1 rows of length n, in blocks: all patterns if there are `count`, else `count` random ones."""
    random, rows = generator(options.seed, "randomisation test"), max(1, _BLOCK_VALUES // n)
    for start in range(0, count, rows):
        numbers = np.arange(start, min(start + rows, count), dtype=np.int64)
        every = (numbers[:, None] >> np.arange(n)) & 1 if count == 1 << n else None
        yield (random.integers(0, 2, (len(numbers), n), np.uint8) if every is None else every).astype(np.float64)


def tost(difference: float, error: float, freedom: float, units: int, margin: float) -> float:
    """Return the p value of a true difference of `margin` or more: the larger p value of two one-sided t-tests.

    If no query differs, the error is zero. Scores are at most 1, so a difference of `margin` needs at least one
    differing query in 1 / margin; p is then the chance of drawing no such query, (1 - margin)^units.

    Args:
        difference: the mean difference.
        error: the standard error of the mean difference.
        freedom: degrees of freedom of the error; if 0, p is 1.
        units: the number of queries, or of groups of queries.
        margin: the smallest difference that matters.
    """
    distance = margin - abs(difference)
    if freedom <= 0 or units < 2:
        return 1.0
    if error <= _TOLERANCE * max(margin, abs(difference)):
        return float(max(0.0, 1.0 - distance) ** units) if distance > 0 else 1.0
    return float(intervals.distributions().t.sf(distance / error, freedom))


def verdict(test: Comparison | TwoLevel, level: float) -> Verdict:
    """Return "difference" if the tests are significant, "equivalent" if the corrected TOST is, else "undecided"."""
    if test.significant(level):
        return "difference"
    return "equivalent" if test.equivalence_holm < level else "undecided"


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p values of one family after Holm's correction, in the order given.

    Source: Holm, "A simple sequentially rejective multiple test procedure", 1979.
    """
    corrected = [0.0] * len(p_values)
    running = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        running = max(running, min(1.0, p_values[index] * (len(p_values) - rank)))
        corrected[index] = running
    return corrected


def _corrected(tests: Sequence[Any], **columns: str) -> list[Any]:
    """Return the tests of one family with Holm's correction; columns: p value fields by corrected field."""
    families = {name: holm([getattr(test, p) for test in tests]) for name, p in columns.items()}
    return [replace(test, **{name: p[at] for name, p in families.items()}) for at, test in enumerate(tests)]


def compare(
    scores: Mapping[str, Mapping[str, float]],
    metric: str,
    baselines: Sequence[str] = (),
    options: Randomisation | None = None,
    design: Design | None = None,
) -> list[Comparison]:
    """Compare systems by one metric. scores: the scores by system and query.

    Every other system is compared with each baseline; without baselines, each system with every earlier system. Holm's
    correction is over all returned comparisons. options, design: defaults if None.

    Raises:
        UsageError: a baseline is not among the systems, the systems were not scored on the same queries, or a query has
            no group.
    """
    unknown = [name for name in baselines if name not in scores]
    if unknown:
        raise UsageError(f"baseline {', '.join(unknown)} is not among the systems; available: {', '.join(scores)}")
    first = next(iter(scores), "")
    for name, values in scores.items():
        if not values:
            raise UsageError(f"{name} has no scores, so it cannot be compared; evaluate it on the same queries")
        if values.keys() != scores[first].keys():
            counts = f"{len(values)} and {len(scores[first])}"
            raise UsageError(f"{name} and {first} were scored on different queries ({counts}); use the same for both")
    options, design, tests = options or Randomisation(), design or Design(), list[Comparison]()
    for pair in pairs_of(list(scores), list(dict.fromkeys(baselines))):
        system, baseline = scores[pair[0]], scores[pair[1]]
        differences = np.array([score - baseline[query_id] for query_id, score in system.items()], np.float64)
        groups = intervals.group_index(list(system), design.groups)
        component, units = intervals.mean_variance(differences, groups), intervals.unit_count(differences, groups)
        mean, error, freedom = float(differences.mean()), component.variance**0.5, component.freedom
        t_p, randomisation_p = paired_t_test(differences, groups), randomisation_test(differences, options, groups)
        tested = (t_p, t_p, randomisation_p, randomisation_p, error, tost(mean, error, freedom, units, design.margin))
        test = Comparison(*pair, metric, mean, intervals.mean_interval(differences, groups), len(differences), *tested)
        if groups is not None:
            ends, p = None, 1.0
            if freedom:
                resampling = intervals.Resampling(seed=options.seed)
                (draws,) = intervals.query_draws({"": differences[None]}, resampling, groups)[""].T
                ends, p = intervals.bootstrap_test(draws, freedom)
            test = replace(test, groups=units, bootstrap_interval=ends, bootstrap_p=p)
        tests.append(test)
    return _corrected(tests, t_holm="t_p", randomisation_holm="randomisation_p", equivalence_holm="equivalence_p")


def compare_all(
    results: Mapping[str, Mapping[str, Mapping[str, float]]],
    baselines: Sequence[str] = (),
    options: Randomisation | None = None,
    design: Design | None = None,
) -> list[Comparison]:
    """Return the comparisons by all metrics; each metric is one family. results: scores by system, metric and query."""
    comparisons: list[Comparison] = []
    for metric in dict.fromkeys(name for scores in results.values() for name in scores):
        by_system = {system: scores[metric] for system, scores in results.items() if metric in scores}
        measured = [name for name in baselines if name in by_system or name not in results]
        if measured or not baselines:
            comparisons += compare(by_system, metric, measured, options, design)
    return comparisons


def pairs_of(systems: list[str], baselines: list[str]) -> list[tuple[str, str]]:
    """Return all pairs (system, baseline), each once; without baselines, all pairs (later system, earlier system)."""
    if not baselines:
        return [(later, earlier) for earlier, later in combinations(systems, 2)]
    return [
        (system, baseline)
        for position, baseline in enumerate(baselines)
        for system in systems
        if system not in baselines[: position + 1]
    ]


def compare_over_seeds(
    results: Mapping[str, Mapping[str, Mapping[str, float]]],
    by_seed: Mapping[str, Mapping[int, Mapping[str, Mapping[str, float]]]],
    baselines: Sequence[str],
    shared: Sequence[tuple[str, str]] = (),
    options: intervals.Resampling | None = None,
    design: Design | None = None,
) -> list[TwoLevel]:
    """Compare each system with each baseline, by each metric, if at least one of the two has several seeds.

    results: scores by system, metric and query, averaged over seeds if there are several. by_seed: scores by system,
    seed, metric and query. shared: pairs of systems that share seeds. All systems were scored on the same queries.
    Holm's correction is over all comparisons by the same metric.
    """
    options, design = options or intervals.Resampling(), design or Design()
    together, comparisons = {frozenset(pair) for pair in shared}, list[TwoLevel]()
    for metric in dict.fromkeys(name for scores in results.values() for name in scores) if by_seed else ():
        measured = {system: scores for system, scores in results.items() if metric in scores}
        order = sorted(next(iter(measured.values()))[metric])
        groups = intervals.group_index(order, design.groups)
        tables = dict[str, intervals.SeedTable]()
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
            spread = intervals.spread([first - second] if same else [first, second], groups)
            one = intervals.seed_weights(len(first), pair[0], options)
            other = one if same else intervals.seed_weights(len(second), pair[1], options)
            draws = (one * means[pair[0]]).sum(axis=1) - (other * means[pair[1]]).sum(axis=1)
            error, freedom, t_p = spread.variance**0.5, spread.freedom, spread.p
            errors = (error, spread.query.variance**0.5, spread.seed_variance**0.5)
            ends, p = intervals.bootstrap_test(draws, freedom) if units > 1 else (None, 1.0)
            tested: Any = (freedom, spread.interval, t_p, t_p, ends, p, p, spread.seed_p)
            equivalence_p = tost(spread.mean, error, freedom, units, design.margin)
            more: dict[str, Any] = {"seeds": (len(first), len(second)), "shared": same, "equivalence_p": equivalence_p}
            more["groups"] = None if groups is None else units
            tests.append(TwoLevel(*pair, metric, spread.mean, *errors, *tested, **more))
        comparisons += _corrected(tests, t_holm="t_p", bootstrap_holm="bootstrap_p", equivalence_holm="equivalence_p")
    return comparisons
