"""Negatives from ranked lists: known positives and their copies are left out, then filters apply, then a miner."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from hardneg.formats.corpus import Corpus, candidates
from hardneg.formats.runs import QueryLists
from hardneg.formats.texts import Match
from hardneg.mining.filters import EXCLUDED, SAME_TEXT, AnswerFilter, ExcludedFilter, MiningTexts
from hardneg.mining.miners.ranks import draw
from hardneg.mining.miners.selection import refusal
from hardneg.protocols import NegativeFilter, NegativeMiner
from hardneg.records import Candidates, Negatives, PluginError, PluginSetting, RankedList
from hardneg.registry import load_plugin
from hardneg.runtime import generator

FILLED = "random negatives"
LEFT_OUT = "dropped as "
"""The prefix of the counts of dropped candidates; the reason follows."""
SEEN_BY = "negatives relevant to queries of "
"""The prefix of the count of negatives that are positives of another split; the filter `documents` leaves them out."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def paired(
    items: Iterable[_Item], through: Callable[[Iterator[_Item]], Iterator[_Result]]
) -> Iterator[tuple[_Item, _Result]]:
    """Pair each item with the plugin's result for it; only what the plugin reads ahead is held.

    Raises:
        PluginError: the plugin does not return one result per item.
    """
    ahead: deque[_Item] = deque()

    def read() -> Iterator[_Item]:
        for item in items:
            ahead.append(item)
            yield item

    reading = read()
    for result in through(reading):
        if not ahead:
            raise PluginError("a miner or filter returned more results than queries: one per query is needed")
        yield ahead.popleft(), result
    if ahead or next(reading, None) is not None:
        raise PluginError("a miner or filter returned fewer results than queries: one per query is needed")


def beside(miner: NegativeMiner, candidates: Iterable[Candidates], seed: int) -> Iterator[tuple[Candidates, Negatives]]:
    """Pair each query's candidates with its mined negatives."""
    return paired(candidates, partial(miner.mine, seed=seed))


def filled(miner: NegativeMiner, candidates: Iterable[Candidates], seed: int, count: int) -> Iterator[Negatives]:
    """Fill the mined negatives with documents drawn uniformly from the corpus, up to `count` per query.

    They are no positives, no copies of them and none of the others, and have no scores (nan). A small corpus
    may have fewer.

    Source: the filter of nomic's embedding models (Nussbaum et al., Nomic Embed, arXiv 2402.01613; their program
    contrastors) fills short lists with random documents.
    """
    for query, mined in beside(miner, candidates, seed):
        if (missing := count - len(mined.negatives)) < 1:
            yield mined
            continue
        draws, reason = generator(seed, "fill", query.query_id), refusal(query, True, mined.negatives)
        drawn, drops = draw(query, missing, draws, reason, len(mined.negatives)), mined.drops
        if drops is not None:
            drops = replace(drops, chosen=np.append(drops.chosen, np.zeros(len(drawn.negatives), np.int32)))
        negatives, scores = [*mined.negatives, *drawn.negatives], np.concatenate([mined.scores, drawn.scores])
        yield replace(mined, negatives=negatives, scores=scores, drops=drops, noted=(*mined.noted, FILLED))


@dataclass(frozen=True)
class Filters:
    """Filters applied one after another, and the texts that they read; none by default.

    aside: by query, documents that are no negatives because of its text.
    """

    plugins: Sequence[NegativeFilter] = ()
    texts: Any = None
    aside: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        texts: MiningTexts,
        plugins: Iterable[NegativeFilter],
        answers: Match | None,
        positives: Mapping[str, Sequence[str]],
    ) -> "Filters":
        """Build the filters of a mining, first those of excluded documents and of the query's text, where any are.

        answers: the match of the filter `answers`, which comes before `plugins`, or None. positives: by query.
        """
        aside = texts.aside(positives)
        first = [ExcludedFilter(texts.collection.excluded(), EXCLUDED), ExcludedFilter(aside, SAME_TEXT)]
        more = [] if answers is None else [AnswerFilter(answers)]
        return cls([*(each for each in first if each.excluded), *more, *plugins], texts, aside=aside)

    def left(self, candidates: Iterable[Candidates], dropped: Counter[str]) -> Iterator[Candidates]:
        """Return the same candidates in the same order, without what the filters drop from their lists.

        Known positives stay in the lists: miners leave them out themselves. `dropped` counts the rest by reason.
        """
        for each in self.plugins:
            candidates = self._left(candidates, each, dropped)
        return iter(candidates)

    def left_of_drawn(self, mined: Iterable[Negatives]) -> Iterator[Negatives]:
        """Return the same negatives, without those drawn from the corpus (their score is nan) that a filter drops."""
        for each in self.plugins:
            mined = self._left_of_drawn(mined, each)
        return iter(mined)

    def _left(
        self, candidates: Iterable[Candidates], by: NegativeFilter, dropped: Counter[str]
    ) -> Iterator[Candidates]:
        for query, reasons in paired(candidates, lambda queries: by.reasons(queries, texts=self.texts)):
            known = frozenset(query.positives)
            if against := {doc_id: reason for doc_id, reason in reasons.items() if doc_id not in known}:
                for ranked in query.hits.values():
                    dropped.update(against[doc_id] for doc_id in ranked.doc_ids if doc_id in against)
                query = replace(query, hits={name: ranked.without(against) for name, ranked in query.hits.items()})
            yield query

    def _left_of_drawn(self, mined: Iterable[Negatives], by: NegativeFilter) -> Iterator[Negatives]:
        def drawn(item: Negatives) -> Candidates:
            """Return the drawn negatives of a query as a list with scores nan."""
            doc_ids = [item.negatives[i] for i in np.flatnonzero(np.isnan(item.scores)).tolist()]
            hits = {"drawn": RankedList(doc_ids, np.full(len(doc_ids), np.nan, np.float32))}
            return Candidates(item.query_id, item.positives, hits, ())

        for item, against in paired(mined, lambda items: by.reasons(map(drawn, items), texts=self.texts)):
            bad = np.array([doc_id in against for doc_id in item.negatives], bool) & np.isnan(item.scores)
            if bad.any():
                kept = [doc_id for doc_id, out in zip(item.negatives, bad.tolist(), strict=True) if not out]
                dropped = Counter(item.dropped)
                dropped.update(against[item.negatives[i]] for i in np.flatnonzero(bad).tolist())
                drops = item.drops and replace(item.drops, chosen=item.drops.chosen[~bad])
                item = replace(item, negatives=kept, scores=item.scores[~bad], dropped=dict(dropped), drops=drops)
            yield item


def needs_answers(filters: Iterable[PluginSetting]) -> bool:
    """Return whether one of these filters requires answers."""
    return any("answers" in getattr(load_plugin("filters", each.name), "needs", ()) for each in filters)


@dataclass(frozen=True)
class Choosing:
    """The miner and the filters of a mining, with what they need.

    positives: known ones by query; a query without any gets no negatives. seed: that of miners that draw. fill_to: a
    query with fewer negatives gets random documents of the corpus up to that number.
    """

    corpus: Corpus
    positives: Mapping[str, Sequence[str]]
    miner: NegativeMiner
    filters: Filters
    seed: int
    fill_to: int | None = None

    def negatives(self, listed: Iterable[QueryLists], facts: Counter[str]) -> Iterator[Negatives]:
        """Mine the negatives of each query; `facts` counts them, and the dropped candidates by reason."""
        dropped, elsewhere = Counter[str](), self.filters.texts.positives_elsewhere if self.filters.texts else {}
        offered, seed = self.filters.left(self._candidates(listed, facts), dropped), self.seed
        fill = self.fill_to
        mined = self.miner.mine(offered, seed=seed) if fill is None else filled(self.miner, offered, seed, fill)
        for item in self.filters.left_of_drawn(mined):
            facts["queries"] += 1
            facts["negatives"] += len(item.negatives)
            facts["queries without negatives"] += not item.negatives
            for split, doc_ids in elsewhere.items():
                facts[f"{SEEN_BY}{split}"] += len(doc_ids.intersection(item.negatives))
            for reason, count in item.dropped.items():
                facts[f"{LEFT_OUT}{reason}"] += count
            for note in item.noted:
                facts[f"queries with {note}"] += 1
            yield item
        for reason, count in dropped.items():
            facts[f"{LEFT_OUT}{reason}"] += count

    def _candidates(self, listed: Iterable[QueryLists], facts: Counter[str]) -> Iterator[Candidates]:
        for query_id, hits in listed:
            if query_id in self.positives:
                query, aside = candidates(self.corpus, query_id, self.positives[query_id], hits), self.filters.aside
                more = aside.get(query_id, frozenset()).difference(query.positives)
                yield replace(query, duplicates=query.duplicates | more) if more else query
            else:
                facts["queries without positives"] += 1


def compares(*plugins: object) -> bool:
    """Return whether one of these miners and filters compares candidates with their query's positives."""
    return any(getattr(plugin, "compares", False) for plugin in plugins)
