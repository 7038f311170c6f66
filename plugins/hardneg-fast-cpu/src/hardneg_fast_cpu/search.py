"""Exact search: products in bf16 with an error bound select candidates for the top k, which are rescored in float32.

Each block of scores is compared with a bar for each query: the k-th best float32 score so far, minus the error bound.
Lower scores cannot enter the list. All other pairs are rescored one by one, so that the lists equal those of a float32
search, ties included. A query with too many candidates for this to be faster is given up and searched in float32 at the
end. All queries are given up if a result exceeds the error bound.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from hardneg.plugin import runtime

_TILE = 2048  # vectors multiplied at a time on a CPU, to fit its caches with their scores
_GROUP = 16  # neighbouring vectors whose largest score is compared with the bar first
_AHEAD = 16_384  # vectors that determine the first bar
_FIRST, _SHARE = 8, 32  # candidates before a query is given up: 8 k, and one of 32 vectors
_RANGE = 1e30  # the largest bound; beyond it a product may exceed float32's range
_PAIRS = 65_536  # pairs multiplied at a time without a kernel for chosen pairs: always exactly as many
_SUM = 2.0**-21  # for each number of a vector: rounding of both sums, with room for units that truncate
_UNDERFLOW = 2.0**-60  # for each number, before the root: what norms and products lose below float32's range
_ULP = 2.0**-8  # the largest rounding error of a bf16 number: half the distance to its neighbours
_BLOCK_BYTES = 96 << 20  # of vectors, searched at a time on a CPU; as much again is read meanwhile
_LARGE_ON_CPU, _FEW_QUERIES = 1 << 35, 256  # fewest multiplications and queries for which bf16 is faster
_LARGE_ON_GPU, _BLOCK_ON_GPU = 4096 * 65_536, 2048  # scores, queries; with fewer, kernel launches dominate


def rough_search(device: torch.device, queries: int, vectors: int, dimension: int, k: int) -> "RoughSearch | None":
    """Return a bf16 search if the device has bf16 units, the search is large and k is small; else None."""
    if device.type == "cuda":
        large = queries >= _BLOCK_ON_GPU and queries * vectors >= _LARGE_ON_GPU
    else:
        large = queries >= _FEW_QUERIES and queries * vectors * dimension >= _LARGE_ON_CPU
    few = k * _GROUP > vectors  # the lists would hold too large a share of the vectors
    if not large or few or not runtime.has_bf16_units(device):
        return None
    if device.type == "cpu":
        return RoughSearch(max(1, _BLOCK_BYTES // (4 * dimension)), 1024)
    return RoughSearch(65_536, 2048)


@dataclass(frozen=True)
class RoughSearch:
    """An exact search with products in bf16. corpus, queries: number of vectors and of queries per block."""

    corpus: int
    queries: int

    @staticmethod
    @contextmanager
    def computing() -> Iterator[None]:
        """Make a GPU accumulate bf16 products in float32 during a `with` block, as the error bound assumes.

        The setting applies to all threads. A CPU accumulates in float32 in any case.
        """
        rule = torch.backends.cuda.matmul
        before, rule.allow_bf16_reduced_precision_reduction = rule.allow_bf16_reduced_precision_reduction, False
        try:
            yield
        finally:
            rule.allow_bf16_reduced_precision_reduction = before

    @staticmethod
    def tiles(start: int, block: Tensor) -> "Sequence[Tile]":
        """Split a block, whose first vector is row `start`, into tiles; on a CPU, a tile's scores fit its caches."""
        size = _TILE if block.device.type == "cpu" else max(1, len(block))
        return [Tile.of(start + offset, block[offset : offset + size]) for offset in range(0, len(block), size)]

    @staticmethod
    def part(queries: Tensor, k: int) -> "Candidates":
        """Return `Candidates` for a block of queries, float32 [q, d], before any search. k: length of the lists."""
        met = torch.zeros(len(queries), dtype=torch.int64, device=queries.device)
        return Candidates(queries, Rounded.of(queries), k, met, met > 0)


@dataclass(frozen=True)
class Rounded:
    """Vectors rounded to bf16.

    values: bf16 [n, d]. norms: float32 [n], norms of the vectors before rounding.
    lost: float32 [n], norms of the rounding errors.
    """

    values: Tensor
    norms: Tensor
    lost: Tensor

    @classmethod
    def of(cls, vectors: Tensor) -> "Rounded":
        """Round vectors, float32 [n, d], 512 rows at a time so that intermediate results stay in caches."""
        values = vectors.bfloat16()
        parts = zip(torch.split(vectors, 512), torch.split(values, 512), strict=True)
        lost = [torch.linalg.vector_norm(torch.sub(part, rounded), dim=1) for part, rounded in parts]
        return cls(values, torch.linalg.vector_norm(vectors, dim=1), torch.cat(lost))


def error_bounds(queries: Rounded, documents: Rounded) -> Tensor:
    """Return a bound on the error of each query's bf16 products before the results are rounded, float32 [q].

    With q' and d' for the rounded q and d, qd - q'd' = (q - q')d + q'(d - d'), so by Cauchy-Schwarz

        |qd - q'd'| <= |q - q'| |d| + |q'| |d - d'|,

    and a sum of n products in float32, in any order, has an error of about n units of rounding times |q| |d| (Higham,
    Accuracy and Stability of Numerical Algorithms, 2002, section 3.1). The bound covers both sums (of the bf16 product
    and of the float32 product that ranks candidates) and losses due to underflow.
    """
    length = queries.values.shape[1]
    tiny = length**0.5 * _UNDERFLOW
    norm, lost = documents.norms.amax() + tiny, documents.lost.amax() + tiny
    own, own_lost = queries.norms + tiny, queries.lost + tiny
    bound: Tensor = (own_lost * norm + (own + own_lost) * lost + length * _SUM * own * norm) * (1 + 2.0**-10)
    return bound


def rounded_down(scores: Tensor) -> Tensor:
    """Return, for each score, a bf16 number that results at or above the score still reach when rounded to bf16.

    Hardware that rounds to nearest or truncates returns a neighbour of the result and preserves order, so the next bf16
    number at or below the score is low enough.
    """
    return (scores - scores.abs() * _ULP).bfloat16()


@dataclass(frozen=True)
class Tile:
    """A tile of a corpus: its vectors from row `start` on, float32 [n, d], exact and rounded.

    columns: bf16 [16 * g, d], the rounded vectors padded with zeros; row r is at r % 16 * g + r // 16, so that maxima
    over neighbouring rows are cheap.
    """

    start: int
    vectors: Tensor
    rounded: Rounded
    columns: Tensor

    @classmethod
    def of(cls, start: int, vectors: Tensor) -> "Tile":
        """Create a tile from vectors, float32 [n, d]; the first is row `start` of the corpus."""
        rounded = Rounded.of(vectors)
        padded = torch.nn.functional.pad(rounded.values, (0, 0, 0, -len(vectors) % _GROUP))
        columns = padded.view(-1, _GROUP, vectors.shape[1]).transpose(0, 1).reshape(padded.shape)
        return cls(start, vectors, rounded, columns)

    def scores(self, queries: Rounded, space: Tensor) -> Tensor:
        """Compute the scores of rounded queries, bf16 [q, 16 * g], in the buffer `space`."""
        lines, columns = len(queries.values), len(self.columns)
        return torch.mm(queries.values, self.columns.T, out=space[: lines * columns].view(lines, columns))


def reaching(scores: Tensor, bar: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return query index, tile row and float32 value, each [p], of all scores that reach their bar, sorted by query.

    scores: bf16 [q, 16 * g]. bar: bf16 [q]. count: number of vectors in the tile; the others are padding.
    """
    if scores.device.type == "cpu" and bool((bar > 0).all()):  # numbers above zero are in the order of their bits
        query, row, kept = _reaching(scores.view(torch.int16), bar.view(torch.int16))
    else:
        query, row, kept = _reaching(scores, bar)
    real = row < count
    if not bool(real.all()):
        query, row, kept = query[real], row[real], kept[real]
    return query, row, scores.view(-1).index_select(0, kept).float()


def _reaching(scores: Tensor, bar: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the queries, the rows, and the flat indices of the scores that reach the bar."""
    columns = scores.shape[1]
    groups = columns // _GROUP
    some = _true(scores.view(len(scores), _GROUP, -1).amax(1) >= bar[:, None])
    query = some.div(groups, rounding_mode="floor")
    first = some + query * (columns - groups)
    members = (first[:, None] + torch.arange(_GROUP, device=scores.device) * groups).view(-1)
    least = bar.index_select(0, query)[:, None]
    entering = _true(scores.view(-1).index_select(0, members).view(-1, _GROUP) >= least)
    kept = members.index_select(0, entering)
    query = kept.div(columns, rounding_mode="floor")
    return query, (kept - query * columns) % groups * _GROUP + (entering & (_GROUP - 1)), kept


def _true(mask: Tensor) -> Tensor:
    """Return the ascending flat indices of the true values, read eight at a time, as most are false."""
    flat = mask.reshape(-1)
    flat = torch.nn.functional.pad(flat, (0, -len(flat) % 8)) if len(flat) % 8 else flat
    words = flat.view(torch.int64).nonzero()
    inside = flat.view(-1, 8).index_select(0, words.view(-1))
    return (words * 8 + torch.arange(8, device=mask.device))[inside]


@dataclass
class Candidates:
    """The candidates of a block of queries: documents that may be in the top k.

    queries: float32 [q, d]. rounded: the queries in bf16. k: length of the lists. met: int64 [q], number of candidates
    so far. given_up: bool [q], whether to search a query in float32, after too many candidates or too loose a bound.
    """

    queries: Tensor
    rounded: Rounded
    k: int
    met: Tensor
    given_up: Tensor

    def candidates(self, tiles: Sequence[Tile], bar: Tensor | None) -> tuple[Tensor, Tensor, Tensor] | None:
        """Return query, row and float32 score, each [p], of a block's candidates, by query and row; None if none.

        bar: float32 [q], the k-th best score so far; None before the first block.
        """
        room = len(self.queries) * max(len(tile.columns) for tile in tiles)
        space = torch.empty(room, dtype=torch.bfloat16, device=self.queries.device)
        bar = self._first_bar(tiles, space) if bar is None else bar
        found = [pairs for tile in tiles if (pairs := self._of_tile(tile, bar, space)) is not None]
        if not found:
            return None
        query, row, scores = (torch.cat(parts) for parts in zip(*found, strict=True))
        order = query.argsort(stable=True)
        return query[order], row[order], scores[order]

    def _first_bar(self, tiles: Sequence[Tile], space: Tensor) -> Tensor:
        """Return a lower bound of the k-th best score, float32 [q], from maxima of groups in the first tiles."""
        tiles = tiles[: -(-max(_AHEAD, 2 * self.k * _GROUP) // len(tiles[0].columns))]
        scores = ((tile.scores(self.rounded, space), len(tile.vectors) // _GROUP) for tile in tiles)
        largest = [own.view(len(own), _GROUP, -1).amax(1)[:, :whole].float() for own, whole in scores]
        maxima = torch.cat(largest, 1)
        if maxima.shape[1] < self.k:
            return maxima.new_full((len(maxima),), -torch.inf)
        bound = torch.stack([error_bounds(self.rounded, tile.rounded) for tile in tiles]).amax(0)
        return rounded_down(maxima.topk(self.k, sorted=False).values.amin(1)).float() - bound

    def _of_tile(self, tile: Tile, bar: Tensor, space: Tensor) -> tuple[Tensor, Tensor, Tensor] | None:
        """Return query and row, int64 [p], and float32 score of each candidate in a tile; None without candidates."""
        bound = error_bounds(self.rounded, tile.rounded)
        self.given_up |= ~(bound < _RANGE)
        least = rounded_down(bar - bound).masked_fill(self.given_up, torch.inf)
        query, row, rough = reaching(tile.scores(self.rounded, space), least, len(tile.vectors))
        if not len(query):
            return None
        counts = torch.bincount(query, minlength=len(self.met))
        self.met += counts
        self.given_up |= self.met > _FIRST * self.k + (tile.start + len(tile.vectors)) // _SHARE
        scores = pair_products(self.queries, tile.vectors, counts, query, row)
        apart = (scores - rough).abs() - rough.abs() * 2.0**-8
        self.given_up |= (apart > bound.index_select(0, query)).any()
        return query, row + tile.start, scores


def pair_products(queries: Tensor, documents: Tensor, counts: Tensor, query: Tensor, row: Tensor) -> Tensor:
    """Compute the inner product of each pair, float32 [p].

    queries: float32 [q, d]. documents: float32 [n, d]. counts: int64 [q], number of pairs per query. query, row: int64
    [p], indices of each pair's vectors, by ascending query.
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
    """Compute the inner product of each pair, float32 [p], on any device, from copies of the vectors.

    On a GPU, the order of summation depends on the number of pairs, so the last block is padded to full size.
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
    """Trigger and silence torch's warning, once per process, that sparse matrices are in beta."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _pairs(torch.tensor([0, 1]), torch.tensor([0]), (1, 1))
