"""Miners compared by the positives that they let in and by how hard their negatives are; one of them is chosen."""

from collections.abc import Iterator, Mapping, Sequence
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
    Trait,
    intervals,
)
from hardneg_advice.planted import HALVES, JUDGED, PlantedLists, halves, judged, known_positives, percent, planted_lists

TOPK, WINDOW = "topk", "window"
SKIPS = (5, 10, 20, 50)
THRESHOLDS = {"pos-percent": ("share", (0.98, 0.95, 0.9)), "pos-margin": ("margin", (0.0, 0.05, 0.1))}
"""By filter what it calls its threshold, and which are tried."""
WANTED, ENOUGH = 4, 0.95
"""At least this share of the queries is to have so many negatives that are not planted."""
LEAST_JUDGED = 50
"""Halves are planted where fewer queries have several positives."""
_ONE_VECTOR = dict.fromkeys(
    (Trait.TEXTS, Trait.SEGMENTS, Trait.WEIGHTS, Trait.TOKEN_VECTORS),
    "name one of an encoder with one vector a document",
)
_PLANTED = {
    JUDGED: (
        "Planted: of each of the {queries:,} queries with several judged positives, one stays known and the others are "
        "taken as if nobody had labelled them ({planted:,} with their copies)."
    ),
    HALVES: (
        "Planted: too few queries have several judged positives, so into each of {queries:,} lists goes one half of a "
        "known positive, drawn, at the model's score. It stands for quotes, versions and overlapping cuts of what is "
        "labelled. Other passages that answer in other words may get in more often: no judgement tells of them. One is "
        "planted a query, so the share among the negatives depends on the depth, and the share let in on the miner."
    ),
}
Miner = Mapping[str, Any]
"""A miner with its options, as a recipe has it."""


def swept(depths: Sequence[int]) -> Iterator[dict[str, Any]]:
    """All to try: the top, windows as long as each depth within the deepest, and each filter."""
    last = max(depths)
    yield from ({"name": TOPK, "depth": depth} for depth in depths)
    for skip in SKIPS:
        ends = (skip + depth for depth in depths if skip + depth <= last)
        yield from ({"name": WINDOW, "skip": skip, "depth": end} for end in ends)
    for name, (option, values) in THRESHOLDS.items():
        for value in values:
            yield from ({"name": name, option: value, "depth": last, "count": depth} for depth in depths)


def takes(miner: Miner, lists: PlantedLists) -> NDArray[np.bool_]:
    """Which documents of the lists a miner takes, known positives and their copies left out of all: bool [Q, C]."""
    fit: NDArray[np.bool_] = lists.candidate
    if miner["name"] == WINDOW:
        ranks = np.arange(fit.shape[1])
        return fit & (ranks >= miner["skip"]) & (ranks < miner["depth"])
    if miner["name"] in THRESHOLDS:
        rule = FILTER_RULES[miner["name"]](miner[THRESHOLDS[miner["name"]][0]])
        fit = fit & rule(lists.scores, lists.positive[:, None])
    taken: NDArray[np.bool_] = fit & (np.cumsum(fit, axis=1) <= depth_of(miner))
    return taken


def evidence(miner: Miner, lists: PlantedLists) -> dict[str, Any]:
    """What a miner takes; shares are None where there is nothing to divide by.

    let_in: of the planted positives, how many it takes. let_in_interval: the exact 95 % interval of that, in which a
    query counts once, however many are planted for it. planted: the chance that one of a query's negatives, drawn
    uniformly, is a planted positive, as a mean over queries that have negatives. hardness: the negatives' score minus
    that of the query's known positive, the planted ones left out, as a mean over queries. enough: the share of
    queries with as many negatives as wanted. negatives: how many a query has in the mean.
    """
    taken = takes(miner, lists)
    counts, wrong = taken.sum(axis=1), (taken & lists.hidden).sum(axis=1)
    true = counts - wrong
    gaps = np.where(taken & ~lists.hidden, lists.scores - lists.positive[:, None], 0).sum(axis=1)
    hardness = gaps[true > 0] / true[true > 0]
    let_in = _mean(wrong.sum(), lists.planted.sum())
    return {
        "let_in": let_in,
        "let_in_interval": None if let_in is None else share_interval(let_in, int((lists.planted > 0).sum())),
        "planted": _mean((wrong[counts > 0] / counts[counts > 0]).sum(), (counts > 0).sum()),
        "hardness": _mean(np.nansum(hardness), np.isfinite(hardness).sum()),
        "enough": float((true >= WANTED).mean()),
        "negatives": float(counts.mean()),
    }


def share_interval(share: float, n: int) -> list[float]:
    """The exact 95 % interval of a share of `n` independent cases, n above 0.

    Of no case among n it reaches up to 1 - .025^(1/n): three cases leave .71 open.

    Source: Clopper and Pearson, "The use of confidence or fiducial limits", Biometrika 1934.
    """
    count, beta = share * n, intervals.distributions().beta
    low = 0.0 if count <= 0 else float(beta.ppf(0.025, count, n - count + 1))
    return [low, 1.0 if count >= n else float(beta.ppf(0.975, count + 1, n - count))]


def _mean(total: Any, count: Any) -> float | None:
    return float(total) / float(count) if count else None


def rank(found: Mapping[str, Any], most_planted: float) -> tuple[int, float, float]:
    """The lower the better: the hardest that keep both conditions, those with enough negatives, the others."""
    planted = 1.0 if found["planted"] is None else found["planted"]
    hardness = -np.inf if found["hardness"] is None else found["hardness"]
    if found["enough"] < ENOUGH:
        return 2, -found["enough"], planted
    return (0, -hardness, planted) if planted <= most_planted else (1, planted, -hardness)


class MinerSweep(Analysis):
    """Compare miners, windows and filters by planted positives and by hardness, and choose one.

    Example: hardneg analyze miner-sweep --run dev.trec.gz --qrels dev.tsv
    """

    name = "miner-sweep"
    version = 4
    title = "which negatives"
    asks = ("qrels", "queries?", "corpus?", "seed")
    drawn = slice(3, 5)
    across = 1

    run: Annotated[Name, Reference(("run",))] = Field(description="The TREC run that negatives are taken from.")
    index: Annotated[Name | None, Reference(("index",), _ONE_VECTOR)] = Field(
        None, description="The index that was searched: for halves of positives, where few queries have several."
    )
    model: Annotated[Name | None, Reference(("model",)), Option(metavar="NAME")] = Field(
        None, description="The model of that index."
    )
    depths: Annotated[tuple[PositiveInt, ...], Option("depth"), Field(min_length=1)] = Field(
        (10, 20, 50, 100, 200), description="How many negatives of a query to take; by default 10 to 200."
    )
    most_planted: float = Field(0.01, ge=0, le=1, description="The highest share of planted among the negatives.")
    split: Annotated[Name, Option("-")] = "dev"

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
        lists = self._planted(inputs)
        rows = [{"miner": miner, **evidence(miner, lists)} for miner in swept(sorted(set(self.depths)))]
        order = sorted(range(len(rows)), key=lambda position: (*rank(rows[position], self.most_planted), position))
        best = {way_of(rows[position]["miner"]): position for position in reversed(order)}
        return {
            "split": self.split,
            "planted": {"kind": lists.choice, "queries": len(lists.planted), "planted": int(lists.planted.sum())},
            "most_planted": self.most_planted,
            "miners": rows,
            "chosen": order[0],
            "kept": rank(rows[order[0]], self.most_planted)[0] == 0,
            "best_of_each_way": sorted(best.values(), key=order.index),
        }

    def _planted(self, inputs: AnalysisInputs) -> PlantedLists:
        """Judged positives where enough queries have several, or no index is named; halves otherwise."""
        known, depth = known_positives(inputs, self.split), max(self.depths)
        several = {query_id: doc_ids for query_id, doc_ids in known.items() if len(doc_ids) > 1}
        lists = planted_lists(JUDGED, judged(inputs, self.split, several), depth)
        if len(lists.planted) >= LEAST_JUDGED or (self.index is None and len(lists.planted)):
            return lists
        if self.index is None or not known:
            message = "no query has several known positives, of which some could be planted"
            raise DataError(f"{inputs.location('run')}: {message}: name the index and its model, so that halves can be")
        return planted_lists(HALVES, halves(inputs, self.split, known), depth)

    def table(self, results: Any) -> Table:
        return _table(results, range(len(results["miners"])))

    def tables(self, results: Any) -> Sequence[Table]:
        return [_table(results, results["best_of_each_way"]), self.table(results)]

    def explain(self, results: Any) -> str:
        """What was planted, the columns, and by what one is chosen."""
        nearest = "" if results["kept"] else " No miner keeps both, so the nearest is chosen."
        return (
            f"{_PLANTED[results['planted']['kind']].format(**results['planted'])} Let in: of what is planted, with the "
            "95% interval over queries. Planted among the negatives: the share of false negatives in a training batch. "
            "Hardness: the negatives' score minus that of the known positive, in the mean. The rule: the hardest "
            f"negatives of which at most {100 * results['most_planted']:g} % are planted positives, and of which at "
            f"least {ENOUGH:.0%} of the queries have {WANTED} or more; of equally hard ones those with fewer planted "
            f"positives, then the first of the sweep.{nearest}"
        )


def way_of(miner: Miner) -> str:
    """A miner without its depth, in words."""
    if miner["name"] == WINDOW:
        return f"window after rank {miner['skip']}"
    return " ".join(
        [miner["name"], *(f"{value:g}" for name, value in miner.items() if name not in ("name", "depth", "count"))]
    )


def depth_of(miner: Miner) -> int:
    """How many of a list it takes at most."""
    return int(miner.get("count", miner["depth"] - miner.get("skip", 0)))


def _table(results: Any, positions: Sequence[int]) -> Table:
    columns = ("miner", "takes", "let in", "planted among the negatives", "hardness", "queries with enough", "")
    cells = []
    for position in positions:
        row = results["miners"][position]
        ends = row["let_in_interval"]
        let_in = percent(row["let_in"]) + (f" [{100 * ends[0]:.1f}, {100 * ends[1]:.1f}]" if ends else "")
        hardness = "–" if row["hardness"] is None else f"{row['hardness']:+.4f}"
        shown = [let_in, percent(row["planted"]), hardness, percent(row["enough"])]
        chosen = "chosen" if position == results["chosen"] else ""
        cells.append([way_of(row["miner"]), f"{depth_of(row['miner']):,}", *shown, chosen])
    return Table(columns, cells)
