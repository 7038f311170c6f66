"""Miners in a row: what one mined beside what it was given; short lists filled from the corpus."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from hardneg.miners.random import draw
from hardneg.miners.selection import refusal
from hardneg.protocols import NegativeMiner
from hardneg.seeding import generator
from hardneg.types import Candidates, Negatives

FILLED = "random negatives"


def beside(miner: NegativeMiner, candidates: Iterable[Candidates], seed: int) -> Iterator[tuple[Candidates, Negatives]]:
    """Each query's candidates with what a miner takes of them; only what the miner reads ahead is held."""
    ahead: deque[Candidates] = deque()

    def read() -> Iterator[Candidates]:
        for query in candidates:
            ahead.append(query)
            yield query

    for mined in miner.mine(read(), seed=seed):
        yield ahead.popleft(), mined


def filled(miner: NegativeMiner, candidates: Iterable[Candidates], seed: int, count: int) -> Iterator[Negatives]:
    """What a miner takes, and behind it documents drawn uniformly from the corpus, up to `count` negatives a query.

    They are no positives, no copies of them and none of the others, and have no scores (nan). A corpus that has too few
    gives all it has.

    Source: the filter of nomic's embedding models (Nussbaum et al., Nomic Embed, arXiv 2402.01613; their program
    contrastors) fills what it leaves up with random documents.
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
