"""What miners would take of planted lists, each at several depths, and which of them to choose."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.analysis.planted import OWN, PlantedLists
from hardneg.evaluation.intervals import share_interval
from hardneg.mining.miners.selection import RULES, THRESHOLD_OPTIONS
from hardneg.records.named_plugins import TOPK, WINDOW


@dataclass(frozen=True, slots=True)
class SweptMiner:
    """A miner with its options, known positives and their copies left out of all that it takes.

    name: of the miner. depth: how many it takes of a query's list; of a window, the last rank. skip: the ranks before a
    window. threshold: of a filter. by: the label of the scores that a filter decides by, empty for the list's own.
    """

    name: str
    depth: int
    skip: int = 0
    threshold: float | None = None
    by: str = OWN

    @property
    def way(self) -> tuple[Any, ...]:
        """All but the depth."""
        return self.name, self.skip, self.threshold, self.by

    def setting(self, listed: int) -> dict[str, Any]:
        """As a recipe has it, where lists are so many documents long."""
        if self.name == TOPK:
            return {"name": TOPK, "depth": self.depth}
        if self.name == WINDOW:
            return {"name": WINDOW, "skip": self.skip, "depth": self.depth}
        return {"name": self.name, THRESHOLD_OPTIONS[self.name]: self.threshold, "depth": listed, "count": self.depth}

    def takes(self, lists: PlantedLists) -> NDArray[np.bool_]:
        """Which documents of the lists it takes: bool [Q, C]."""
        if self.name == WINDOW:
            ranks = np.arange(lists.candidate.shape[1])
            return lists.candidate & (ranks >= self.skip) & (ranks < self.depth)
        fit = lists.candidate
        if self.threshold is not None:
            scores, positive = lists.by(self.by)
            fit = fit & RULES[self.name](self.threshold)(scores, positive[:, None])
        return fit & (np.cumsum(fit, axis=1) <= self.depth)


def swept(
    depths: Sequence[int], skips: Sequence[int], thresholds: Mapping[str, Sequence[float]], labels: Sequence[str]
) -> Iterator[SweptMiner]:
    """All to try: the top, windows as long as each depth within the deepest, and each filter by each run's scores."""
    yield from (SweptMiner(TOPK, depth) for depth in depths)
    last = max(depths)
    yield from (SweptMiner(WINDOW, skip + depth, skip) for skip in skips for depth in depths if skip + depth <= last)
    for name, values in thresholds.items():
        for label in labels:
            for value in values:
                yield from (SweptMiner(name, depth, 0, value, label) for depth in depths)


@dataclass(frozen=True, slots=True)
class MinerEvidence:
    """What a miner takes; shares are None where there is nothing to divide by.

    let_in: of the planted positives, how many it takes. let_in_interval: the exact 95 % interval of that, in which a
    query counts once, however many are planted for it. planted: the chance that one of a query's negatives, drawn
    uniformly, is a planted positive, as a mean over queries that have negatives. hardness: the negatives' score minus
    that of the query's known positive, the planted ones left out, as a mean over queries. enough: the share of
    queries with as many negatives as wanted. negatives: how many a query has in the mean.
    """

    let_in: float | None
    planted: float | None
    hardness: float | None
    enough: float
    negatives: float
    let_in_interval: tuple[float, float] | None = None


def evidence(miner: SweptMiner, lists: PlantedLists, wanted: int) -> MinerEvidence:
    """What a miner takes of the lists; queries have enough with `wanted` negatives that are not planted."""
    taken = miner.takes(lists)
    false = taken & lists.hidden
    counts, wrong = taken.sum(axis=1), false.sum(axis=1)
    true = counts - wrong
    gaps = np.where(taken & ~lists.hidden, lists.scores - lists.positive[:, None], 0).sum(axis=1)
    hardness = gaps[true > 0] / true[true > 0]
    let_in = _mean(wrong.sum(), lists.planted.sum())
    ends = None if let_in is None else share_interval(let_in, int((lists.planted > 0).sum()))
    return MinerEvidence(
        let_in,
        _mean((wrong[counts > 0] / counts[counts > 0]).sum(), (counts > 0).sum()),
        _mean(np.nansum(hardness), np.isfinite(hardness).sum()),
        float((true >= wanted).mean()),
        float(counts.mean()),
        None if ends is None else (ends.low, ends.high),
    )


def _mean(total: Any, count: Any) -> float | None:
    return float(total) / float(count) if count else None


@dataclass(frozen=True)
class ChoiceRule:
    """By what a miner is chosen: the hardest negatives under these conditions.

    most_planted: the highest share of planted positives among the negatives. least_queries: the lowest share of the
    queries that have `wanted` negatives. most_let_in: the highest share of the planted positives that is taken.
    """

    most_planted: float = 0.01
    least_queries: float = 0.95
    wanted: int = 4
    most_let_in: float = 1.0

    def __str__(self) -> str:
        let_in = f", that let in at most {100 * self.most_let_in:g} % of these" if self.most_let_in < 1 else ""
        return (
            f"The hardest negatives of which at most {100 * self.most_planted:g} % are planted positives{let_in}, and "
            f"of which at least {100 * self.least_queries:g} % of the queries have {self.wanted} or more; of equally "
            "hard ones those with fewer planted positives, then the first of the sweep."
        )

    def order(self, evidence: Sequence[MinerEvidence]) -> list[int]:
        """The places of all, best first: those that keep all conditions, those with enough, the others."""
        return sorted(range(len(evidence)), key=lambda position: (*self._rank(evidence[position]), position))

    def keeps(self, evidence: MinerEvidence) -> bool:
        """Whether all conditions are kept."""
        return self._rank(evidence)[0] == 0

    def _rank(self, evidence: MinerEvidence) -> tuple[int, float, float]:
        planted = 1.0 if evidence.planted is None else evidence.planted
        hardness = -np.inf if evidence.hardness is None else evidence.hardness
        if evidence.enough < self.least_queries:
            return 2, -evidence.enough, planted
        let_in = 1.0 if evidence.let_in is None else evidence.let_in
        kept = planted <= self.most_planted and let_in <= self.most_let_in
        return (0, -hardness, planted) if kept else (1, planted, -hardness)


def choice(miners: Sequence[SweptMiner], evidence: Sequence[MinerEvidence], rule: ChoiceRule) -> dict[str, Any]:
    """As JSON: the places of the chosen one, and of the best of each way, best first."""
    order = rule.order(evidence)
    by_way = {miners[position].way: position for position in reversed(order)}
    return {
        "chosen": order[0],
        "kept": rule.keeps(evidence[order[0]]),
        "best_of_each_way": sorted(by_way.values(), key=order.index),
    }


def rows(miners: Sequence[SweptMiner], evidence: Sequence[MinerEvidence], listed: int) -> list[dict[str, Any]]:
    """One a miner, as JSON."""
    return [
        {"miner": miner.setting(listed), "by": miner.by, **asdict(each)}
        for miner, each in zip(miners, evidence, strict=True)
    ]
