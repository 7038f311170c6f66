"""Miners that select documents by rank or at random, and functions for selection that all miners share."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from math import inf, isfinite
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from hardneg.records import LIST_DEPTH, TOP_DEPTH, Candidates, Negatives, PluginError, RankedList
from hardneg.runtime import generator

Reason = Callable[[str], str | None]
"""Maps a document id to the reason why the document cannot be a negative of a query, or to None if it can."""


def check_counts(**counts: int) -> None:
    """Raise PluginError if any of the given options, passed by name, is below 1."""
    if min(counts.values()) < 1:
        values = " and ".join(f"{name} {count}" if len(counts) > 1 else str(count) for name, count in counts.items())
        raise PluginError(f"{' and '.join(counts)} must be at least 1, not {values}")


def refusal(query: Candidates, exclude_copies: bool, taken: Iterable[str] = ()) -> Reason:
    """Return a function that returns the reason why a document cannot be a negative of the query, or None.

    The function accepts each document once; after that, and for documents in `taken`, the reason is `repeated`.
    """
    reasons = dict.fromkeys(taken, "repeated")
    reasons |= dict.fromkeys(query.duplicates if exclude_copies else (), "duplicate")
    reasons |= dict.fromkeys(query.positives, "positive")

    def reason(doc_id: str) -> str | None:
        why = reasons.get(doc_id)
        reasons.setdefault(doc_id, "repeated")
        return why

    return reason


def accepted(doc_ids: Iterable[str], reason: Reason, dropped: Counter[str]) -> Iterator[tuple[int, str]]:
    """Yield the position and id of each document without a `reason`; count the others in `dropped`, by reason."""
    for position, doc_id in enumerate(doc_ids):
        if (why := reason(doc_id)) is None:
            yield position, doc_id
        else:
            dropped[why] += 1


def evenly(sizes: Sequence[int]) -> NDArray[np.int64]:
    """Return positions in concatenated lists, int64 [sum of sizes], in an order that interleaves the lists evenly."""
    shares = [(np.arange(size) + 0.5) / size for size in sizes if size]
    return np.concatenate(shares or [np.empty(0)]).argsort(kind="stable")


def select(query: Candidates, ranks: Sequence[int], count: int, exclude_copies: bool) -> Negatives:
    """Select the first `count` documents that can be negatives. ranks: ranks to try, in order, counted from 0."""
    ranking, dropped = query.ranking, Counter[str]()
    doc_ids = (ranking.doc_ids[rank] for rank in ranks)
    chosen = [ranks[i] for i, _ in islice(accepted(doc_ids, refusal(query, exclude_copies), dropped), count)]
    scores = np.asarray(ranking.scores, np.float32)[chosen]
    return Negatives(query.query_id, query.positives, [ranking.doc_ids[rank] for rank in chosen], scores, dict(dropped))


def draw(query: Candidates, count: int, draws: np.random.Generator, reason: Reason, taken: int = 0) -> Negatives:
    """Draw up to `count` documents of the corpus that `reason` accepts, in random order.

    taken: number of documents that `reason` rejects, besides positives and copies. It affects the size of the batches.
    """
    dropped = Counter[str]()
    order = shuffled(query.doc_ids, max(1, count + len(query.positives) + len(query.duplicates) + taken), draws)
    chosen = [doc_id for _, doc_id in islice(accepted(order, reason, dropped), count)]
    scores = np.full(len(chosen), np.nan, np.float32)
    return Negatives(query.query_id, query.positives, chosen, scores, dict(dropped))


def shuffled(doc_ids: Sequence[str], wanted: int, draws: np.random.Generator) -> Iterator[str]:
    """Yield distinct ids in random order. With at least 4 * `wanted` ids, the iterator never ends."""
    if len(doc_ids) < 4 * wanted:
        yield from (doc_ids[int(row)] for row in draws.permutation(len(doc_ids)))
        return
    seen: set[int] = set()
    while True:
        for row in draws.integers(0, len(doc_ids), wanted).tolist():
            if row not in seen:
                seen.add(row)
                yield doc_ids[row]


@dataclass(frozen=True)
class TopK:
    """The best-ranked documents of a run that are not positives, such as STAR's static hard negatives.

    Source: Zhan et al., Optimizing Dense Retrieval Model Training with Hard Negatives (SIGIR 2021), section 6.1.1; the
    default depth comes from section 7.3.

    Attributes:
        depth: number of documents to keep, counted after exclusions; a shorter list yields fewer.
        exclude_copies: whether to exclude documents with the same contents as a positive.
    """

    version: ClassVar[int] = 1

    depth: int = TOP_DEPTH
    exclude_copies: bool = True

    def __post_init__(self) -> None:
        check_counts(depth=self.depth)

    def mine(self, candidates: Iterable[Candidates], *, seed: int) -> Iterator[Negatives]:
        """Yield the negatives of each query, best first; `seed` has no effect, because the selection is not random."""
        for query in candidates:
            yield select(query, range(len(query.ranking.doc_ids)), self.depth, self.exclude_copies)


@dataclass(frozen=True)
class Window:
    """The documents from rank `skip` + 1 to rank `depth` of a run, without positives.

    Ranks are counted from 1 in the run as retrieved, before any exclusion, so a positive at the top uses up one of the
    skipped ranks. The top is skipped because unlabelled positives are most common there.

    Source: Wrzalik and Krechel, CoRT, whose code draws from ranks 8 to 100: skip 7, depth 100.

    Attributes:
        skip: number of top ranks to skip.
        depth: the last rank to include.
        exclude_copies: whether to exclude documents with the same contents as a positive.
    """

    version: ClassVar[int] = 1

    skip: int
    depth: int
    exclude_copies: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.skip < self.depth:
            raise PluginError(f"skip must be at least 0 and below depth ({self.depth}), not {self.skip}")

    def mine(self, candidates: Iterable[Candidates], *, seed: int) -> Iterator[Negatives]:
        """Yield the negatives of each query, best first; `seed` has no effect, because the selection is not random."""
        for query in candidates:
            length = len(query.ranking.doc_ids)
            negatives = select(query, range(self.skip, min(self.depth, length)), self.depth, self.exclude_copies)
            skipped = {"skipped": min(self.skip, length)} if self.skip and length else {}
            yield replace(negatives, dropped={**skipped, **negatives.dropped})


@dataclass(frozen=True)
class Sampled:
    """Documents drawn uniformly, without replacement, from the top `depth` documents of a run, without positives.

    Source: Xiong et al., Approximate Nearest Neighbor Negative Contrastive Learning for Dense Text Retrieval
    (ICLR 2021), section 5; the authors' code keeps 20 of the top 200.

    Attributes:
        depth: the last rank to draw from, counted from 1 before any exclusion.
        count: number of documents to keep; all documents of a shorter list are drawn.
        exclude_copies: whether to exclude documents with the same contents as a positive.
    """

    version: ClassVar[int] = 1

    depth: int = TOP_DEPTH
    count: int = 20
    exclude_copies: bool = True

    def __post_init__(self) -> None:
        check_counts(depth=self.depth, count=self.count)

    def mine(self, candidates: Iterable[Candidates], *, seed: int) -> Iterator[Negatives]:
        """Yield the negatives of each query in the order in which they were drawn."""
        for query in candidates:
            length = min(self.depth, len(query.ranking.doc_ids))
            order = generator(seed, "sampled", query.query_id).permutation(length).tolist()
            yield select(query, order, self.count, self.exclude_copies)


@dataclass(frozen=True)
class Random:
    """Documents drawn uniformly from the whole corpus, without replacement; they have no scores (nan).

    Source: Zhan et al., Optimizing Dense Retrieval Model Training with Hard Negatives (SIGIR 2021), section 7.2.2
    (Rand Neg).

    Attributes:
        count: number of documents to draw; all documents of a smaller corpus are drawn.
        exclude_copies: whether to exclude documents with the same contents as a positive.
    """

    version: ClassVar[int] = 1

    count: int = 200
    exclude_copies: bool = True

    def __post_init__(self) -> None:
        check_counts(count=self.count)

    def mine(self, candidates: Iterable[Candidates], *, seed: int) -> Iterator[Negatives]:
        """Yield the negatives of each query in the order in which they were drawn."""
        for query in candidates:
            draws = generator(seed, "random", query.query_id)
            yield draw(query, self.count, draws, refusal(query, self.exclude_copies))


@dataclass(frozen=True)
class Mixed:
    """The best-ranked documents of a run and random documents of the corpus, evenly interleaved.

    Any prefix of the negatives has both kinds in about the given ratio. With fewer ranked documents than `depth`, there
    are also fewer random ones; without a list, there are none.

    Source: BM25+Rand of Xiong et al., Approximate Nearest Neighbor Negative Contrastive Learning for Dense Text
    Retrieval (ICLR 2021), section 5: 1:1, from BM25's top 100.

    Attributes:
        depth: number of documents from the top, counted after exclusions.
        ratio: number of random documents, which have no scores (nan), per ranked document.
        exclude_copies: whether to exclude documents with the same contents as a positive.
    """

    version: ClassVar[int] = 1

    depth: int = LIST_DEPTH
    ratio: float = 1.0
    exclude_copies: bool = True

    def __post_init__(self) -> None:
        check_counts(depth=self.depth)
        if not self.ratio > 0 or not isfinite(self.ratio):
            raise PluginError(f"ratio must be a finite number above 0, not {self.ratio}")

    def mine(self, candidates: Iterable[Candidates], *, seed: int) -> Iterator[Negatives]:
        """Yield the negatives of each query: ranked documents, best first, interleaved with random ones."""
        for query in candidates:
            top = select(query, range(len(query.ranking.doc_ids)), self.depth, self.exclude_copies)
            reason = refusal(query, self.exclude_copies, top.negatives)
            count, draws = round(self.ratio * len(top.negatives)), generator(seed, "mixed", query.query_id)
            drawn = draw(query, count, draws, reason, len(top.negatives))
            order = evenly([len(top.negatives), len(drawn.negatives)])
            both = [*top.negatives, *drawn.negatives]
            scores = np.concatenate([top.scores, drawn.scores])[order]
            dropped = dict(Counter(top.dropped) + Counter(drawn.dropped))
            yield Negatives(top.query_id, top.positives, [both[i] for i in order.tolist()], scores, dropped)


@dataclass(frozen=True)
class Union:
    """Negatives from the top of several runs in given shares, evenly interleaved, without positives.

    A document is selected once, from the first run that has it; later runs continue with their next document. A run
    with too few documents contributes all it has. A document keeps its score in the run that it is selected from.

    Source: ANCE-Tele (Sun et al., Reduce Catastrophic Forgetting of Dense Retrieval Training with Teleportation
    Negatives, EMNLP 2022): the authors' code draws 30 of the top 200 of each list.

    Attributes:
        count: number of documents to keep from all runs together.
        depth: the last rank of each run to include, counted from 1 before any exclusion.
        shares: the relative share of each run, by label; empty means equal shares.
        choice: `sampled` draws from the top of each run; `top` selects the best-ranked documents.
        exclude_copies: whether to exclude documents with the same contents as a positive.
    """

    version: ClassVar[int] = 1

    count: int = 60
    depth: int = TOP_DEPTH
    shares: Mapping[str, float] = field(default_factory=dict)
    choice: Literal["sampled", "top"] = "sampled"
    exclude_copies: bool = True

    def __post_init__(self) -> None:
        check_counts(count=self.count, depth=self.depth)
        wrong = [f"{label} has {share}" for label, share in self.shares.items() if not 0 < share < inf]
        if wrong:
            raise PluginError(f"shares must be above 0, but {', '.join(wrong)}")

    def problems(self, runs: Sequence[str]) -> Iterator[str]:
        """Yield a message for each problem: fewer than two runs, or labels in `shares` that differ from `runs`."""
        if len(runs) < 2:
            yield f"union needs several runs; add {'another one' if runs else 'two or more'}, or use miner sampled"
        if self.shares:
            wrong = [*(f"no run {label}" for label in self.shares if label not in runs)]
            wrong += [f"no share of {label}" for label in runs if label not in self.shares]
            if wrong:
                yield f"union: {', '.join(wrong)}; shares must have the labels of the runs, {', '.join(runs)}"

    def mine(self, candidates: Iterable[Candidates], *, seed: int) -> Iterator[Negatives]:
        """Yield the negatives of each query, with the runs' documents interleaved.

        Raises:
            PluginError: the labels of `shares` differ from the labels of the runs.
        """
        for query in candidates:
            reason, dropped = refusal(query, self.exclude_copies), Counter[str]()
            taken: list[tuple[RankedList, list[int]]] = []
            for label, count in self.counts(list(query.hits)).items():
                ranked = query.hits[label]
                order = list(range(min(self.depth, len(ranked.doc_ids))))
                if self.choice == "sampled":
                    order = generator(seed, "union", label, query.query_id).permutation(len(order)).tolist()
                fit = accepted((ranked.doc_ids[i] for i in order), reason, dropped)
                taken.append((ranked, [order[i] for i, _ in islice(fit, count)]))
            doc_ids = [ranked.doc_ids[i] for ranked, positions in taken for i in positions]
            scores = [np.asarray(ranked.scores, np.float32)[positions] for ranked, positions in taken]
            spread = evenly([len(positions) for _, positions in taken])
            joined = np.concatenate([np.empty(0, np.float32), *scores])[spread]
            negatives = [doc_ids[i] for i in spread.tolist()]
            yield Negatives(query.query_id, query.positives, negatives, joined, dict(dropped))

    def counts(self, labels: Sequence[str]) -> dict[str, int]:
        """Return document counts by run label, by largest remainder. Raises PluginError if `shares` labels differ."""
        if self.shares and {*labels} != {*self.shares} and labels:
            raise PluginError("; ".join(self.problems(labels)))
        shares = np.array([self.shares.get(label, 1.0) for label in labels], np.float64)
        exact = self.count * shares / max(shares.sum(), 1e-300)
        whole = np.floor(exact + 1e-9).astype(np.int64)
        more = np.argsort(whole - exact, kind="stable")[: self.count - whole.sum()]
        whole[more] += 1
        return dict(zip(labels, whole.tolist(), strict=True))
