"""Contract tests for sparse encoders and for index backends of term weights."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.plugin import runtime
from hardneg.testing import IndexTests, TrainableEncoderTests
from hardneg_sparse.store import SparseRows, SparseWriter, fault

_QUERIES = 9


def drawn_weights(count: int, dimension: int) -> SparseRows:
    """Sample `count` documents with integer weights over `dimension` terms: some are equal, some have no terms."""
    draws = runtime.generator(3, "vectors").standard_normal((count, dimension)).astype(np.float32)
    draws[count // 2 :: 7] = draws[3]  # ties
    return _weights(draws)


def drawn_queries(documents: SparseRows) -> SparseRows:
    """Sample nine queries with integer weights over the terms of `documents`, two of them without terms."""
    draws = runtime.generator(4, "queries").standard_normal((_QUERIES, documents.width)).astype(np.float32)
    draws[-1] = 0
    return _weights(draws)


def _weights(draws: NDArray[np.float32]) -> SparseRows:
    """Convert the larger numbers of float32 [n, width] to integer term weights."""
    weights = np.maximum(np.round(draws * 4) - 1, 0).astype(np.float32)
    weights[5::50] = 0
    row, term = np.nonzero(weights)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(weights)))]).astype(np.int64)
    return SparseRows(offsets, term.astype(np.int32), weights[row, term], draws.shape[1])


def _dense(rows: SparseRows) -> NDArray[np.float32]:
    dense: NDArray[np.float32] = rows.matrix.toarray()
    return dense


def write_weights(folder: Path, documents: SparseRows) -> Path:
    """Write documents in the format of the stage `encode`, with the ids `d0`, `d1`, ...; return the folder."""
    with SparseWriter(folder, documents.width, len(documents)) as writer:
        writer.write(documents)
        writer.write_terms([f"t{number}" for number in range(documents.width)])
        writer.write_doc_ids(f"d{number}" for number in range(len(documents)))
        writer.close()
    return folder


class WeightIndexTests(IndexTests):
    """Contract tests for an index backend of term weights; set `plugin` and other attributes of `IndexTests`."""

    def documents(self, plugin: Any) -> SparseRows:
        """Sample `count` documents over `dimension` terms, with integer weights."""
        return drawn_weights(self.count, self.dimension)

    def encoded_queries(self, plugin: Any) -> SparseRows:
        """Sample nine queries, two of them without terms."""
        return drawn_queries(self.documents(plugin))

    def write(self, folder: Path, documents: Any) -> Path:
        """Write documents in the format of the stage `encode`; return the folder."""
        return write_weights(folder, documents)

    def plain_scores(self, queries: Any, documents: Any) -> NDArray[np.float32]:
        """Return inner products, float32 [Q, D]; products of 0 or less, which are not hits, become -inf."""
        products = _dense(queries) @ _dense(documents).T
        return np.where(products > 0, products, -np.inf).astype(np.float32)


class WeightEncoderTests(TrainableEncoderTests):
    """Contract tests for a sparse encoder; set `plugin` and other attributes of `TrainableEncoderTests`."""

    def check_encoded(self, encoded: Any, form: str, count: int, dimension: int) -> None:
        """Check texts as `EncoderTests` does; also check that weights are valid and there are `dimension` terms."""
        super().check_encoded(encoded, form, count, dimension)
        assert encoded.width == dimension, "broken rule: there are `dimension` terms"
        assert not fault(encoded), f"broken rule: weights are valid\n  found: {fault(encoded)}"

    def alike(self, one: Any, other: Any, tolerance: float) -> bool:
        """Return whether weights differ by at most `tolerance`; a missing weight counts as 0."""
        return len(one) == len(other) and bool(np.abs(_dense(one) - _dense(other)).max(initial=0) <= tolerance)
