"""What the rule of `recommend` chooses by, and the trainings that are chosen from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

from hardneg.plugin import Table, intervals, numbers, significance
from hardneg_advice.miner_sweep import TOPK, depth_of, way_of
from hardneg_advice.planted import percent
from hardneg_advice.positive_ranks import rank_in_words
from hardneg_advice.protocol import SHIPPED
from hardneg_advice.trials import ALONE, FIRST, GOALS, LEXICAL, METRIC, trial

LEVEL = 0.01
ALONE_WORDS = "in-batch negatives alone"
MOST_FALSE = 0.5
"""Of the first documents, the share of false negatives up to which they are taken.

With half of the queries' negatives false, mined ones still were .051 MRR@10 above in-batch ones (docs/what-we-found.md,
D3). RocketQA (Qu et al., NAACL 2021) puts it at about 70 % on MS MARCO, where undenoised ones lost 6 points (Table 3).
"""
MOST_ABOVE, UNKNOWN = 0.5, (0.45, 0.6)
"""Of the first documents, the share above the positive up to which they are taken, and where it tells nothing."""
FEW = 50
"""Queries: by fewer nothing is chosen."""
_GOAL_WORDS: Mapping[str, str] = {"top": "For the top of the lists (MRR@10)", "recall": "For recall (R@100)"}


@dataclass(frozen=True)
class Advice:
    """What to train with. row: the miner in the sweep. alone: in-batch negatives instead. reason: a sentence."""

    row: int
    alone: bool
    reason: str


@dataclass(frozen=True)
class Situation:
    """A collection and a start model, before any training.

    ranks: what analysis `positive-ranks` measured. sweep: what `miner-sweep` did. documents: of the corpus. batch: the
    queries of a step.
    """

    ranks: Mapping[str, Any]
    sweep: Mapping[str, Any]
    documents: int
    batch: int

    @property
    def first(self) -> int:
        """The row of the first documents, as few as were tried."""
        tops = {row: depth_of(each) for row, each in enumerate(self.sweep["miners"]) if each["miner"]["name"] == TOPK}
        return min(tops, key=lambda row: tops[row])

    def arms(self, goal: str) -> dict[str, int | None]:
        """The rows to train with, by the stage: none for in-batch alone, the first documents, what the rule chooses."""
        chosen = self.advice(goal).row
        return {ALONE: None, FIRST: self.first, **({"swept": chosen} if chosen != self.first else {})}

    @property
    def depth(self) -> int:
        """How many these are."""
        return depth_of(self.sweep["miners"][self.first])

    @property
    def false(self) -> float | None:
        """The share of them that is planted positives."""
        share: float | None = self.sweep["miners"][self.first]["planted"]
        return share

    @property
    def reach(self) -> float:
        """The rank at which the nearest of a batch's documents stands on average."""
        return self.documents / self.batch

    def advice(self, goal: str) -> Advice:
        """The rule: one condition after another, the first that holds decides."""
        first, above = f"the first {self.depth}", self.ranks["above"]
        in_batch = f"the nearest in-batch negative of {self.batch:,} queries stands at about rank {self.reach:,.0f}"
        seen = f"{percent(above)} of {first} score above the best positive, so"
        alone = ""
        if goal == "recall":
            alone = f"Mined negatives were shown to raise R@100 on no collection, and {first} to lower it on some"
        elif self.ranks["within"]["1"] > 0.5:
            alone = "Most queries have their best positive first: little to gain, so train little, or not at all"
        elif above is None or above > MOST_ABOVE:
            alone = f"{seen} these are but few of those above it"
        elif self.reach <= self.depth:
            alone = f"Of {self.documents:,} documents batches already have what {first} would bring"
        if alone:
            return Advice(self.first, True, f"{alone}; {in_batch}.")
        reason = f"{seen} it is these that it is mistaken for, and batches seldom have them: {in_batch}."
        if self.false is not None and self.false > MOST_FALSE:
            chosen = int(self.sweep["chosen"])
            few = f"{percent(self.false)} of {first} are false: {named(self.sweep['miners'][chosen])} lets fewer in."
            return Advice(chosen, False, f"{reason} But {few}")
        return Advice(self.first, False, reason)

    def sentence(self, goal: str) -> str:
        """What to train with for a goal, and why."""
        advice = self.advice(goal)
        negatives = ALONE_WORDS if advice.alone else f"{named(self.sweep['miners'][advice.row])}, one of them in a step"
        return f"{_GOAL_WORDS[goal]}: {negatives}. {advice.reason}"

    def doubts(self) -> Iterator[str]:
        """Where the rule does not know, in sentences."""
        above, (low, high) = self.ranks["above"], UNKNOWN
        yield (
            "This is a guess: on collections that it was not made with, the rule was never shown better than in-batch "
            "negatives alone, and on two of eight worse, by .013 and .020 MRR@10. The rate counts more; none is chosen."
        )
        if above is not None and low <= above <= high:
            yield f"Not known which is better where {low:.0%} to {high:.0%} score above the positive: train to know."

    def facts(self) -> Iterator[str]:
        """What the rule goes by, and what stands near the positives, in words."""
        ranks, first = self.ranks, f"the first {self.ranks['depth']}"
        within = percent(ranks["within"][str(ranks["depth"])])
        yield f"{self.documents:,} documents, {self.batch:,} queries a step"
        beyond = int(intervals.distributions().binom.ppf(0.025, len(ranks["ranks"]), 0.5))  # of its exact 95 % interval
        ends = f" [{ranks['ranks'][beyond - 1]:,}, {ranks['ranks'][-beyond]:,}]" if beyond else ""
        median = f"median rank {rank_in_words(ranks)}{ends}"
        yield f"best positives of {ranks['queries']:,} queries: {median}, {within} in {first}"
        yield f"of {first}, {percent(ranks['above'])} score above it"
        if self.false is not None:
            yield f"{percent(self.false)} of them are planted positives"

    def to_dict(self) -> dict[str, Any]:
        """Facts and, by goal, the advice, as JSON holds them."""
        ranks = {name: value for name, value in self.ranks.items() if name != "ranks"}
        facts = {**ranks, "documents": self.documents, "batch": self.batch, "false": self.false, "reach": self.reach}
        return {"facts": facts, "without_training": {goal: asdict(self.advice(goal)) for goal in GOALS}}


def named(row: Mapping[str, Any]) -> str:
    """A miner of a sweep, in words."""
    return f"{way_of(row)}, {depth_of(row)} a query"


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
    def against_best(self) -> dict[str, significance.Comparison]:
        """How each other row compares with the best.

        The best is known after its scores only, so Holm's correction is over all pairs, not over these alone.
        """
        pairs = significance.compare(self.scores, self.metric)
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
            p, mean = numbers.equation("p", self._p(LEXICAL) or 0.0), numbers.number(self.means[LEXICAL])
            yield f"BM25, without any training, has {mean}: more than all of these ({p})."
        for arm, means in self.on_dev.items():
            if len(means) > 1 and (rate := self.rate(arm)) in (min(means), max(means)):
                yield f"{labels[arm]}: its rate, {rate:g}, is at the end of those tried; another may do better."
        trainings = f"{len(self.arms) * len(self.rates)} trainings"
        yield f"One seed, the best of {trainings} by the queries that chose it: on others expect less."

    def table(self, labels: Mapping[str, str]) -> Table:
        """One row a training at its best rate; as shipped, and BM25; labels: of the rows."""
        rates, cells = [f"at {rate:g}" for rate in self.rates], []
        columns = ("trained with", f"{self.metric} on dev", "95% interval", "p against the best", "", *rates)
        for name, mean in self.means.items():
            word = "chosen" if name == self.best else "not told apart" if name in self.as_good else "worse"
            word, p = "no training" if name == LEXICAL else word, self._p(name)
            shown = [labels[name], numbers.number(mean), self.ends(name), "" if p is None else numbers.p_value(p), word]
            cells.append(
                [*shown, *(map(numbers.number, self.on_dev[name].values()) if name in self.arms else [""] * len(rates))]
            )
        return Table(columns, cells)

    def to_dict(self) -> dict[str, Any]:
        """By row the mean, its interval, p against the best after Holm's correction, whether it is as good, rates."""
        ends_of = {name: intervals.interval_of(scores) for name, scores in self.scores.items()}
        return {
            name: {
                "mean": mean,
                "interval": None if (ends := ends_of[name]) is None else [ends.low, ends.high],
                "p_against_best": self._p(name),
                "not_told_apart": name in self.as_good,
                "by_rate": {f"{rate:g}": value for rate, value in self.on_dev.get(name, {}).items()},
            }
            for name, mean in self.means.items()
        }

    def ends(self, name: str) -> str:
        """The interval of a row's mean, in words."""
        return numbers.bounds(numbers.within(intervals.interval_of(self.scores[name]), 0.0))

    def _p(self, name: str) -> float | None:
        """The larger of the two tests' p, by which both are below a level."""
        comparison = self.against_best.get(name)
        return None if comparison is None else max(comparison.t_holm, comparison.randomisation_holm)
