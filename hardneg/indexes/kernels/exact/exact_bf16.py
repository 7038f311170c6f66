"""Exact search with products in bf16: candidates for the best k, by a bound of the error, are scored in float32.

A block of scores is compared with a bar for each query: the k-th best float32 score so far, less the bound. What stays
below cannot enter the list. The others are scored again by a product of that pair alone, so the lists are those of
float32, ties too. A query of which so much is to be scored that a product in float32 would be faster is given up, and
searched by `search_blocks` in the end; so is one whose bar was set too high, and everything where a result breaks the
bound.
"""

import warnings
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardneg.indexes.kernels.exact.begun_pass import State
from hardneg.indexes.kernels.exact.exact_torch import Blocks, Vectors, device_blocks, search_blocks, to_device
from hardneg.indexes.kernels.exact.rounded_tiles import GROUP, Tile, reaching
from hardneg.indexes.kernels.exact.rounding import Rounded, error_bounds, rounded_down, sums_in_float32
from hardneg.indexes.kernels.exact.running_best import RunningBest
from hardneg.indexes.kernels.exact.starting_bar import sample_groups, sample_rank, sample_tiles, starting_bar
from hardneg.indexes.kernels.exact.top_k import best_hits
from hardneg.records.types import Hits
from hardneg.runtime.progress import Silent, Task

_TILE = 2048  # vectors multiplied at a time on a CPU: with their scores in its caches
_FIRST, _SHARE = 8, 32  # candidates before a query is given up: 8 k, and one of 32 vectors
_RANGE = 1e30  # of bounds; where they are larger a product may leave float32's range
_PAIRS = 65_536  # multiplied at a time where there is no kernel for chosen pairs: neither more nor fewer


@dataclass
class _Queries:
    """A part of the queries, float32 [q, d], and their state.

    least: float32 [q], a likely lower bound of the k-th best score. met: int64 [q], candidates so far.
    given_up: bool [q].
    """

    queries: Tensor
    rounded: Rounded
    least: Tensor
    best: RunningBest
    met: Tensor
    abandoned: Tensor

    @classmethod
    def of(cls, queries: Tensor, sample: list[Tile], rank: int, k: int, space: Tensor) -> "_Queries":
        rounded, count = Rounded.of(queries), len(queries)
        met = torch.zeros(count, dtype=torch.int64, device=queries.device)
        least = starting_bar(rounded, sample, rank, space)
        return cls(queries, rounded, least, RunningBest(count, k, queries.device), met, met > 0)

    def state(self) -> State:
        """Return the state for `going_on`, which determines the candidates that are scored again."""
        own = {"met": self.met.cpu().numpy(), "given_up": self.abandoned.cpu().numpy()}
        return {**own, **self.best.state()}

    def going_on(self, state: State | None) -> "_Queries":
        """The same as far as a stopped search was."""
        if not state:
            return self
        met, abandoned = (torch.from_numpy(state[name]).to(self.met.device) for name in ("met", "given_up"))
        self.best.restore(state)
        return replace(self, met=met, abandoned=abandoned)

    def look(self, tile: Tile, k: int, space: Tensor) -> None:
        """Add the candidates of a tile."""
        bound = error_bounds(self.rounded, tile.rounded)
        self.abandoned |= ~(bound < _RANGE)
        bar = rounded_down(torch.maximum(self.best.bar, self.least) - bound).masked_fill(self.abandoned, torch.inf)
        query, row, rough = reaching(tile.scores(self.rounded, space), bar, len(tile.vectors))
        if not len(query):
            return
        counts = torch.bincount(query, minlength=len(self.met))
        self.met += counts
        self.abandoned |= self.met > _FIRST * k + (tile.start + len(tile.vectors)) // _SHARE
        scores = pair_products(self.queries, tile.vectors, counts, query, row)
        apart = (scores - rough).abs() - rough.abs() * 2.0**-8
        self.abandoned |= (apart > bound.index_select(0, query)).any()
        self.best.add(counts, query, row + tile.start, scores)

    def unproven(self, hits: Hits) -> NDArray[np.bool_]:
        """bool [q], of which queries the lists, [q, k], may lack something."""
        missed = torch.from_numpy(hits.scores[:, -1]).to(self.least.device) < self.least
        unsure: NDArray[np.bool_] = (missed | self.abandoned).cpu().numpy()
        return unsure


def search_rounded(vectors: Vectors, queries: NDArray[np.float32], k: int, blocks: Blocks, task: Task) -> Hits:
    """Search as `hardneg.indexes.kernels.exact.exact.search_exact`, on any device; the arguments are checked.

    Raises:
        ArtifactError: for vectors, or inner products, that are not finite.
    """
    groups = sample_groups(len(vectors), k)
    if not len(queries) or sample_rank(len(vectors), k, len(groups)) > len(
        groups
    ):  # lists take in too much of the vectors
        return search_blocks(vectors, queries, k, blocks, task)
    hits, unproven = _searched(vectors, queries, k, blocks, groups, task)
    if len(again := np.flatnonzero(unproven)):
        with Silent().task("", None, "") as unseen:
            aside = None if blocks.begun is None else blocks.begun.with_name(f"{blocks.begun.name}.again")
            redone = search_blocks(vectors, queries[again], k, replace(blocks, begun=aside), unseen)
        hits.rows[again], hits.scores[again] = redone.rows, redone.scores
    return hits


def _searched(
    vectors: Vectors, queries: NDArray[np.float32], k: int, blocks: Blocks, groups: NDArray[np.int64], task: Task
) -> tuple[Hits, NDArray[np.bool_]]:
    """Return the lists, and bool [Q], which of them may be incomplete; groups: from `sample_groups`."""
    size = -(-(min(blocks.corpus, _TILE) if blocks.device.type == "cpu" else blocks.corpus) // GROUP) * GROUP
    space = torch.empty(min(blocks.queries, len(queries)) * size, dtype=torch.bfloat16, device=blocks.device)
    with torch.inference_mode(), sums_in_float32():
        sample = list(sample_tiles(vectors, groups, size, blocks.device))
        rank, starts = sample_rank(len(vectors), k, len(groups)), range(0, len(queries), blocks.queries)
        held = (to_device(queries[start : start + blocks.queries], blocks.device) for start in starts)
        begun = blocks.pass_over(vectors, "bf16")
        parts = [
            _Queries.of(some, sample, rank, k, space).going_on(begun.state(number)) for number, some in enumerate(held)
        ]
        sample.clear()
        begun.tell(task)
        for start, block in device_blocks(vectors, blocks, begun.done):
            for offset in range(0, len(block), size):
                tile = Tile.of(start + offset, block[offset : offset + size])
                for part in parts:
                    part.look(tile, k, space)
            begun.at(start + len(block), lambda: (part.state() for part in parts))
            task.advance(len(block))
        lists = [best_hits([part.best.best()], len(part.queries), k) for part in parts]
        unproven = np.concatenate([part.unproven(hits) for part, hits in zip(parts, lists, strict=True)])
    rows, scores = (np.concatenate([getattr(hits, name) for hits in lists]) for name in ("rows", "scores"))
    return Hits(rows, scores), unproven


def pair_products(queries: Tensor, documents: Tensor, counts: Tensor, query: Tensor, row: Tensor) -> Tensor:
    """The inner product of each pair: float32 [p].

    Args:
        queries: float32 [q, d].
        documents: float32 [n, d].
        counts: int64 [q], how many pairs each query has.
        query, row: int64 [p], the numbers of each pair's vectors, by ascending query.
    """
    if queries.device.type != "cpu":
        return gathered_products(queries, documents, query, row)
    _quiet()
    first = torch.zeros(len(queries) + 1, dtype=torch.int64)
    torch.cumsum(counts, 0, out=first[1:])
    chosen = _pairs(first, row, (len(queries), len(documents)))
    products: Tensor = torch.sparse.sampled_addmm(chosen, queries, documents.T, beta=0.0).values()
    return products


def gathered_products(queries: Tensor, documents: Tensor, query: Tensor, row: Tensor) -> Tensor:
    """The same on any device, from copies of the pairs' vectors.

    A GPU chooses by the number of pairs in which order it adds up, so the last of them are filled up to as many.
    """
    if not len(query):
        return queries.new_empty(0)
    missing = (0, -len(query) % _PAIRS)
    parts = (torch.nn.functional.pad(numbers, missing).view(-1, _PAIRS) for numbers in (query, row))
    products = [(queries[some] * documents[others]).sum(1) for some, others in zip(*parts, strict=True)]
    return torch.cat(products)[: len(query)]


def _pairs(first: Tensor, row: Tensor, size: tuple[int, int]) -> Tensor:
    return torch.sparse_csr_tensor(first, row, torch.zeros(len(row)), size, check_invariants=False)


@cache
def _quiet() -> None:
    """Silence torch's one warning per process that sparse matrices are in beta."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _pairs(torch.tensor([0, 1]), torch.tensor([0]), (1, 1))
