"""Sources of a step's documents: a search at each step, lists in a file, or the corpus at random."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardneg.encoders.encoder import Encoder
from hardneg.formats.arrays import map_array
from hardneg.formats.negatives import NegativesFile
from hardneg.mining.listing import search_queries
from hardneg.protocols import Searcher
from hardneg.records import Encoded, TrainingError
from hardneg.runtime import Seconds, barrier, gather, generator, world
from hardneg.store import replacing
from hardneg.training.examples import QueryRows, TrainingData

_QUERIES = 4096

Blocks = Callable[[], Iterator[NDArray[np.int64]]]
"""Gives the lists of all queries, int64 [n, K] after int64 [n, K], in order; -1 pads."""


@dataclass
class Searched:
    """Dynamic hard negatives: the top of the index for each query as it is encoded at this step.

    collect: converts encoded queries to the form that the index searches with.

    Source: Zhan et al., Optimizing Dense Retrieval Model Training with Hard Negatives (SIGIR 2021), Eq. 10.
    """

    searcher: Searcher
    depth: int
    collect: Callable[[Tensor], Encoded] = lambda queries: queries.float().cpu().numpy()

    live = True
    refresh_interval = None

    def prepare(self, step: int) -> None:
        """Nothing: it searches at each step."""

    def lists(self, batch: QueryRows, start: int, vectors: Tensor | None) -> NDArray[np.int64]:
        """One search for the whole batch, each process for its share of the queries."""
        if vectors is None:
            raise ValueError("a search needs the vectors of the queries")
        rows = torch.from_numpy(self.searcher.search(self.collect(vectors), self.depth).rows)
        return gather(rows.to(vectors.device), len(batch.queries)).cpu().numpy()

    def in_use(self, batch: QueryRows, vectors: Encoded) -> NDArray[np.int64]:
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

    def lists(self, batch: QueryRows, start: int, vectors: Tensor | None) -> NDArray[np.int64]:
        return self._drawn(start, len(batch.queries))

    def in_use(self, batch: QueryRows, vectors: Encoded) -> NDArray[np.int64]:
        return self._drawn(-1, len(batch.queries))

    def _drawn(self, start: int, queries: int) -> NDArray[np.int64]:
        draws = generator(self.seed, "random negatives", start)
        return draws.integers(0, self.documents, (queries, self.depth))


@dataclass
class NegativeTable:
    """One list for every training query, in a file of `folder`.

    make: returns the lists, by the model's weights at the call.
    refresh_interval: steps between the calls; None means one call.
    """

    folder: Path
    shape: tuple[int, int]
    make: Blocks
    refresh_interval: int | None = None

    live = False
    table: NDArray[np.int32] | None = None

    def prepare(self, step: int) -> None:
        """Write the table where it is due, else open the one in use; remove older ones.

        Raises:
            TrainingError: the table in use is not there.
        """
        mined_at = step - step % self.refresh_interval if self.refresh_interval else 0
        path = self.folder / f"lists-{mined_at:09d}.npy"
        if world().first:
            if step == mined_at:
                header = {"descr": "<i4", "fortran_order": False, "shape": self.shape}
                with replacing(path) as file:
                    np.lib.format.write_array_header_1_0(file, header)
                    for lists in self.make():
                        file.write(np.ascontiguousarray(lists, "<i4").tobytes())
            if not path.exists():
                gone = f"the lists of step {mined_at} are gone"
                raise TrainingError(f"{path}: {gone}: remove {self.folder} to start afresh")
            for other in self.folder.glob("lists-*.npy"):
                if other != path:
                    other.unlink()
        barrier()
        self.table = map_array(path, self.shape, np.int32)

    def lists(self, batch: QueryRows, start: int, vectors: Tensor | None) -> NDArray[np.int64]:
        if self.table is None:
            raise ValueError("a table is there once it is prepared")
        return self.table[batch.queries].astype(np.int64)

    def in_use(self, batch: QueryRows, vectors: Encoded) -> NDArray[np.int64]:
        return self.lists(batch, 0, None)


NegativeSource = Searched | Uniform | NegativeTable
"""The lists of each step.

live: whether it ranks with the model as it is at each step. refresh_interval: steps between calls of `prepare`; None
means at the start only. `lists`: int64 [B, K], rows of the corpus for the queries from position `start` on, -1 pads; a
live source gets the vectors of this process's share of them. `in_use`: the current lists of B encoded queries.
"""


def mined(data: TrainingData, negatives: NegativesFile, depth: int) -> Blocks:
    """The first `depth` negatives of each query in a file of negatives."""
    row_of = {query_id: row for row, query_id in enumerate(negatives.query_ids)}

    def blocks() -> Iterator[NDArray[np.int64]]:
        for start in range(0, len(data.query_ids), _QUERIES):
            query_ids = data.query_ids[start : start + _QUERIES]
            items = [negatives[row_of[name]].negatives[:depth] if name in row_of else [] for name in query_ids]
            yield data.corpus.known_lists(items, depth, "mine again from this corpus")

    return blocks


def lists_by(encoder: Encoder, data: TrainingData, searcher: Searcher, depth: int) -> Blocks:
    """Return the top of the index for each query, by the encoder's weights at each call."""

    def blocks() -> Iterator[NDArray[np.int64]]:
        def encode(texts: Sequence[str]) -> Encoded:
            vectors: Encoded = encoder.encode(texts, "query")
            return vectors

        return (hits.rows for _, _, hits in search_queries(encode, data.texts, searcher, depth, _QUERIES, Seconds()))

    return blocks
