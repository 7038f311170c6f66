"""Negatives from several runs, a share from each."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import inf
from typing import ClassVar, Literal

import numpy as np

from hardneg.mining.miners.selection import accepted, check_counts, evenly, refusal
from hardneg.records import TOP_DEPTH, Candidates, Negatives, PluginError, RankedList
from hardneg.runtime import generator


@dataclass(frozen=True)
class Union:
    """Negatives from the top of several runs, a share from each, evenly interleaved; positives are left out.

    A document is taken once, from the first run that has it: later runs continue with their next one. A run with
    too few documents contributes what it has. Scores are those of the run that a document is taken from.

    Source: ANCE-Tele (Sun et al., Reduce Catastrophic Forgetting of Dense Retrieval Training with Teleportation
    Negatives, EMNLP 2022): its program draws 30 of the top 200 of each list.

    Attributes:
        count: how many documents to keep of all runs together.
        depth: the last rank of each run to look at, counted from 1 before any exclusion.
        shares: the share of each run, by its label, as relative numbers; empty: equal shares.
        choice: sampled, drawn from the top of each run; top, its best-ranked ones.
        exclude_copies: also leave out documents whose contents equal a positive's.
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
            raise PluginError(f"shares must be numbers above 0: {', '.join(wrong)}")

    def problems(self, runs: Sequence[str]) -> Iterator[str]:
        """Return the problems of the runs' labels."""
        if len(runs) < 2:
            yield f"union joins several runs: give {'another one' if runs else 'two or more'}, or take miner sampled"
        if self.shares:
            wrong = [*(f"no run {label}" for label in self.shares if label not in runs)]
            wrong += [f"no share of {label}" for label in runs if label not in self.shares]
            if wrong:
                yield f"union: {', '.join(wrong)}: shares must name the runs, which are {', '.join(runs)}"

    def mine(self, candidates: Iterable[Candidates], *, seed: int) -> Iterator[Negatives]:
        """Return the negatives of each query.

        Raises:
            PluginError: there are shares, and they do not name the runs.
        """
        for query in candidates:
            yield self._mined(query, seed)

    def _mined(self, query: Candidates, seed: int) -> Negatives:
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
        return Negatives(query.query_id, query.positives, negatives, joined, dict(dropped))

    def counts(self, labels: Sequence[str]) -> dict[str, int]:
        """Return the number of documents of each run; the largest remainders are rounded up."""
        if self.shares and {*labels} != {*self.shares} and labels:
            raise PluginError("; ".join(self.problems(labels)))
        shares = np.array([self.shares.get(label, 1.0) for label in labels], np.float64)
        exact = self.count * shares / max(shares.sum(), 1e-300)
        whole = np.floor(exact + 1e-9).astype(np.int64)
        more = np.argsort(whole - exact, kind="stable")[: self.count - whole.sum()]
        whole[more] += 1
        return dict(zip(labels, whole.tolist(), strict=True))
