"""The rule of `hardneg recommend`: which negatives, from what is measured without a training, and why.

Its conditions are those of docs/results/when.md, and stand in `Situation.advice` alone.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hardneg.analysis.base import percent
from hardneg.analysis.miner_sweep import depth_of, way_of
from hardneg.analysis.positive_ranks import rank_in_words
from hardneg.api.recommended_recipe import GOALS
from hardneg.records.named_plugins import TOPK

ALONE_WORDS = "in-batch negatives alone"
MOST_FALSE = 0.5
"""Of the first documents, the share of false negatives up to which they are taken.

With half of the queries' negatives false, mined ones still were .051 MRR@10 above in-batch ones (docs/results/when.md,
D3). RocketQA (Qu et al., NAACL 2021) puts it at about 70 % on MS MARCO, where undenoised ones lost 6 points (Table 3).
"""
RULE = (
    "For the top of the lists the first documents, one a query in a step, where half of the queries have their best "
    "positive among as many, where no batch holds such documents by chance (documents divided by the batch are "
    f"more), and where at most {MOST_FALSE:.0%} of them are false. Where more are, the hardest negatives that let few "
    "false ones in. Elsewhere, and for recall, in-batch negatives alone."
)
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

    @property
    def tried(self) -> list[int]:
        """The rows that trainings are to choose from: the best of each depth, and the first documents."""
        return list(dict.fromkeys([*self.sweep["best_of_each_depth"], self.first]))

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
        rank, reach, first = rank_in_words(self.ranks), f"rank {self.reach:,.0f}", f"the first {self.depth}"
        in_batch = f"the nearest in-batch negative of {self.batch:,} queries stands at about {reach}"
        if goal == "recall":
            reason = f"Mined negatives were shown to raise R@100 on no collection, and {first} to lower it on some"
            return Advice(self.first, True, f"{reason}; {in_batch}.")
        if self.ranks["median_rank"] > self.depth:
            low = f"at rank {rank} or lower" if self.ranks["median_rank"] <= self.ranks["listed"] else rank
            reason = f"Half of the queries have their best positive {low}, so {first} are but few"
            return Advice(self.first, True, f"{reason} of those above it; {in_batch}.")
        if self.reach <= self.depth:
            reason = f"Of {self.documents:,} documents, {in_batch}: batches already have what {first} would bring."
            return Advice(self.first, True, reason)
        reason = f"Half of the queries have their best positive at rank {rank} or better, so it is {first} that it is"
        reason = f"{reason} mistaken for, and batches seldom have them: {in_batch}."
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

    def facts(self) -> Iterator[str]:
        """What the rule goes by, and what stands near the positives, in words."""
        ranks, first = self.ranks, f"the first {self.ranks['depth']}"
        within = percent(ranks["within"][str(ranks["depth"])])
        yield f"{self.documents:,} documents, {self.batch:,} queries a step"
        yield f"best positives of {ranks['queries']:,} queries: median rank {rank_in_words(ranks)}, {within} in {first}"
        yield f"of {first}, {percent(ranks['above'])} score above it"
        if ranks["nearer"] is not None:
            yield f"{percent(ranks['nearer'])} are nearer to it than the query is"
        if self.false is not None:
            yield f"{percent(self.false)} of them are planted positives"
        if ranks["siblings"] is not None:
            yield f"siblings of a positive in its group: {ranks['siblings']:.1f}"

    def to_dict(self) -> dict[str, Any]:
        """Facts and, by goal, the advice, as JSON holds them."""
        ranks = {name: value for name, value in self.ranks.items() if name != "ranks"}
        facts = {**ranks, "documents": self.documents, "batch": self.batch, "false": self.false, "reach": self.reach}
        return {"facts": facts, "advice": {goal: asdict(self.advice(goal)) for goal in GOALS}}


def named(row: Mapping[str, Any]) -> str:
    """A miner of a sweep, in words."""
    return f"{way_of(row)}, {depth_of(row)} a query"
