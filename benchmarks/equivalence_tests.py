"""How often tests of equivalence, and tests of queries that come in groups, are wrong: simulated scores.

    python benchmarks/equivalence_tests.py                  1,000 draws a row, three tables of Markdown

The first two tables have systems that differ by exactly the margin, so that every "equivalent" is wrong, and the same
for systems that are equal, where "equivalent" is right and its share is the power. The third has equal systems whose
queries come in groups: every difference that a test finds is wrong. A figure is the share of draws with p < 0.05. A
right test is wrong in at most 0.05 of them, in 1,000 draws at most in 0.066 (binomial, one-sided 99 %).
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hardneg.evaluation.intervals import (
    GroupIndex,
    Resampling,
    SeedTable,
    bootstrap_test,
    mean_variance,
    query_draws,
    seed_weights,
    spread,
)
from hardneg.evaluation.significance import Randomisation, paired_t_test, randomisation_test, tost

Tests = dict[str, float]
"""The p of each test, by its name."""


@dataclass(frozen=True)
class Seeded:
    """Differences of two systems of several seeds: standard deviations of a score's parts, and the margin."""

    queries: int
    seeds: int
    seed: float
    margin: float
    query_seed: float = 0.15
    system_query: float = 0.05

    def tests(self, random: np.random.Generator, mean: float) -> Tests:
        """TOST of one draw of two systems whose means differ by `mean`."""
        first, second = self._table(random) + mean, self._table(random)
        both = spread([first, second])
        p_both = tost(both.mean, both.variance**0.5, both.freedom, self.queries, self.margin)
        averaged = first.mean(axis=0) - second.mean(axis=0)
        return {
            "TOST by query, one seed": by_query(first[0] - second[0], self.margin),
            "TOST by query, means over seeds": by_query(averaged, self.margin),
            "TOST over queries and seeds": p_both,
        }

    def _table(self, random: np.random.Generator) -> SeedTable:
        own = random.normal(0, self.system_query, self.queries)
        rest = random.normal(0, self.query_seed, (self.seeds, self.queries))
        return own + random.normal(0, self.seed, (self.seeds, 1)) + rest

    def __str__(self) -> str:
        return f"{self.queries} | {self.seeds} | {self.seed:g} | {self.margin:g}"


@dataclass(frozen=True)
class Sparse:
    """Differences of two models that are 0 but for few queries: each of these gains, or loses, up to `gain`."""

    queries: int
    changed: float
    gain: float
    margin: float

    def tests(self, random: np.random.Generator, mean: float) -> Tests:
        """TOST of one draw; with a mean all changes are gains, and so many queries change that it comes out."""
        share = mean / (self.gain / 2) if mean else self.changed
        signs = 1.0 if mean else random.choice([-1.0, 1.0], self.queries)
        differences = (random.random(self.queries) < share) * random.uniform(0, self.gain, self.queries) * signs
        return {"TOST by query": by_query(differences, self.margin)}

    def __str__(self) -> str:
        return f"{self.queries} | {self.margin / (self.gain / 2):.3f} | {self.gain:g} | {self.margin:g}"


@dataclass(frozen=True)
class Grouped:
    """Two systems over queries in groups of geometric sizes; `group`: the deviation of what a group shares."""

    groups: int
    size: float
    group: float
    seeds: int = 1
    seed: float = 0.0
    query: float = 0.2

    def tests(self, random: np.random.Generator, mean: float) -> Tests:
        """The tests of one draw of two systems of one mean, by query and by group."""
        index = np.repeat(np.arange(self.groups), random.geometric(1 / self.size, self.groups))
        tables, seed = [self._table(random, index) for _ in range(2)], int(random.integers(1 << 31))
        options, signs = Resampling(2_000, seed), Randomisation(1_000, seed)
        one = tables[0].mean(axis=0) - tables[1].mean(axis=0)
        means = query_draws({"0": tables[0], "1": tables[1]}, options, index)
        weights = [seed_weights(self.seeds, side, options) for side in means]
        drawn = [(means[side] * weight).sum(axis=1) for side, weight in zip(means, weights, strict=True)]
        by_group = spread(tables, index)
        return {
            "t by query": paired_t_test(one),
            "randomised by query": randomisation_test(one, signs),
            "t by group": paired_t_test(one, index),
            "randomised by group": randomisation_test(one, signs, index),
            "t over queries and seeds": spread(tables).p,
            "t over groups and seeds": by_group.p,
            "bootstrap of groups and seeds": bootstrap_test(drawn[0] - drawn[1], by_group.freedom)[1],
        }

    def _table(self, random: np.random.Generator, index: GroupIndex) -> SeedTable:
        shared = random.normal(0, self.group, self.groups)[index]
        own = random.normal(0, self.query, len(index))
        trained = random.normal(0, self.seed, (self.seeds, 1))
        return shared + own + trained + random.normal(0, 0.1, (self.seeds, len(index)))

    def __str__(self) -> str:
        return f"{self.groups} | {self.size:g} | {self.group:g} | {self.seeds} | {self.seed:g}"


SEEDED = [
    Seeded(200, 5, 0.005, 0.05),
    Seeded(200, 5, 0.02, 0.05),
    Seeded(1000, 5, 0.005, 0.02),
    Seeded(1000, 5, 0.02, 0.05),
    Seeded(2000, 5, 0.001, 0.01),
    Seeded(2000, 3, 0.005, 0.02),
]
SPARSE = [
    Sparse(200, 0.05, 0.5, 0.005),
    Sparse(1000, 0.05, 0.5, 0.005),
    Sparse(2000, 0.05, 0.5, 0.005),
    Sparse(5000, 0.05, 0.5, 0.005),
    Sparse(1000, 0.05, 0.5, 0.02),
]
GROUPED = [
    Grouped(200, 5, 0.0),
    Grouped(200, 5, 0.1),
    Grouped(200, 5, 0.3),
    Grouped(50, 5, 0.2),
    Grouped(20, 5, 0.2),
    Grouped(10, 5, 0.2),
    Grouped(200, 5, 0.2, 5, 0.01),
    Grouped(20, 5, 0.2, 5, 0.02),
]


def by_query(differences: NDArray[np.float64], margin: float) -> float:
    """TOST of differences [queries]."""
    component = mean_variance(differences)
    error, units = component.variance**0.5, len(differences)
    return tost(float(differences.mean()), error, component.freedom, units, margin)


def rates(draw: Callable[[np.random.Generator], Tests], draws: int, seed: int) -> Iterator[tuple[str, float]]:
    """The share of draws in which each test gives p < 0.05, by its name."""
    random = np.random.default_rng(seed)
    drawn = [draw(random) for _ in range(draws)]
    for name in drawn[0]:
        yield name, sum(tests[name] < 0.05 for tests in drawn) / draws


def table(head: str, models: list[Seeded] | list[Sparse] | list[Grouped], draws: int, seed: int) -> None:
    """Prints a row a model: what is wrong where the difference is the margin, and right where it is 0."""
    for number, model in enumerate(models):
        margin = getattr(model, "margin", None)
        columns = {}
        for mean, words in [(margin, ", wrong"), (0.0, ", right")] if margin else [(0.0, "")]:
            shares = rates(partial(model.tests, mean=mean), draws, seed)
            columns |= {name + words: share for name, share in shares}
        if not number:
            print(f"\n| {head} | {' | '.join(columns)} |\n|{'---|' * (head.count('|') + 1 + len(columns))}")
        print(f"| {model} | {' | '.join(f'{share:.3f}' for share in columns.values())} |", flush=True)


def main() -> None:
    """Prints the three tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    table("queries | seeds | seed | margin", SEEDED, options.draws, options.seed)
    table("queries | changed at the margin | largest gain | margin", SPARSE, options.draws, options.seed)
    table("groups | mean size | group | seeds | seed", GROUPED, options.draws, options.seed)


if __name__ == "__main__":
    main()
