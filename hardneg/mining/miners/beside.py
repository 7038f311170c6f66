"""A plugin's stream paired with its input, and short lists of negatives filled from the corpus."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np

from hardneg.mining.miners.random import draw
from hardneg.mining.miners.selection import refusal
from hardneg.records.errors import PluginError
from hardneg.records.types import Candidates, Negatives
from hardneg.registry.protocols import NegativeMiner
from hardneg.runtime.seeding import generator

FILLED = "random negatives"
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
        missing = count - len(mined.negatives)
        yield mined if missing < 1 else _with_random(query, mined, missing, seed)


def _with_random(query: Candidates, mined: Negatives, missing: int, seed: int) -> Negatives:
    draws, reason = generator(seed, "fill", query.query_id), refusal(query, True, mined.negatives)
    drawn = draw(query, missing, draws, reason, len(mined.negatives))
    drops = mined.drops
    if drops is not None:
        chosen = np.concatenate([drops.chosen, np.zeros(len(drawn.negatives), np.int32)])
        drops = replace(drops, chosen=chosen)
    return replace(
        mined,
        negatives=[*mined.negatives, *drawn.negatives],
        scores=np.concatenate([mined.scores, drawn.scores]),
        drops=drops,
        noted=(*mined.noted, FILLED),
    )
