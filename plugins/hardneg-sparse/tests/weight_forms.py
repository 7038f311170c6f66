"""The `forms` of the contracts of encoders and indexes of term weights (`hardneg.testing`)."""

from pathlib import Path

import numpy as np
from hardneg_sparse.store import SparseRows, SparseWriter
from numpy.typing import NDArray

from hardneg.plugin import generator
from hardneg.testing import forms, rule

_QUERIES = 9


class WeightForms:
    """The `forms` of tests of encoders and indexes of term weights."""

    @staticmethod
    def drawn_documents(form: str, count: int, dimension: int, exact: bool) -> SparseRows:
        """Return `count` documents over `dimension` terms, some of them equal, some without terms."""
        draws = generator(3, "vectors").standard_normal((count, dimension)).astype(np.float32)
        draws[count // 2 :: 7] = draws[3]  # ties
        return _weights(draws)

    @staticmethod
    def drawn_queries(form: str, documents: SparseRows, exact: bool) -> SparseRows:
        """Return a few queries, some without terms."""
        draws = generator(4, "queries").standard_normal((_QUERIES, documents.width)).astype(np.float32)
        draws[-1] = 0
        return _weights(draws)

    @staticmethod
    def write_encoded(folder: Path, documents: SparseRows) -> Path:
        """Write documents as the verb `encode` does, with the ids `d0`, `d1`, ...."""
        writer = SparseWriter(folder, documents.width, len(documents))
        writer.write_block(0, 0, documents)
        writer.write_terms([f"t{i}" for i in range(documents.width)])
        writer.write_doc_ids(f"d{i}" for i in range(len(documents)))
        writer.close()
        return folder

    @staticmethod
    def plain_scores(queries: SparseRows, documents: SparseRows) -> NDArray[np.float32]:
        """Return the score of each query with each document: float32 [Q, D]; -inf is no hit."""
        products = _dense(queries) @ _dense(documents).T
        return np.where(products > 0, products, -np.inf).astype(np.float32)

    @staticmethod
    def check_encoded(rows: SparseRows, form: str, count: int, dimension: int) -> None:
        """Fail unless this is `count` texts with finite weights over `dimension` terms."""
        forms.check_rows(rows, form, count, "weights" if isinstance(rows, SparseRows) else "another")
        rule(rows.width == dimension, f"there are `dimension` terms, {dimension}", rows.width)
        rule(rows.terms.dtype == np.int32 and rows.weights.dtype == np.float32, "terms are int32, weights float32")
        rule(bool(np.isfinite(rows.weights).all()), "numbers are finite")
        rule(bool((rows.weights != 0).all()), "no weight is 0: it is left out")
        inside = bool(((rows.terms >= 0) & (rows.terms < rows.width)).all())
        rule(inside, "terms are counted from 0, below `dimension`", rows.terms)
        text = np.repeat(np.arange(len(rows)), np.diff(rows.offsets))
        rule(bool((np.diff(text * rows.width + rows.terms) > 0).all()), "terms ascend within a text")

    @staticmethod
    def alike(one: SparseRows, other: SparseRows, tolerance: float) -> bool:
        """Return whether two encodings of the same texts differ by at most `tolerance`."""
        return len(one) == len(other) and bool(np.abs(_dense(one) - _dense(other)).max(initial=0) <= tolerance)


def _dense(rows: SparseRows) -> NDArray[np.float32]:
    dense = np.zeros((len(rows), rows.width), np.float32)
    dense[np.repeat(np.arange(len(rows)), np.diff(rows.offsets)), rows.terms] = rows.weights
    return dense


def _weights(draws: NDArray[np.float32]) -> SparseRows:
    """The larger numbers of float32 [n, width] as whole weights of terms."""
    weights = np.maximum(np.round(draws * 4) - 1, 0).astype(np.float32)
    weights[5::50] = 0
    row, term = np.nonzero(weights)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(weights)))]).astype(np.int64)
    return SparseRows(offsets, term.astype(np.int32), weights[row, term], draws.shape[1])
