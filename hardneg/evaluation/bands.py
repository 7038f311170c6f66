"""Bands: the interval in which a new run of the same recipe has its means, from a run with several seeds."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean, stdev

from hardneg.evaluation.intervals import distributions
from hardneg.evaluation.metrics import means
from hardneg.evaluation.metrics_json import Measured

ROUNDING = 0.001
"""The least half width of a band: other processors round differently, and ties of ranks may fall the other way."""
LEVEL = 0.01
"""The probability, at most, that any value of a right run is outside; all that seeds change share it."""


@dataclass(frozen=True, slots=True)
class Band:
    """A system's mean over queries by one metric, over trainings with several seeds.

    mean: over seeds. deviation: between seeds (sample standard deviation), 0 where nothing is trained. seeds: how many.
    """

    mean: float
    deviation: float
    seeds: int

    def half_width(self, seeds: int, level: float) -> float:
        """Half the prediction interval for the mean of `seeds` new trainings, at least `ROUNDING`.

        t(1 - level / 2; n - 1) * deviation * sqrt(1 / n + 1 / seeds), n the seeds of the band. Source: Hahn and Meeker,
        Statistical Intervals, 1991, section 4.8.
        """
        if self.seeds < 2:
            return ROUNDING
        quantile = float(distributions().t.ppf(1 - level / 2, self.seeds - 1))
        return max(ROUNDING, quantile * self.deviation * math.sqrt(1 / self.seeds + 1 / seeds))


Bands = Mapping[str, Mapping[str, Band]]
"""System to metric to band."""


@dataclass(frozen=True, slots=True)
class BandCheck:
    """A value beside its band: `low` and `high` are the ends for a run of so many seeds."""

    system: str
    metric: str
    value: float
    seeds: int
    low: float
    high: float

    @property
    def inside(self) -> bool:
        """Whether the value is in its band."""
        return self.low <= self.value <= self.high


def bands_of(measured: Measured) -> dict[str, dict[str, Band]]:
    """The bands that a run with several seeds gives; a system without seeds counts as one that no seed changes."""
    return {
        system: {
            metric: Band(fmean(values), stdev(values) if values[1:] else 0.0, len(values))
            for metric, values in _values(measured, system).items()
        }
        for system in measured.results
    }


def check_bands(measured: Measured, bands: Bands) -> list[BandCheck]:
    """Each value of a run that has a band; the level is divided by the number of those with seeds."""
    pairs = [
        (system, metric, band, values)
        for system, row in bands.items()
        if system in measured.results
        for metric, band in row.items()
        if (values := _values(measured, system).get(metric))
    ]
    checked, trained = [], sum(band.seeds > 1 for _, _, band, _ in pairs)
    for system, metric, band, values in pairs:
        half = band.half_width(len(values), LEVEL / max(trained, 1))
        checked.append(BandCheck(system, metric, fmean(values), len(values), band.mean - half, band.mean + half))
    return checked


def _values(measured: Measured, system: str) -> dict[str, list[float]]:
    """By metric the mean over queries of each seed, or the one mean of a system without seeds."""
    seeds = measured.by_seed.get(system)
    rows = [means(scores) for scores in (seeds.values() if seeds else [measured.results[system]])]
    return {metric: [row[metric] for row in rows] for metric in rows[0]}
