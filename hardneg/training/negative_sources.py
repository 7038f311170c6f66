"""Where the documents of a step come from: a search at each step, or the corpus at random."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardneg.distributed import gather
from hardneg.protocols import DenseSearcher
from hardneg.seeding import generator
from hardneg.training.examples import QueryRows


@dataclass
class Clock:
    """Seconds of this process: of training in all, of the searches in it, and of looks, which are no part of it.

    A search is that of the index alone, without the tokenising and encoding of its queries and the waiting for others.
    """

    training: float = 0.0
    searching: float = 0.0
    looking: float = 0.0

    @contextmanager
    def counting(self, name: Literal["training", "searching", "looking"]) -> Iterator[None]:
        """Adds what a block takes, without the looks in it."""
        began, looked = time.perf_counter(), self.looking
        try:
            yield
        finally:
            took = time.perf_counter() - began - (self.looking - looked)
            setattr(self, name, getattr(self, name) + took)

    @property
    def search_share(self) -> float:
        """The part of the training time that went into searches."""
        return self.searching / max(self.training, 1e-9)


class NegativeSource(Protocol):
    """Gives each step its lists.

    live: whether it ranks with the model as it is at each step.
    refresh_interval: steps between calls of `prepare`; None means at the start only.
    """

    @property
    def live(self) -> bool: ...

    @property
    def refresh_interval(self) -> int | None: ...

    def prepare(self, step: int) -> None:
        """Called before training starts or goes on at a step."""
        ...

    def lists(self, asked: QueryRows, start: int, vectors: Tensor | None) -> NDArray[np.int64]:
        """int64 [B, K], rows of the corpus for the queries from position `start` on; -1 pads.

        vectors: float32 [b, d], this process's share of the queries; there for a live source.
        """
        ...

    def in_use(self, asked: QueryRows, vectors: NDArray[np.float32]) -> NDArray[np.int64]:
        """int64 [B, K], the lists that queries with these vectors, float32 [B, d], would have now; -1 pads."""
        ...


@dataclass
class Searched:
    """Dynamic hard negatives: the top of the index for each query as it is encoded at this step.

    Source: Zhan et al., Optimizing Dense Retrieval Model Training with Hard Negatives (SIGIR 2021), Eq. 10.
    """

    searcher: DenseSearcher
    depth: int
    clock: Clock = field(default_factory=Clock)

    live = True
    refresh_interval = None

    def prepare(self, step: int) -> None:
        """Nothing: it searches at each step."""

    def lists(self, asked: QueryRows, start: int, vectors: Tensor | None) -> NDArray[np.int64]:
        """One search for the whole batch, each process for its share of the queries."""
        if vectors is None:
            raise ValueError("a search needs the vectors of the queries")
        wanted = vectors.float().cpu().numpy()
        with self.clock.counting("searching"):
            found = torch.from_numpy(self.searcher.search(wanted, self.depth).rows)
        return gather(found.to(vectors.device), len(asked.queries)).cpu().numpy()

    def in_use(self, asked: QueryRows, vectors: NDArray[np.float32]) -> NDArray[np.int64]:
        """What a search finds."""
        return self.searcher.search(vectors, self.depth).rows


@dataclass
class Uniform:
    """Random negatives: documents of the corpus, each as likely as any other, drawn anew at each step."""

    documents: int
    depth: int
    seed: int

    live = False
    refresh_interval = None

    def prepare(self, step: int) -> None:
        """Nothing: draws depend on the seed and the position alone."""

    def lists(self, asked: QueryRows, start: int, vectors: Tensor | None) -> NDArray[np.int64]:
        """The same documents for the same batch, whatever the weights."""
        return self._drawn(start, len(asked.queries))

    def in_use(self, asked: QueryRows, vectors: NDArray[np.float32]) -> NDArray[np.int64]:
        """Documents that no step has, and that are the same at each look."""
        return self._drawn(-1, len(asked.queries))

    def _drawn(self, start: int, queries: int) -> NDArray[np.int64]:
        draws = generator(self.seed, "random negatives", start)
        return draws.integers(0, self.documents, (queries, self.depth))
