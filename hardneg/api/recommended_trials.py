"""The trainings that a recommendation is chosen by: their scores on the dev queries, and which are told apart."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

from hardneg.api.bench_recipe import SHIPPED
from hardneg.api.recommended_recipe import LEXICAL, METRIC, trial
from hardneg.evaluation.intervals import interval_of
from hardneg.evaluation.levels import LEVEL
from hardneg.evaluation.significance import Comparison, compare
from hardneg.records.wording import counted
from hardneg.report.numbers import bounds, equation, number, p_value, within
from hardneg.report.table import Table


@dataclass(frozen=True)
class Trials:
    """Trainings of `steps` steps, one seed each, beside the model as shipped, and BM25 where it could be searched with.

    measured: by row of their evaluation the metric of each dev query. arms, rates: of the trainings, in the order in
    which equal means are preferred, the model as shipped before all. metric: its name.
    """

    measured: Mapping[str, Mapping[str, float]]
    arms: Sequence[str]
    rates: Sequence[float]
    steps: int
    metric: str = METRIC

    @cached_property
    def on_dev(self) -> dict[str, dict[float, float]]:
        """The mean of each arm at each rate."""
        return {
            arm: {rate: fmean(self.measured[trial(arm, rate)].values()) for rate in self.rates} for arm in self.arms
        }

    @cached_property
    def scores(self) -> dict[str, Mapping[str, float]]:
        """By row the metric of each dev query: as shipped, each arm at its best rate, BM25 where it was searched."""
        arms = {arm: self.measured[trial(arm, self.rate(arm))] for arm in self.arms}
        beside = {name: self.measured[name] for name in (LEXICAL,) if name in self.measured}
        return {SHIPPED: self.measured[SHIPPED], **arms, **beside}

    @cached_property
    def means(self) -> dict[str, float]:
        """The mean over the queries, by row."""
        return {name: fmean(values.values()) for name, values in self.scores.items()}

    @property
    def best(self) -> str:
        """The row with the highest mean, of equal ones the first; BM25 is none to choose."""
        return max((name for name in self.scores if name != LEXICAL), key=lambda name: self.means[name])

    def rate(self, arm: str) -> float:
        """The learning rate at which an arm is best, of equal ones the first."""
        return max(self.on_dev[arm], key=self.on_dev[arm].__getitem__)

    @cached_property
    def against_best(self) -> dict[str, Comparison]:
        """How each other row compares with the best.

        The best is known after its scores only, so Holm's correction is over all pairs, not over these alone.
        """
        pairs = compare(self.scores, self.metric)
        others = {
            pair[pair[0] == self.best]: each for each in pairs if self.best in (pair := (each.system, each.baseline))
        }
        return {name: others[name] for name in self.scores if name != self.best}

    @property
    def as_good(self) -> list[str]:
        """The best, and all that are not told apart from it."""
        apart = {name for name, each in self.against_best.items() if each.significant(LEVEL)}
        return [name for name in self.scores if name not in apart and name != LEXICAL]

    def sentences(self, labels: Mapping[str, str]) -> Iterator[str]:
        """What is told apart, and what makes the figures doubtful; labels: of the rows."""
        test = f"paired tests over the queries, level {LEVEL:g}, Holm's correction over all pairs"
        if self.as_good == [self.best]:
            yield f"Better than all others ({test}): {labels[self.best]}."
        else:
            named = "; ".join(labels[name] for name in self.as_good)
            yield f"Not told apart from the highest ({test}): {named}. Any of these will do."
        if LEXICAL in self.scores and self.means[LEXICAL] > self.means[self.best]:
            p = equation("p", self._p(LEXICAL) or 0.0)
            yield f"BM25, without any training, has {number(self.means[LEXICAL])}: more than all of these ({p})."
        for arm, means in self.on_dev.items():
            if len(means) > 1 and (rate := self.rate(arm)) in (min(means), max(means)):
                yield f"{labels[arm]}: its rate, {rate:g}, is at the end of those tried; another may do better."
        trainings = counted(len(self.arms) * len(self.rates), "training")
        yield f"One seed, the best of {trainings} by the queries that chose it: on others expect less."

    def table(self, labels: Mapping[str, str]) -> Table:
        """One row a training at its best rate; as shipped, and BM25; labels: of the rows."""
        rates, cells = [f"at {rate:g}" for rate in self.rates], []
        columns = ("trained with", f"{self.metric} on dev", "95% interval", "p against the best", "", *rates)
        for name, mean in self.means.items():
            word = "chosen" if name == self.best else "not told apart" if name in self.as_good else "worse"
            word, p = "no training" if name == LEXICAL else word, self._p(name)
            shown = [labels[name], number(mean), self.ends(name), "" if p is None else p_value(p), word]
            cells.append(
                [*shown, *(map(number, self.on_dev[name].values()) if name in self.arms else [""] * len(rates))]
            )
        return Table(columns, cells)

    def to_dict(self) -> dict[str, Any]:
        """By row the mean, its interval, p against the best after Holm's correction, whether it is as good, rates."""
        intervals = {name: interval_of(scores) for name, scores in self.scores.items()}
        return {
            name: {
                "mean": mean,
                "interval": None if (ends := intervals[name]) is None else [ends.low, ends.high],
                "p_against_best": self._p(name),
                "not_told_apart": name in self.as_good,
                "by_rate": {f"{rate:g}": value for rate, value in self.on_dev.get(name, {}).items()},
            }
            for name, mean in self.means.items()
        }

    def ends(self, name: str) -> str:
        """The interval of a row's mean, in words."""
        return bounds(within(interval_of(self.scores[name]), 0.0))

    def _p(self, name: str) -> float | None:
        """The larger of the two tests' p, by which both are below a level."""
        comparison = self.against_best.get(name)
        return None if comparison is None else max(comparison.t_holm, comparison.randomisation_holm)
