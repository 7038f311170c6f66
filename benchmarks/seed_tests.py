"""How often tests tell two systems apart that are one: trained twice with other seeds, measured on the same queries.

    python benchmarks/seed_tests.py                                simulated scores, 1,000 draws a row
    python benchmarks/seed_tests.py --metrics runs/star-static-demo/metrics.json --system STAR --metric mrr@10
                                                                   scores of real trainings

A row is a table of Markdown: the share of draws in which each test gives p < 0.05. All of it is wrong. A right test has
at most 0.05, in 1,000 draws at most 0.066 (binomial, one-sided 99 %).

Simulated: score = query + system x query + seed + query x seed, all normal. From real trainings: queries are drawn,
each query's score is that of one of the seeds, and the seed's own part is normal: as large as it is, and larger.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hardneg.evaluation.intervals import Resampling, bootstrap_test, query_draws, seed_weights, spread
from hardneg.evaluation.significance import Randomisation, paired_t_test, randomisation_test

Pair = tuple[np.ndarray, np.ndarray]
"""Scores of two systems, each [seeds, queries]."""
_Draw = Callable[[np.random.Generator], Pair]
_AT_A_TIME = 100
"""Draws of scores whose queries are drawn together, as that takes the most time."""


@dataclass(frozen=True)
class Model:
    """Standard deviations of the parts of a score, and how many queries and seeds there are."""

    queries: int
    seeds: int
    seed: float
    query_seed: float = 0.15
    system_query: float = 0.0
    query: float = 0.3

    def draw(self, random: np.random.Generator) -> Pair:
        """Two systems of equal mean."""
        query = random.normal(0, self.query, self.queries)
        first, second = (self._system(random) for _ in range(2))
        return query + first, query + second

    def _system(self, random: np.random.Generator) -> np.ndarray:
        shape = (self.seeds, self.queries)
        own = random.normal(0, self.system_query, self.queries)
        return own + random.normal(0, self.seed, (self.seeds, 1)) + random.normal(0, self.query_seed, shape)

    def __str__(self) -> str:
        parts = f"{self.seed:g} | {self.query_seed:g} | {self.system_query:g}"
        return f"{self.queries} | {self.seeds} | {parts}"


MODELS = [
    Model(200, 5, 0.02),
    Model(200, 5, 0.005),
    Model(200, 5, 0.0),
    Model(200, 5, 0.02, system_query=0.1),
    Model(1000, 5, 0.01, system_query=0.05),
    Model(43, 5, 0.02, system_query=0.1),
    Model(200, 3, 0.02),
    Model(200, 2, 0.02),
]


def p_values(pair: Pair, means: Pair, options: Resampling) -> dict[str, float]:
    """By query: of one model each, and of means over seeds; over queries and seeds: by the bootstrap and the t-test.

    means: of each system [draws, seeds], over queries that were drawn.
    """
    first, second = pair
    found, one = spread(pair), first[0] - second[0]
    right = [seed_weights(len(table), f"corrected {side}", options) for side, table in enumerate(pair)]
    plain = [_as_it_is(len(table), side, options) for side, table in enumerate(pair)]
    return {
        "t by query, one seed": paired_t_test(one),
        "randomised by query, one seed": randomisation_test(one, Randomisation(1_000, options.seed)),
        "t by query, means over seeds": paired_t_test(first.mean(axis=0) - second.mean(axis=0)),
        "bootstrap as it is": bootstrap_test(_difference(means, plain), 1e9)[1],
        "bootstrap, corrected": bootstrap_test(_difference(means, right), found.freedom)[1],
        "t over queries and seeds": found.p,
    }


def _difference(means: Pair, weights: list[np.ndarray]) -> np.ndarray:
    return (means[0] * weights[0]).sum(axis=1) - (means[1] * weights[1]).sum(axis=1)


def _as_it_is(seeds: int, side: int, options: Resampling) -> np.ndarray:
    """Weights [draws, seeds] of as many seeds as there are, which is what a plain bootstrap draws."""
    random = np.random.default_rng([options.seed, side])
    return random.multinomial(seeds, np.full(seeds, 1 / seeds), options.samples) / seeds


def rates(draw: _Draw, draws: int, resamples: int, seed: int) -> dict[str, float]:
    """The share of draws in which each test gives p < 0.05."""
    random, counts = np.random.default_rng(seed), dict[str, int]()
    for start in range(0, draws, _AT_A_TIME):
        pairs = [draw(random) for _ in range(start, min(start + _AT_A_TIME, draws))]
        tables = {f"{place} {side}": table for place, pair in enumerate(pairs) for side, table in enumerate(pair)}
        means = query_draws(tables, Resampling(resamples, start))
        for place, pair in enumerate(pairs):
            options = Resampling(resamples, seed + start + place)
            for name, p in p_values(pair, (means[f"{place} 0"], means[f"{place} 1"]), options).items():
                counts[name] = counts.get(name, 0) + (p < 0.05)
    return {name: count / draws for name, count in counts.items()}


def of_trainings(path: Path, system: str, metric: str, seeds: int, seed_deviation: float | None) -> tuple[str, _Draw]:
    """Draws of trainings made of real ones, from a `metrics.json` that has the system with several seeds.

    A query's score is that of one of the real seeds, drawn for each query and training anew; queries are drawn with
    replacement; a seed's own part is normal, with the deviation that the real seeds have beside the rest, or another.
    """
    made = json.loads(path.read_text(encoding="utf-8"))["per_seed"][system].values()
    table = np.array([list(scores[metric].values()) for scores in made])
    found, count = spread([table]), table.shape[1]
    own = max(0.0, len(table) * (found.seed_variance - found.rest[0].variance)) ** 0.5
    deviation = own if seed_deviation is None else seed_deviation

    def training(random: np.random.Generator, columns: np.ndarray) -> np.ndarray:
        shape = (seeds, len(columns))
        return table[random.integers(0, len(table), shape), columns] + random.normal(0, deviation, (seeds, 1))

    def draw(random: np.random.Generator) -> Pair:
        columns = random.integers(0, count, count)
        return training(random, columns), training(random, columns)

    return f"{system}, {metric} | {count} | {seeds} | {deviation:.4f}", draw


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1_000)
    parser.add_argument("--resamples", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--metrics", type=Path)
    parser.add_argument("--system", default="STAR")
    parser.add_argument("--metric", default="mrr@10")
    given = parser.parse_args()
    rows: dict[str, _Draw] = {str(model): model.draw for model in MODELS}
    head = "queries | seeds | seed | query x seed | system x query"
    if given.metrics:
        made = [
            of_trainings(given.metrics, given.system, given.metric, given.seeds, own) for own in (None, 0.005, 0.02)
        ]
        rows, head = dict(made), "scores | queries | seeds | seed"
    for place, (name, draw) in enumerate(rows.items()):
        found = rates(draw, given.draws, given.resamples, given.seed)
        if not place:
            print(f"| {head} | {' | '.join(found)} |\n|{'---|' * (head.count('|') + 1 + len(found))}")
        print(f"| {name} | {' | '.join(f'{rate:.3f}' for rate in found.values())} |", flush=True)


if __name__ == "__main__":
    main()
