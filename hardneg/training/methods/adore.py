"""Query-side training with a fixed index (stage `train-queries`): ADORE, and JPQ, which also learns the centroids."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hardneg.encoders.encoder import Encoder
from hardneg.formats import arrays
from hardneg.formats.negatives import NegativesFile
from hardneg.indexes.candidate_scoring import encoded_rows
from hardneg.indexes.product import PqSearcher
from hardneg.mining.choosing import search_queries
from hardneg.protocols import DenseSearcher, Searcher, StoredSearcher
from hardneg.records import Encoded, ScoreBatch, TrainingError
from hardneg.runtime import Seconds, barrier, gather, generator, world
from hardneg.store import digest, replacing
from hardneg.training import batches, checkpoint, step
from hardneg.training.batch_orders import Rows
from hardneg.training.examples import Examples, QueryRows, TrainingData

Forced = Literal["none_retrieved", "always", "never"]
FORCED: Forced = "none_retrieved"
"""Default rule for adding known positives to a list."""
Blocks = Callable[[], Iterator[Rows]]
"""A function that yields the lists of all queries in blocks, int64 [n, K], padded with -1."""
_QUERIES = 4096
QUERIES_PER_PASS = 16  # measured on two cores: padding costs a CPU more than a second pass


class NegativeSource:
    """Base class for sources of the document lists that each step scores.

    live: whether lists are ranked with the current model. refresh_interval: number of steps between calls of `prepare`;
    None means one call at the start.
    """

    live: ClassVar[bool] = False
    refresh_interval: int | None = None

    def prepare(self, step: int) -> None:
        """Prepare to start or resume at a step."""

    def lists(self, batch: QueryRows, start: int, vectors: Tensor | None) -> Rows:
        """Return the list of each query: rows of the corpus, int64 [B, K], padded with -1.

        start: position of the batch in the sequence. vectors: this process's encoded queries, for a live source.
        """
        raise NotImplementedError

    def in_use(self, batch: QueryRows, vectors: Encoded) -> Rows:
        """Return the lists that a batch would get now, int64 [B, K], padded with -1. vectors: its encoded queries."""
        return self.lists(batch, -1, None)


@dataclass
class DynamicNegatives(NegativeSource):
    """Dynamic hard negatives: the top hits in the index for the current encoding of each query.

    collect: function that converts encoded queries to the input of the index.

    Source: Zhan et al., Optimizing Dense Retrieval Model Training with Hard Negatives (SIGIR 2021), Eq. 10.
    """

    searcher: Searcher
    depth: int
    collect: Callable[[Tensor], Encoded] = lambda queries: queries.float().cpu().numpy()

    live = True

    def lists(self, batch: QueryRows, start: int, vectors: Tensor | None) -> Rows:
        """Return the top hits of the whole batch, int64 [B, K]; each process searches for its share of the queries."""
        assert vectors is not None
        rows = torch.from_numpy(self.in_use(batch, self.collect(vectors)))
        return gather(rows.to(vectors.device), len(batch.queries)).cpu().numpy()

    def in_use(self, batch: QueryRows, vectors: Encoded) -> Rows:
        return self.searcher.search(vectors, self.depth).rows


@dataclass
class RandomNegatives(NegativeSource):
    """Random negatives: at each step, `depth` documents per query, drawn uniformly from a corpus of `documents`."""

    documents: int
    depth: int
    seed: int

    def lists(self, batch: QueryRows, start: int, vectors: Tensor | None) -> Rows:
        draws = generator(self.seed, "random negatives", start)
        return draws.integers(0, self.documents, (len(batch.queries), self.depth))


@dataclass
class NegativeTable(NegativeSource):
    """Precomputed lists for all training queries, in a file in `folder`.

    shape: (queries, K). make: function that yields the lists, ranked with the current weights. refresh_interval: number
    of steps between calls of `make`; None means one call.
    """

    folder: Path
    shape: tuple[int, int]
    make: Blocks
    refresh_interval: int | None = None

    def prepare(self, step: int) -> None:
        """Write the table if it is due, remove all others, and open it. Raises TrainingError if it is missing."""
        mined_at = step - step % self.refresh_interval if self.refresh_interval else 0
        path = self.folder / f"lists-{mined_at:09d}.npy"
        if world().rank == 0:
            if step == mined_at:
                header = {"descr": "<i4", "fortran_order": False, "shape": self.shape}
                with replacing(path) as file:
                    np.lib.format.write_array_header_1_0(file, header)
                    for lists in self.make():
                        file.write(np.ascontiguousarray(lists, "<i4").tobytes())
            if not path.exists():
                gone = f"the lists of step {mined_at} are missing"
                raise TrainingError(f"{path}: {gone}; remove {self.folder} to start afresh")
            for other in {*self.folder.glob("lists-*.npy")} - {path}:
                other.unlink()
        barrier()
        self.table = arrays.map_array(path, self.shape, np.int32)

    def lists(self, batch: QueryRows, start: int, vectors: Tensor | None) -> Rows:
        return self.table[batch.queries].astype(np.int64)


def mined_lists(data: TrainingData, negatives: NegativesFile, depth: int) -> Blocks:
    """Return a function that yields each query's first `depth` negatives; queries missing from the file get none."""
    row_of = {query_id: row for row, query_id in enumerate(negatives.query_ids)}

    def blocks() -> Iterator[Rows]:
        for start in range(0, len(data.query_ids), _QUERIES):
            query_ids = data.query_ids[start : start + _QUERIES]
            items = [negatives[row_of[name]].negatives[:depth] if name in row_of else [] for name in query_ids]
            yield data.corpus.known_lists(items, depth, "mine negatives from this corpus")

    return blocks


def searched_lists(encoder: Encoder, data: TrainingData, searcher: Searcher, depth: int) -> Blocks:
    """Return a function that yields the top `depth` hits of each query, encoded with the current weights."""
    encode: Any = partial(encoder.encode, side="query")
    return lambda: (hits.rows for *_, hits in search_queries(encode, data.texts, searcher, depth, _QUERIES, Seconds()))


@dataclass(frozen=True, slots=True)
class LabelledLists:
    """The documents of B queries, M per query: a ranked list, followed by added positives.

    rows: int64 [B, M], rows of the corpus, padded with -1.
    ranks: int64 [B, M], ranks in the list, counted from 1 and continued for added positives; 0 for padding.
    positive: bool [B, M], known positives of the query.
    valid: bool [B, M], false for padding, duplicates of a positive, and the documents `aside` in `QueryRows`.
    """

    rows: Rows
    ranks: Rows
    positive: NDArray[np.bool_]
    valid: NDArray[np.bool_]


def label(lists: Rows, batch: QueryRows, content_hash: NDArray[np.uint64], forced: Forced) -> LabelledLists:
    """Label the documents of lists as positive or negative, and add missing positives.

    lists: int64 [B, K], rows of the corpus, best first, padded with -1. content_hash: uint64 [N], by row of the corpus.
    forced: `always` adds all missing positives to each list, `none_retrieved` only to lists without any, `never` none.
    """
    wanted = np.zeros(len(batch.known), bool)
    if forced == "always":
        wanted = ~np.any(lists[batch.owner] == batch.known[:, None], axis=1)
    elif forced == "none_retrieved":
        wanted = ~np.any(arrays.known_to(lists, batch.known, batch.owner, len(lists)), axis=1)[batch.owner]
    owner = batch.owner[wanted]
    column = np.arange(len(owner)) - np.searchsorted(owner, owner)
    added = np.full((len(lists), int(column.max(initial=-1)) + 1), -1, np.int64)
    added[owner, column] = batch.known[wanted]
    rows = np.concatenate([lists, added], axis=1)
    there = rows >= 0
    positive = arrays.known_to(rows, batch.known, batch.owner, len(rows))
    known, owner = np.append(batch.known, batch.aside), np.append(batch.owner, batch.aside_owner)
    copies = arrays.known_to(content_hash[np.maximum(rows, 0)], content_hash[known], owner, len(rows))
    ranks = np.where(there, np.arange(1, rows.shape[1] + 1), 0)
    return LabelledLists(rows, ranks, positive, positive | (there & ~copies))


@dataclass(frozen=True, slots=True)
class QueryBatch:
    """A batch of training queries starting at position `start`, with the features of this process's share of them."""

    rows: QueryRows
    features: dict[str, Tensor]
    start: int

    @property
    def query_ids(self) -> list[str]:
        return self.rows.query_ids


class QueryTower(nn.Module):
    """The query side of an encoder, as a module that encodes a batch of queries in one forward call."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.parts = nn.ModuleList(encoder.parts("query"))
        self._embed = encoder.embed
        self._cpu = encoder.device.type == "cpu"

    def forward(self, queries: dict[str, Tensor]) -> tuple[Tensor, Tensor | None]:
        """Return encoded queries, float32 [B, ...], and the index's trained weights, here None.

        Scores must use these weights, since a distributed wrapper tracks the outputs of the forward pass.
        """
        embed = partial(self._embed, side="query")
        return batches.in_parts(queries, QUERIES_PER_PASS).through(embed) if self._cpu else embed(queries), None


@dataclass(eq=False, kw_only=True)
class AdoreTraining(step.ExampleTraining):
    """Query-side training with dynamic hard negatives.

    Source: Zhan et al., Optimizing Dense Retrieval Model Training with Hard Negatives (SIGIR 2021), section 6.2.

    Attributes:
        encoder: twin encoder; only its query side is trained.
        examples: the queries and their positives.
        searcher: the fixed index. index: key of its artifact. content_hash: uint64 [N], by row of the corpus.
        source: source of the document lists of each step.
        forced: rule for adding known positives to the lists. dropout: whether a live source searches with dropout.
        watch: function that is called after each step and returns additional metrics.
    """

    encoder: Encoder
    examples: Examples
    searcher: StoredSearcher | DenseSearcher
    index: str
    content_hash: NDArray[np.uint64]
    source: NegativeSource
    forced: Forced = FORCED
    dropout: bool = True
    watch: Callable[[int], checkpoint.Record] | None = None

    @cached_property
    def forward_module(self) -> nn.Module:
        return QueryTower(self.encoder)

    @property
    def trainable(self) -> nn.Module:
        return self.forward_module

    @property
    def refresh_interval(self) -> int | None:
        return self.source.refresh_interval

    def digest(self) -> str:
        return digest([self.examples.digest(), self.index, {"forced": self.forced, "dropout": self.dropout}])

    def prepare(self, step: int) -> None:
        self.source.prepare(step)

    def batches(self, starts: range, size: int) -> Iterator[QueryBatch]:
        def make(start: int) -> QueryBatch:
            rows = self.examples.ask(start, size)
            return QueryBatch(rows, self.encoder.features(rows.texts[batches.own_share(size)], "query"), start)

        return batches.ahead(make, starts)

    def scores(self, model: Any, batch: QueryBatch, half: bool) -> ScoreBatch:
        """Return the scores of each query's own list, for the queries of all processes."""
        with torch.autocast(self.encoder.device.type, torch.bfloat16, enabled=half):
            vectors, weights = model(batch.features)
            searching = vectors.detach() if self.source.live else None
            if self.source.live and not self.dropout:
                self.trainable.eval()
                with torch.no_grad():
                    searching = self.forward_module(batch.features)[0]
                self.trainable.train()
        lists = self.source.lists(batch.rows, batch.start, searching)
        labelled = label(lists, batch.rows, self.content_hash, self.forced)
        scores = self._products(gather(vectors, len(lists)), labelled, weights)
        return score_batch(scores, labelled, lists.shape[1], self.source.live)

    def log_metrics(self, step: int) -> checkpoint.Record:
        if self.watch is None or world().rank > 0:
            return {}
        record = self.watch(step)
        self.trainable.train()
        return record

    def _products(self, queries: Tensor, lists: LabelledLists, weights: Tensor | None) -> Tensor:
        """Compute inner products, float32 [B, M], differentiable in the queries and any trained index weights."""
        stored = encoded_rows(self.searcher, np.maximum(lists.rows, 0).reshape(-1))
        return self.encoder.score_lists(queries, stored)


def score_batch(scores: Tensor, lists: LabelledLists, width: int, live: bool) -> ScoreBatch:
    """Return the `ScoreBatch` of labelled lists.

    scores: float32 [B, M]. width: number of leading columns from the lists, followed by added positives. live: whether
    the current model ranked the lists; if so, their ranks are used, otherwise documents are ranked by `scores`.
    """
    positive, valid = (torch.from_numpy(mask).to(scores.device) for mask in (lists.positive, lists.valid))
    there = torch.from_numpy(lists.rows >= 0).to(scores.device)
    if live:
        ranks = torch.from_numpy(lists.ranks).to(scores.device)
    else:
        order = scores.detach().masked_fill(~there, -torch.inf).argsort(dim=1, descending=True, stable=True)
        ranks = torch.where(there, order.argsort(dim=1) + 1, 0)
    from_list = torch.arange(scores.shape[1], device=scores.device) < width
    return ScoreBatch(scores, positive, valid & ~positive & from_list, valid, ranks)


class JpqTower(QueryTower):
    """An encoder's query side with the centroids, float32 [M, C, d / M], and rotation, float32 [d, d], of an index.

    The learning rate of the centroids is `factor` times the encoder's. The rotation is fixed, or None if absent.
    """

    rotation: Tensor | None

    def __init__(self, encoder: Encoder, product: PqSearcher, factor: float) -> None:
        super().__init__(encoder)
        self.centroids = nn.Parameter(torch.tensor(product.centroids(), device=encoder.device))
        self.centroids.factor = factor  # type: ignore[attr-defined]
        rotation = product.rotation()
        self.register_buffer("rotation", None if rotation is None else torch.tensor(rotation, device=encoder.device))

    def forward(self, queries: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        return super().forward(queries)[0], self.centroids.view_as(self.centroids)


@dataclass(eq=False, kw_only=True)
class JpqTraining(AdoreTraining):
    """Query-side training that also learns the centroids of the opened index; the index file does not change.

    Source: Zhan et al., Jointly Optimizing Query Encoder and Product Quantization to Improve Retrieval Performance
    (CIKM 2021).

    Attributes:
        factor: learning rate of the centroids, as a multiple of the encoder's.
    """

    factor: float = 1.0

    searcher: PqSearcher

    @cached_property
    def forward_module(self) -> JpqTower:
        return JpqTower(self.encoder, self.searcher, self.factor)

    @property
    def centroids(self) -> NDArray[np.float32]:
        """The current centroids, float32 [M, C, d / M]."""
        return self.forward_module.centroids.detach().cpu().numpy()

    def install(self) -> None:
        """Copy the current centroids into the opened index."""
        self.searcher.install(self.centroids)

    def prepare(self, step: int) -> None:
        self.install()
        super().prepare(step)

    def scores(self, model: nn.Module, batch: QueryBatch, half: bool) -> ScoreBatch:
        """Return the scores of each query's own list, differentiable in the queries and the centroids."""
        self.install()
        return super().scores(model, batch, half)

    def log_metrics(self, step: int) -> checkpoint.Record:
        if self.watch is not None:
            self.install()
        return super().log_metrics(step)

    def _products(self, queries: Tensor, lists: LabelledLists, weights: Tensor | None) -> Tensor:
        """Compute the inner products of the whole batch in every process, so that averaging keeps the gradients."""
        assert weights is not None
        codes = self.searcher.codes(np.maximum(lists.rows, 0).reshape(-1))
        chosen = torch.from_numpy(codes.astype(np.int64)).to(queries.device).view(*lists.rows.shape, -1)
        with torch.autocast(queries.device.type, enabled=False):
            rotation, whole = self.forward_module.rotation, queries.float()
            return code_products(whole if rotation is None else whole @ rotation.T, weights, chosen)


def code_products(queries: Tensor, centroids: Tensor, codes: Tensor) -> Tensor:
    """Compute inner products of queries and coded vectors, float [B, L], differentiable in queries and centroids.

    queries: float [B, d], rotated like the vectors. centroids: float [M, C, d / M]. codes: int64 [B, L, M].
    """
    parts = queries.view(len(queries), len(centroids), -1)
    products = torch.einsum("bmd,mcd->bmc", parts, centroids)
    return products.gather(2, codes.transpose(1, 2)).sum(1)
