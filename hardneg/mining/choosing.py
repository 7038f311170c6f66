"""Negatives from ranked lists: known positives and their copies are left out, then filters apply, then a miner."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hardneg.formats.corpus import Corpus, candidates
from hardneg.formats.runs import QueryLists
from hardneg.mining.filtering import Filters
from hardneg.mining.miners.beside import filled
from hardneg.records.types import Candidates, Negatives
from hardneg.registry.protocols import NegativeMiner

LEFT_OUT = "dropped as "
"""The prefix of the counts of dropped candidates; the reason follows."""

SEEN_BY = "negatives relevant to queries of "
"""The prefix of the count of negatives that are positives of another split; the filter `documents` leaves them out."""


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
        offered = self.filters.left(self._candidates(listed, facts), dropped)
        if self.fill_to is None:
            mined = self.miner.mine(offered, seed=self.seed)
        else:
            mined = filled(self.miner, offered, self.seed, self.fill_to)
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
