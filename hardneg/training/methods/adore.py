"""The methods of stage `train-queries`: the query encoder learns to rank a fixed index's hits, or its centroids too."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hardneg.encoders.encoder import Encoder
from hardneg.formats.hash_index import known_to
from hardneg.indexes.backends.product import PqSearcher
from hardneg.indexes.kernels.candidate_scoring import encoded_rows
from hardneg.protocols import DenseSearcher, StoredSearcher
from hardneg.records import ScoreBatch
from hardneg.runtime import gather, world
from hardneg.store import digest
from hardneg.training.batches import ahead, in_parts, own_share
from hardneg.training.examples import Examples, QueryRows
from hardneg.training.history import Record
from hardneg.training.masks import GuidedMask
from hardneg.training.negative_sources import NegativeSource
from hardneg.training.step import ExampleTraining
from hardneg.training.teacher import Guide

Forced = Literal["none_retrieved", "always", "never"]
FORCED: Forced = "none_retrieved"
"""Which known positives are added to a list, where nothing else is chosen."""


@dataclass(frozen=True, slots=True)
class Listed:
    """The documents of B queries, M of each: a list's first, then positives that were added.

    rows: int64 [B, M], rows of the corpus; -1 pads.
    ranks: int64 [B, M], ranks in the list, counted from 1; added positives follow; 0 where rows is -1.
    positive: bool [B, M], known positives of the query. valid: bool [B, M], no padding and no copy of a positive, nor
    the query's own text.
    """

    rows: NDArray[np.int64]
    ranks: NDArray[np.int64]
    positive: NDArray[np.bool_]
    valid: NDArray[np.bool_]


def label(lists: NDArray[np.int64], batch: QueryRows, content_hash: NDArray[np.uint64], forced: Forced) -> Listed:
    """Labels lists from all known positives, and adds positives to them.

    lists: int64 [B, K], rows of the corpus, best first; -1 pads. content_hash: uint64 [N], by row of the corpus.
    forced: `always` adds every known positive that its list lacks, `none_retrieved` only to lists without any.
    """
    wanted = np.zeros(len(batch.known), bool)
    if forced == "always":
        wanted = ~np.any(lists[batch.owner] == batch.known[:, None], axis=1)
    elif forced == "none_retrieved":
        wanted = ~np.any(known_to(lists, batch.known, batch.owner, len(lists)), axis=1)[batch.owner]
    owner = batch.owner[wanted]
    column = np.arange(len(owner)) - np.searchsorted(owner, owner)
    added = np.full((len(lists), int(column.max(initial=-1)) + 1), -1, np.int64)
    added[owner, column] = batch.known[wanted]
    rows = np.concatenate([lists, added], axis=1)
    there = rows >= 0
    positive = known_to(rows, batch.known, batch.owner, len(rows))
    known, owner = np.append(batch.known, batch.aside), np.append(batch.owner, batch.aside_owner)
    copies = known_to(content_hash[np.maximum(rows, 0)], content_hash[known], owner, len(rows))
    ranks = np.where(there, np.arange(1, rows.shape[1] + 1), 0)
    return Listed(rows, ranks, positive, positive | (there & ~copies))


QUERIES_A_PASS = 16  # measured on two cores: padding costs a CPU more than a second pass


@dataclass(frozen=True, slots=True)
class QueryBatch:
    """The queries from position `start` of the endless order on, and the features of this process's share of them."""

    rows: QueryRows
    features: dict[str, Tensor]
    start: int

    @property
    def query_ids(self) -> list[str]:
        return self.rows.query_ids


class QueryTower(nn.Module):
    """The queries' side of an encoder."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.parts = nn.ModuleList(encoder.parts("query"))
        self._embed = encoder.embed
        self._cpu = encoder.device.type == "cpu"

    def forward(self, queries: dict[str, Tensor]) -> tuple[Tensor, Tensor | None]:
        """float32 [B, ...], encoded, and the weights of the index's side, where some learn too.

        Scores take these from here: a distributed wrapper must see all that learns come out of the forward pass.
        """
        embed = partial(self._embed, side="query")
        return in_parts(queries, QUERIES_A_PASS).through(embed) if self._cpu else embed(queries), None


@dataclass(eq=False, kw_only=True)
class AdoreTraining(ExampleTraining):
    """Query-side training.

    Source: Zhan et al., Optimizing Dense Retrieval Model Training with Hard Negatives (SIGIR 2021), section 6.2.

    Attributes:
        encoder: a twin; only its query side learns.
        examples: the queries and their positives.
        searcher: the fixed index; index: names its content. content_hash: uint64 [N], by row.
        source: gives each step its lists.
        forced: which known positives are added to them. dropout: whether queries search as dropout left them.
        watch: called after each step for metrics besides the loss.
        guide: its scores of each query's list teach a loss that needs a teacher; mask: masks negatives by them.
    """

    encoder: Encoder
    examples: Examples
    searcher: StoredSearcher | DenseSearcher
    index: str
    content_hash: NDArray[np.uint64]
    source: NegativeSource
    forced: Forced = FORCED
    dropout: bool = True
    watch: Callable[[int], Record] | None = None
    guide: Guide | None = None
    mask: GuidedMask | None = None

    @cached_property
    def forward_module(self) -> nn.Module:
        return QueryTower(self.encoder)

    @cached_property
    def trainable(self) -> nn.Module:
        return self.forward_module

    @property
    def refresh_interval(self) -> int | None:
        return self.source.refresh_interval

    def digest(self) -> str:
        options = {"forced": self.forced, "dropout": self.dropout}
        named: list[object] = [self.examples.digest(), self.index, options]
        return digest(named if self.mask is None else [*named, asdict(self.mask)])

    def prepare(self, step: int) -> None:
        self.source.prepare(step)

    def batches(self, starts: range, size: int) -> Iterator[QueryBatch]:
        def make(start: int) -> QueryBatch:
            rows = self.examples.ask(start, size)
            return QueryBatch(rows, self.encoder.features(rows.texts[own_share(size)], "query"), start)

        return ahead(make, starts)

    def scores(self, model: Any, batch: QueryBatch, half: bool) -> ScoreBatch:
        """Each query against its own list; lists and vectors are those of all processes."""
        with torch.autocast(self.encoder.device.type, torch.bfloat16, enabled=half):
            vectors, weights = model(batch.features)
            searching = vectors.detach() if self.source.live else None
            if self.source.live and not self.dropout:
                self.trainable.eval()
                with torch.no_grad():
                    searching = self.forward_module(batch.features)[0]
                self.trainable.train()
        lists = self.source.lists(batch.rows, batch.start, searching)
        listed = label(lists, batch.rows, self.content_hash, self.forced)
        scores = self._products(gather(vectors, len(lists)), listed, weights)
        scored = score_batch(scores, listed, lists.shape[1], self.source.live)
        if self.guide is None:
            return scored
        guided = torch.from_numpy(self.guide.of_lists(batch.rows.queries, np.maximum(listed.rows, 0))).to(scores.device)
        scored = replace(scored, guide=guided, teacher=guided)
        return scored if self.mask is None else self.mask(scored)

    def log_metrics(self, step: int) -> Record:
        if self.watch is None or not world().first:
            return {}
        record = self.watch(step)
        self.trainable.train()
        return record

    def _products(self, queries: Tensor, listed: Listed, weights: Tensor | None) -> Tensor:
        """float32 [B, M], with gradients to the queries, and to the weights of the index's side where there are any."""
        stored = encoded_rows(self.searcher, np.maximum(listed.rows, 0).reshape(-1))
        return self.encoder.score_lists(queries, stored)


def score_batch(scores: Tensor, listed: Listed, width: int, live: bool) -> ScoreBatch:
    """The lists' documents as a loss sees them, with the lists' own ranks where they are the model's as it is.

    Else ranks are those among the documents in play.

    scores: float32 [B, M]. listed: what they are of. width: how many of the M are a list's own, not added. live:
    whether the model as it is has ranked the lists.
    """
    positive, valid = (torch.from_numpy(mask).to(scores.device) for mask in (listed.positive, listed.valid))
    there = torch.from_numpy(listed.rows >= 0).to(scores.device)
    if live:
        ranks = torch.from_numpy(listed.ranks).to(scores.device)
    else:
        order = scores.detach().masked_fill(~there, -torch.inf).argsort(dim=1, descending=True, stable=True)
        ranks = torch.where(there, order.argsort(dim=1) + 1, 0)
    from_list = torch.arange(scores.shape[1], device=scores.device) < width
    return ScoreBatch(scores, positive, valid & ~positive & from_list, valid, ranks)


class JpqTower(QueryTower):
    """The queries' side of an encoder, and an index's centroids, float32 [M, C, d / M], and rotation, float32 [d, d].

    The centroids learn at a rate of their own, the rotation stays.
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
    """Query-side training that moves the centroids of the opened index too; its file stays as it is.

    Source: Zhan et al., Jointly Optimizing Query Encoder and Product Quantization to Improve Retrieval Performance
    (CIKM 2021).

    Attributes:
        factor: the learning rate of the centroids, in multiples of the encoder's.
    """

    factor: float = 1.0

    @cached_property
    def product(self) -> PqSearcher:
        """The index, whose centroids in memory follow the training."""
        assert isinstance(self.searcher, PqSearcher)
        return self.searcher

    @cached_property
    def forward_module(self) -> JpqTower:
        return JpqTower(self.encoder, self.product, self.factor)

    @property
    def centroids(self) -> Tensor:
        return self.forward_module.centroids

    def install(self) -> None:
        """Copy the current centroids into the opened index."""
        self.product.install(self.centroids.detach().cpu().numpy())

    def prepare(self, step: int) -> None:
        self.install()
        super().prepare(step)

    def scores(self, model: nn.Module, batch: QueryBatch, half: bool) -> ScoreBatch:
        """As in query-side training, with gradients to the centroids too."""
        self.install()
        return super().scores(model, batch, half)

    def log_metrics(self, step: int) -> Record:
        if self.watch is not None:
            self.install()
        return super().log_metrics(step)

    def _products(self, queries: Tensor, listed: Listed, weights: Tensor | None) -> Tensor:
        """All processes have the whole batch, so the mean of their gradients is that of one process."""
        assert weights is not None
        codes = self.product.codes(np.maximum(listed.rows, 0).reshape(-1))
        chosen = torch.from_numpy(codes.astype(np.int64)).to(queries.device).view(*listed.rows.shape, -1)
        with torch.autocast(queries.device.type, enabled=False):
            rotation, whole = self.forward_module.rotation, queries.float()
            return code_products(whole if rotation is None else whole @ rotation.T, weights, chosen)


def code_products(queries: Tensor, centroids: Tensor, codes: Tensor) -> Tensor:
    """Inner products of queries and coded vectors, float [B, L], with gradients to queries and centroids.

    queries: float [B, d], rotated as the vectors were. centroids: float [M, C, d / M]. codes: int64 [B, L, M].
    """
    parts = queries.view(len(queries), len(centroids), -1)
    products = torch.einsum("bmd,mcd->bmc", parts, centroids)
    return products.gather(2, codes.transpose(1, 2)).sum(1)
