"""Ranked lists from searches, files and control experiments, and the selection of negatives from them."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from hardneg.formats import forms, negatives, runs
from hardneg.formats.collection import StoredCollection
from hardneg.formats.corpus import Corpus, candidates
from hardneg.formats.form_names import OWN
from hardneg.indexes.candidate_scoring import rank_candidates
from hardneg.mining.filters import Filters, paired
from hardneg.mining.ranks import draw, refusal, shuffled
from hardneg.protocols import NegativeMiner, Searcher
from hardneg.records import NEGATIVES, Candidates, DataError, Encoded, Hits, Negatives, PluginSetting, RankedList
from hardneg.registry import load_plugin
from hardneg.runtime import Seconds, derive_seed, generator

FILLED = "random negatives"
LEFT_OUT = "dropped as "
"""Prefix of the facts that count dropped candidates; the reason follows."""
SEEN_BY = "negatives relevant to queries of "
"""Prefix, before a split's name, of facts that count negatives relevant in that split; see filter `documents`."""
LABEL = "file"
"""The label of a query's list from a file of negatives; lists from runs have the runs' labels."""
_LISTS, _BLOCK = 1024, 1024  # queries at a time

Listed = tuple[NDArray[np.int64], NDArray[np.float32]]
"""One query's documents, best first: their corpus rows, int64 [n], and their scores, float32 [n]."""


def search_queries(
    encode: Callable[[Sequence[str]], Encoded],
    texts: Sequence[str],
    searcher: Searcher,
    depth: int,
    at_once: int,
    seconds: Seconds,
) -> Iterator[tuple[slice, Encoded, Hits]]:
    """Search `at_once` queries at a time; yield each slice of `texts`, its encoding, and its top `depth` hits.

    seconds: timer that adds up the times of `queries` (encoding) and `search`.
    """
    for start in range(0, len(texts), at_once):
        window = slice(start, start + at_once)
        with seconds.of("queries"):
            wanted = encode(texts[window])
        with seconds.of("search"):
            hits = searcher.search(wanted, depth)
        yield window, wanted, hits


def as_lists(hits: Hits) -> Iterator[Listed]:
    """Yield the corpus rows and scores of each query's hits, without padding."""
    for rows, scores in zip(hits.rows, hits.scores, strict=True):
        yield rows[rows >= 0], scores[rows >= 0]


def exclude(hits: Hits, excluded: Sequence[Sequence[str]], corpus: Corpus, depth: int) -> Hits:
    """Return each query's best `depth` hits without its excluded documents; -1 and -inf pad shorter lists."""
    best = Hits(hits.rows[:, :depth].copy(), hits.scores[:, :depth].copy())
    for query, (doc_ids, out) in enumerate(zip(excluded, corpus.list_rows(excluded), strict=True)):
        if doc_ids:
            stays = np.flatnonzero(~np.isin(hits.rows[query], out))[:depth]
            best.rows[query], best.scores[query] = -1, -np.inf
            best.rows[query, : len(stays)] = hits.rows[query, stays]
            best.scores[query, : len(stays)] = hits.scores[query, stays]
    return best


def with_positives(
    hits: Hits, searcher: Searcher, queries: Sequence[str] | Encoded, known: Sequence[Sequence[str]], corpus: Corpus
) -> Iterator[Listed]:
    """Yield each query's hits, without padding, followed by the known positives that are missing, with their scores.

    Raises:
        UsageError: the searcher has no vectors to score the positives with.
    """
    for start in range(0, len(known), _LISTS):
        part = slice(start, start + _LISTS)
        wanted = corpus.list_rows(known[part])
        own = rank_candidates(searcher, queries[part], wanted, max(1, wanted.shape[1]))
        some = Hits(hits.rows[part], hits.scores[part])
        for (rows, scores), (others, theirs) in zip(as_lists(some), as_lists(own), strict=True):
            lacking = ~np.isin(others, rows)
            yield np.concatenate([rows, others[lacking]]), np.concatenate([scores, theirs[lacking]])


def permuted(
    listed: Iterable[runs.QueryLists], positives: Mapping[str, Sequence[str]], seed: int
) -> Iterator[runs.QueryLists]:
    """Yield each query with the lists of another query, without the documents relevant to that other query.

    The documents are hard for the query that they come from, but not for the one that receives them. Queries are
    permuted in blocks of 1,024; a query that is alone in its block gets empty lists.
    """
    waiting, number = iter(listed), 0
    while block := list(islice(waiting, _BLOCK)):
        order = generator(seed, "permuted", str(number)).permutation(len(block)).tolist()
        donors = dict(zip(order, [*order[1:], order[0]], strict=True))
        for row, (query_id, _) in enumerate(block):
            donor, hits = block[donors[row]]
            known, alone = set(positives.get(donor, ())), donors[row] == row
            lists = {label: ranked.without(ranked.doc_ids if alone else known) for label, ranked in hits.items()}
            yield query_id, lists
        number += 1


def drawn_positives(
    query_ids: Sequence[str], positives: Mapping[str, Sequence[str]], count: int, seed: int
) -> Iterator[runs.QueryLists]:
    """Yield each query with an unscored list of up to `count` random positives of other queries.

    Used as negatives, these positives act like the in-batch negatives of a larger batch.
    """
    pool = list(dict.fromkeys(doc_id for query_id in query_ids for doc_id in positives.get(query_id, ())))
    for query_id in query_ids:
        own = set(positives.get(query_id, ()))
        order = shuffled(pool, count + len(own), generator(seed, "drawn positives", query_id))
        drawn = list(islice((doc_id for doc_id in order if doc_id not in own), count))
        yield query_id, {"positives": RankedList(drawn, np.full(len(drawn), np.nan, np.float32))}


def planted(
    listed: Iterable[runs.QueryLists],
    withheld: Mapping[str, Sequence[str]],
    positives: Mapping[str, Sequence[str]],
    share: float,
    seed: int,
) -> Iterator[runs.QueryLists]:
    """Yield each query's lists, with withheld positives planted as false negatives for a `share` of the queries.

    The lists of these queries keep only positives; missing withheld positives are appended with the last score. The
    withheld positives of all other queries are removed. A larger share includes the queries of a smaller one.
    """
    for query_id, hits in listed:
        hidden = dict.fromkeys(withheld.get(query_id, ()))
        if not hidden:
            yield query_id, hits
        elif derive_seed(seed, "planted", query_id) < share * 2**64:
            known = hidden.keys() | set(positives.get(query_id, ()))
            lists = {}
            for label, ranked in hits.items():
                stay = ranked.without(frozenset(ranked.doc_ids) - known)
                lacking = [doc_id for doc_id in hidden if doc_id not in ranked.doc_ids]
                last = ranked.scores[-1] if len(ranked.scores) else np.nan
                scores = np.concatenate([stay.scores, np.full(len(lacking), last, np.float32)])
                lists[label] = RankedList([*stay.doc_ids, *lacking], scores)
            yield query_id, lists
        else:
            yield query_id, {label: ranked.without(hidden) for label, ranked in hits.items()}


class ListsOfFile:
    """The negatives of each query in a file of any supported form; texts are looked up in the collection.

    A file of texts is held in memory as ids. `counts` holds, by reason, the number of entries that were not found and
    the number of queries that are only in the file or only in the split.

    Raises:
        UsageError: the form is unknown, or does not match the file's extension.
        DataError: a row does not have this form, or no query of the file is in the split.
    """

    def __init__(self, path: Path, form: str, collection: StoredCollection, split: str) -> None:
        self.path, self.corpus = path, collection.corpus
        queries = collection.queries(split)
        lookup = forms.TextLookup(queries, collection.corpus)
        if form == OWN:
            self.negatives = negatives.read_negatives(path)
        else:
            with TemporaryDirectory() as folder:
                negatives.write_negatives(Path(folder) / NEGATIVES, forms.read_form(form, path, lookup))
                self.negatives = negatives.read_negatives(Path(folder) / NEGATIVES, whole=True)
        self.rows = {query_id: row for row, query_id in enumerate(self.negatives.query_ids)}
        known = self.rows.keys() & set(queries.query_ids)
        if not known:
            problem = f"no query of the file is in split {split}"
            raise DataError(f"{path}: {problem}; use the split and dataset that it was mined from")
        absent = {"queries not in the split": len(self.rows), "queries not in the file": len(queries)}
        counts = {reason: count - len(known) for reason, count in absent.items()} | lookup.counts
        self.counts = Counter({reason: count for reason, count in counts.items() if count})

    def listed(self, query_ids: Sequence[str], paths: dict[str, Path]) -> Iterator[runs.QueryLists]:
        """Yield each query with its list from the file (scores may be nan) and its lists from the runs.

        Raises:
            DataError: a document is not in the corpus, a run has other queries, or a run is damaged.
        """
        for query_id, lists in runs.lists_side_by_side(paths, query_ids):
            ranked = runs.EMPTY
            if (row := self.rows.get(query_id)) is not None:
                item, what = self.negatives[row], f"{self.path}: negative of query {query_id}:"
                self.corpus.known_rows(item.negatives, what, "use the collection that the file was mined from")
                ranked = RankedList(item.negatives, np.asarray(item.scores, np.float32))
            yield query_id, {LABEL: ranked, **lists}


def filled(miner: NegativeMiner, candidates: Iterable[Candidates], seed: int, count: int) -> Iterator[Negatives]:
    """Add random documents of the corpus to the mined negatives until each query has `count` negatives.

    Added documents are not positives, copies of positives or existing negatives, and have no scores (nan). A small
    corpus may have too few documents.

    Source: the filter of nomic's embedding models (Nussbaum et al., Nomic Embed, arXiv 2402.01613; their code,
    contrastors) fills short lists with random documents.
    """
    for query, mined in paired(candidates, partial(miner.mine, seed=seed)):
        if (missing := count - len(mined.negatives)) < 1:
            yield mined
            continue
        draws, reason = generator(seed, "fill", query.query_id), refusal(query, True, mined.negatives)
        drawn, drops = draw(query, missing, draws, reason, len(mined.negatives)), mined.drops
        if drops is not None:
            drops = replace(drops, chosen=np.append(drops.chosen, np.zeros(len(drawn.negatives), np.int32)))
        doc_ids, scores = [*mined.negatives, *drawn.negatives], np.concatenate([mined.scores, drawn.scores])
        yield replace(mined, negatives=doc_ids, scores=scores, drops=drops, noted=(*mined.noted, FILLED))


def needs_answers(filters: Iterable[PluginSetting]) -> bool:
    """Return whether any of the filters reads the queries' answers."""
    return any("answers" in getattr(load_plugin("filters", each.name), "needs", ()) for each in filters)


def compares(*plugins: object) -> bool:
    """Return whether any of the miners and filters compares candidates' scores with those of positives."""
    return any(getattr(plugin, "compares", False) for plugin in plugins)


@dataclass(frozen=True)
class Choosing:
    """The selection of negatives by a miner and filters.

    positives: known positives by query; a query without positives gets no negatives. seed: seed for miners that
    sample. fill_to: add random documents of the corpus until a query has this many negatives; None adds none.
    """

    corpus: Corpus
    positives: Mapping[str, Sequence[str]]
    miner: NegativeMiner
    filters: Filters
    seed: int
    fill_to: int | None = None

    def negatives(self, listed: Iterable[runs.QueryLists], facts: Counter[str]) -> Iterator[Negatives]:
        """Yield the negatives of each query. `facts` counts queries, negatives and, by reason, dropped candidates."""
        dropped, elsewhere = Counter[str](), self.filters.texts.positives_elsewhere if self.filters.texts else {}
        offered, seed = self.filters.apply(self._candidates(listed, facts), dropped), self.seed
        fill = self.fill_to
        mined = self.miner.mine(offered, seed=seed) if fill is None else filled(self.miner, offered, seed, fill)
        for item in self.filters.apply_to_drawn(mined):
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

    def _candidates(self, listed: Iterable[runs.QueryLists], facts: Counter[str]) -> Iterator[Candidates]:
        for query_id, hits in listed:
            if query_id in self.positives:
                query, aside = candidates(self.corpus, query_id, self.positives[query_id], hits), self.filters.aside
                more = aside.get(query_id, frozenset()).difference(query.positives)
                yield replace(query, duplicates=query.duplicates | more) if more else query
            else:
                facts["queries without positives"] += 1
