"""The rule of `hardneg recommend`: which negatives, from what is measured without a training, and why.

Its conditions are those of docs/results/when.md, and stand in `Situation.advice` alone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hardneg.analysis.base import percent
from hardneg.analysis.miner_sweep import depth_of, way_of
from hardneg.analysis.positive_ranks import rank_in_words
from hardneg.api.recommended_recipe import ALONE, FIRST, GOALS
from hardneg.evaluation.intervals import distributions
from hardneg.records.named_plugins import TOPK

ALONE_WORDS = "in-batch negatives alone"
MOST_FALSE = 0.5
"""Of the first documents, the share of false negatives up to which they are taken.

With half of the queries' negatives false, mined ones still were .051 MRR@10 above in-batch ones (docs/results/when.md,
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
        beyond = int(distributions().binom.ppf(0.025, len(ranks["ranks"]), 0.5))  # of its exact 95 % interval
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
