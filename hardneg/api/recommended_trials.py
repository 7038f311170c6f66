"""The trainings that a recommendation is chosen by: their scores on the dev queries, and which are told apart."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hardneg.api.recommended_recipe import ALONE, METRIC
from hardneg.evaluation.intervals import interval_of
from hardneg.evaluation.levels import LEVEL
from hardneg.evaluation.significance import Comparison, compare
from hardneg.records.wording import counted
from hardneg.report.numbers import bounds, number, p_value, within
from hardneg.report.table import Table


@dataclass(frozen=True)
class Trials:
    """Trainings of `steps` steps, one seed each.

    scores: by stage the metric of each dev query, in the order in which equal means are preferred. metric: its name.
    """

    scores: Mapping[str, Mapping[str, float]]
    steps: int
    metric: str = METRIC

    @cached_property
    def means(self) -> dict[str, float]:
        """The mean over the queries, by stage."""
        return {name: sum(values.values()) / len(values) for name, values in self.scores.items()}

    @cached_property
    def best(self) -> str:
        """The stage with the highest mean, of equal ones the first."""
        return max(self.means, key=lambda name: self.means[name])

    @cached_property
    def against_best(self) -> dict[str, Comparison]:
        """How each other stage compares with the best.

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
        return [name for name in self.scores if name not in apart]

    def sentences(self, labels: Mapping[str, str]) -> Iterator[str]:
        """What they came to, in sentences; labels: of the stages."""
        queries = counted(len(self.scores[self.best]), "dev query")
        yield f"{self.metric} on {queries} after {counted(self.steps, 'step')}, one seed:"
        scores = [f"{labels[name]} {number(mean)} {self._ends(name)}" for name, mean in self.means.items()]
        yield f"{'; '.join(scores)} (in brackets 95% intervals over the queries)."
        test = f"paired tests over the queries, level {LEVEL:g}, Holm's correction over all pairs"
        if self.as_good == [self.best]:
            yield f"Better than all others ({test}): {labels[self.best]}."
            return
        many = "None is" if len(self.as_good) == len(self.scores) else "These are not"
        yield f"{many} told apart from the highest ({test}): {'; '.join(labels[name] for name in self.as_good)}."
        yield "Any of these will do."

    def table(self, rows: Mapping[str, Sequence[str]]) -> Table:
        """One row a training; rows: by stage the negatives and how many are taken."""
        columns = ("trained with", "takes", f"{self.metric} on dev", "95% interval", "p against the best", "")
        cells = []
        for name in self.scores:
            word = "chosen" if name == self.best else "not told apart" if name in self.as_good else "worse"
            p = self._p(name)
            mean, p_cell = number(self.means[name]), "" if p is None else p_value(p)
            cells.append([*rows[name], mean, self._ends(name), p_cell, word])
        return Table(columns, cells)

    def to_dict(self) -> dict[str, Any]:
        """By stage the mean, its interval, p against the best after Holm's correction, whether it is as good."""
        intervals = {name: interval_of(scores) for name, scores in self.scores.items()}
        return {
            name: {
                "mean": mean,
                "interval": None if (ends := intervals[name]) is None else [ends.low, ends.high],
                "p_against_best": self._p(name),
                "not_told_apart": name in self.as_good,
            }
            for name, mean in self.means.items()
        }

    def _ends(self, name: str) -> str:
        return bounds(within(interval_of(self.scores[name]), 0.0))

    def _p(self, name: str) -> float | None:
        """The larger of the two tests' p, by which both are below a level."""
        comparison = self.against_best.get(name)
        return None if comparison is None else max(comparison.t_holm, comparison.randomisation_holm)


def in_order(scores: Mapping[str, Mapping[str, float]]) -> dict[str, Mapping[str, float]]:
    """In-batch negatives alone after all others: they are recommended only where they are above these."""
    others = {name: values for name, values in scores.items() if name != ALONE}
    return {**others, ALONE: scores[ALONE]}
