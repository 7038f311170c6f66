"""Miners compared by the positives that they let in and by how hard their negatives are; one of them is chosen."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt

from hardneg.plugin import (
    FILTER_RULES,
    Analysis,
    AnalysisInputs,
    DataError,
    Name,
    Option,
    Reference,
    Table,
    figures,
    intervals,
)
from hardneg_advice.planted import (
    HALVES,
    JUDGED,
    ONE_VECTOR,
    OWN,
    FilterThresholds,
    PlantedLists,
    halves,
    judged,
    known_positives,
    percent,
    planted_lists,
)

TOPK, WINDOW = "topk", "window"
_THRESHOLD_OPTIONS = {"denoised": "below", "max-score": "highest", "pos-margin": "margin", "pos-percent": "share"}
"""What each filter calls its threshold."""
THRESHOLDS: dict[str, tuple[float, ...]] = {"pos-percent": (0.98, 0.95, 0.9), "pos-margin": (0.0, 0.05, 0.1)}
_PLANTED = {
    JUDGED: (
        "Planted: of each of the {queries:,} queries with several judged positives, one stays known and the others are "
        "taken as if nobody had labelled them ({planted:,} with their copies)."
    ),
    HALVES: (
        "Planted: too few queries have several judged positives, so into each of {queries:,} lists goes one half of a "
        "known positive, drawn, at the model's score. It stands for quotes, versions and overlapping cuts of what is "
        "labelled. Other passages that answer in other words may get in more often: no judgement tells of them."
    ),
}


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
        return {"name": self.name, _THRESHOLD_OPTIONS[self.name]: self.threshold, "depth": listed, "count": self.depth}

    def takes(self, lists: PlantedLists) -> NDArray[np.bool_]:
        """Which documents of the lists it takes: bool [Q, C]."""
        if self.name == WINDOW:
            ranks = np.arange(lists.candidate.shape[1])
            return lists.candidate & (ranks >= self.skip) & (ranks < self.depth)
        fit = lists.candidate
        if self.threshold is not None:
            scores, positive = lists.by(self.by)
            fit = fit & FILTER_RULES[self.name](self.threshold)(scores, positive[:, None])
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
        ends,
    )


def share_interval(share: float, n: int) -> tuple[float, float] | None:
    """The exact 95 % interval of a share of `n` independent cases; None where there are none.

    Of no case among n it reaches up to 1 - .025^(1/n): three cases leave .71 open.

    Source: Clopper and Pearson, "The use of confidence or fiducial limits", Biometrika 1934.
    """
    if n < 1:
        return None
    count, beta = share * n, intervals.distributions().beta
    low = 0.0 if count <= 0 else float(beta.ppf(0.025, count, n - count + 1))
    return low, 1.0 if count >= n else float(beta.ppf(0.975, count + 1, n - count))


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


class MinerSweep(Analysis):
    """Compare miners, windows and filters by planted positives and by hardness, and choose one.

    Example: hardneg analyze miner-sweep --run dev.trec.gz --qrels dev.tsv
    """

    name = "miner-sweep"
    version = 3
    title = "which negatives"
    asks = ("qrels", "queries?", "corpus?", "seed")

    run: Annotated[Name, Reference(("run",))] = Field(description="The TREC run that negatives are taken from.")
    scores: Annotated[dict[Name, Name], Reference(("run",)), Option("filter-by")] = Field(
        default_factory=dict, description="A TREC run whose scores filters decide by too, beside those of the runs."
    )
    index: Annotated[Name | None, Reference(("index",), ONE_VECTOR)] = Field(
        None, description="The index that was searched: for halves of positives, where few queries have several."
    )
    model: Annotated[Name | None, Reference(("model",)), Option(metavar="NAME")] = Field(
        None, description="The model of that index."
    )
    depths: Annotated[tuple[PositiveInt, ...], Option("depth"), Field(min_length=1)] = Field(
        (10, 20, 50, 100, 200), description="How many negatives of a query to take; by default 10 to 200."
    )
    skips: Annotated[tuple[PositiveInt, ...], Option("skip")] = Field(
        (5, 10, 20, 50), description="How many ranks windows leave out at the top; by default 5 to 50."
    )
    thresholds: FilterThresholds = Field(THRESHOLDS, description="Of filters, to try; default: a grid of them.")
    most_planted: float = Field(
        ChoiceRule.most_planted, ge=0, le=1, description="The highest share of planted among the negatives."
    )
    most_let_in: float = Field(
        ChoiceRule.most_let_in, ge=0, le=1, description="The highest share of the planted that is taken."
    )
    least_queries: float = Field(
        ChoiceRule.least_queries, ge=0, le=1, description="The lowest share of queries with enough negatives."
    )
    wanted: int = Field(ChoiceRule.wanted, gt=0, description="How many negatives of a query are enough.")
    least_judged: int = Field(50, gt=0, description="Halves are planted where fewer queries have several positives.")
    split: Annotated[Name, Option("-")] = "dev"

    @property
    def rule(self) -> ChoiceRule:
        """By what one is chosen."""
        return ChoiceRule(self.most_planted, self.least_queries, self.wanted, self.most_let_in)

    def missing(self, collection: Mapping[str, Any]) -> Iterator[str]:
        """Queries of the split."""
        splits = collection["splits"]
        if not splits.get(self.split, {}).get("queries"):
            message = f"split {self.split} has no queries; there are {', '.join(sorted(splits))}"
            yield f"{self.name}.split: {message}: name one that is not tested on"

    def measure(self, inputs: AnalysisInputs) -> dict[str, Any]:
        """What each miner takes, and which is chosen.

        Raises:
            DataError: nothing can be planted.
        """
        labels = [OWN, *self.scores]
        lists = self._planted(inputs)
        usable = labels if lists.choice == JUDGED else [OWN]
        miners = list(swept(sorted(set(self.depths)), self.skips, self.thresholds, usable))
        results = [evidence(miner, lists, self.wanted) for miner in miners]
        return {
            "split": self.split,
            "planted": {"kind": lists.choice, "queries": len(lists.planted), "planted": int(lists.planted.sum())},
            "unused": [label for label in labels if label not in usable],
            "listed": max(self.depths),
            "rule": {**asdict(self.rule), "said": str(self.rule)},
            "miners": rows(miners, results, max(self.depths)),
            **choice(miners, results, self.rule),
        }

    def _planted(self, inputs: AnalysisInputs) -> PlantedLists:
        """Judged positives where enough queries have several, or no index is named; halves otherwise."""
        known, labels, depth = known_positives(inputs, self.split), list(self.scores), max(self.depths)
        several = {query_id: doc_ids for query_id, doc_ids in known.items() if len(doc_ids) > 1}
        lists = planted_lists(JUDGED, judged(inputs, self.split, several, labels), depth, labels)
        if len(lists.planted) >= self.least_judged or (self.index is None and len(lists.planted)):
            return lists
        if self.index is None or not known:
            message = "no query has several known positives, of which some could be planted"
            raise DataError(f"{inputs.location('run')}: {message}: name the index and its model, so that halves can be")
        return planted_lists(HALVES, halves(inputs, self.split, known, ("index", "model")), depth)

    def table(self, results: Any) -> Table:
        return _table(results, range(len(results["miners"])))

    def tables(self, results: Any) -> Sequence[Table]:
        return [_table(results, results["best_of_each_way"]), self.table(results)]

    def explain(self, results: Any) -> str:
        """What was planted, the columns, and by what one is chosen."""
        unused = f" Filters by {', '.join(results['unused'])} are left out: halves have no score there."
        return (
            f"{planted_sentence(results)}{unused if results['unused'] else ''} Let in: of what is planted, with the "
            "95% interval over queries. Planted among the negatives: the share of false negatives in a training batch."
            f"{_depth_sentence(results)} Hardness: the negatives' score minus that of the known positive, in the mean. "
            f"The rule: {results['rule']['said']}"
        )

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """One line a way, a point a depth: planted share against hardness; the chosen one in a ring.

        A panel has the top and its windows, and another one, for each run of scores, the top and its filters.
        """
        panels = list(dict.fromkeys(_panel(row) for row in results["miners"]))
        chosen, least = results["miners"][results["chosen"]], 100 * results["rule"]["most_planted"]
        with figures.figure(paths, len(panels), height=4.4, width=5.6) as drawn:
            for axes, panel in zip(drawn, panels, strict=True):
                rows = [row for row in results["miners"] if _panel(row) == panel or row["miner"]["name"] == TOPK]
                figures.lines(axes, {way: list(_points(each)) for way, each in groupby(rows, key=way_of)})
                axes.axhline(least, color="#888888", linewidth=0.8, linestyle="--")
                if chosen in rows and (point := list(_points([chosen]))):
                    ring = {"facecolors": "none", "edgecolors": figures.COLOURS[5], "linewidths": 1.8, "zorder": 3}
                    axes.scatter(*point[0], s=140, **ring)
                figures.plain_axes(
                    axes, panel, "hardness (score minus the positive's)", "planted among the negatives (%)"
                )


def _panel(row: Mapping[str, Any]) -> str:
    if row["miner"]["name"] in (TOPK, WINDOW):
        return "ranks"
    return f"filters by {row['by']}" if row["by"] else "filters"


def _points(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[float, float]]:
    return ((row["hardness"], 100 * row["planted"]) for row in rows if None not in (row["hardness"], row["planted"]))


def planted_sentence(results: Any) -> str:
    """What was planted, in words."""
    return _PLANTED[results["planted"]["kind"]].format(**results["planted"])


def _depth_sentence(results: Any) -> str:
    """From which depth on the bound of planted ones is kept by every miner: where one is planted a query."""
    most = results["rule"]["most_planted"]
    least = math.ceil(1 / most) if most else math.inf
    if results["planted"]["kind"] != HALVES or least > results["listed"]:
        return ""
    return (
        f" One is planted a query, so whatever takes {least:,} or more of a query keeps the bound of {100 * most:g} %: "
        "there this share depends on the depth, and the share let in on the miner."
    )


def let_in_share(row: Mapping[str, Any]) -> str:
    """The share of the planted that is taken, and its interval."""
    ends = row["let_in_interval"]
    return percent(row["let_in"]) + ("" if ends is None else f" [{100 * ends[0]:.1f}, {100 * ends[1]:.1f}]")


def way_of(row: Mapping[str, Any]) -> str:
    """A miner without its depth, in words."""
    miner, by = row["miner"], f" by {row['by']}" if row["by"] else ""
    if miner["name"] == WINDOW:
        return f"window after rank {miner['skip']}"
    options = [f"{value:g}" for name, value in miner.items() if name not in ("name", "depth", "count")]
    return " ".join([miner["name"], *options]) + by


def depth_of(row: Mapping[str, Any]) -> int:
    """How many of a list it takes at most."""
    miner = row["miner"]
    return int(miner.get("count", miner["depth"] - miner.get("skip", 0)))


def _table(results: Any, positions: Sequence[int]) -> Table:
    columns = ("miner", "takes", "let in", "planted among the negatives", "hardness", "queries with enough", "")
    cells = []
    for position in positions:
        row = results["miners"][position]
        shares = [let_in_share(row), percent(row["planted"])]
        hardness = "–" if row["hardness"] is None else f"{row['hardness']:+.4f}"
        chosen = "chosen" if position == results["chosen"] else ""
        cells.append([way_of(row), f"{depth_of(row):,}", *shares, hardness, percent(row["enough"]), chosen])
    return Table(columns, cells)
