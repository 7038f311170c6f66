"""Encoded texts of any form, checked and compared."""

import numpy as np
from numpy.typing import NDArray

from hardneg.records.types import Encoded, SparseRows, TokenVectors
from hardneg.testing.plugin_contract import rule


def check_encoded(encoded: Encoded, form: str, count: int, dimension: int) -> None:
    """Fail unless this is `count` texts of the form, with finite numbers."""
    rule(len(encoded) == count, "texts are encoded in order, each once", f"{len(encoded)} for {count}")
    if isinstance(encoded, SparseRows):
        _check_weights(encoded, dimension)
    elif not isinstance(encoded, TokenVectors):
        _check_numbers(encoded, dimension)
        rule(form == "vectors", "texts are encoded into the family's `form`", f"vectors for {form}")
        return
    else:
        _check_numbers(encoded.vectors, dimension)
    actual = "weights" if isinstance(encoded, SparseRows) else "token-vectors"
    rule(form == actual, "texts are encoded into the family's `form`", f"{actual} for {form}")
    rule(encoded.offsets.dtype == np.int64, "offsets are int64", encoded.offsets.dtype)
    steps = np.diff(encoded.offsets)
    rule(encoded.offsets[0] == 0 and bool((steps >= 0).all()), "offsets begin with 0 and ascend", encoded.offsets)


def _check_numbers(vectors: NDArray[np.float32], dimension: int) -> None:
    rule(vectors.ndim == 2 and vectors.shape[1] == dimension, f"vectors have `dimension` {dimension}", vectors.shape)
    rule(vectors.dtype == np.float32, "numbers are float32", vectors.dtype)
    rule(bool(np.isfinite(vectors).all()), "numbers are finite")


def _check_weights(rows: SparseRows, dimension: int) -> None:
    rule(rows.width == dimension, f"there are `dimension` terms, {dimension}", rows.width)
    rule(rows.terms.dtype == np.int32 and rows.weights.dtype == np.float32, "terms are int32, weights float32")
    rule(bool(np.isfinite(rows.weights).all()), "numbers are finite")
    rule(bool((rows.weights != 0).all()), "no weight is 0: it is left out")
    inside = bool(((rows.terms >= 0) & (rows.terms < rows.width)).all())
    rule(inside, "terms are counted from 0, below `dimension`", rows.terms)
    text = np.repeat(np.arange(len(rows)), np.diff(rows.offsets))
    rule(bool((np.diff(text * rows.width + rows.terms) > 0).all()), "terms ascend within a text")


def alike(one: Encoded, other: Encoded, tolerance: float) -> bool:
    """Return whether two encodings of the same texts differ by at most `tolerance`."""
    if isinstance(one, SparseRows) and isinstance(other, SparseRows):
        return len(one) == len(other) and bool((_differences(one, other) <= tolerance).all())
    if isinstance(one, TokenVectors) and isinstance(other, TokenVectors):
        same = np.array_equal(one.offsets, other.offsets)
        return same and np.allclose(one.vectors, other.vectors, rtol=tolerance, atol=tolerance)
    if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
        return False
    return one.shape == other.shape and np.allclose(one, other, rtol=tolerance, atol=tolerance)


def _differences(one: SparseRows, other: SparseRows) -> NDArray[np.float32]:
    """The differences of weights, text by text, over the terms of either side; a missing weight is 0."""
    cells = [np.repeat(np.arange(len(part)), np.diff(part.offsets)) * part.width + part.terms for part in (one, other)]
    both, where = np.unique(np.concatenate(cells), return_inverse=True)
    differences = np.zeros(len(both), np.float32)
    np.add.at(differences, where, np.concatenate([one.weights, -other.weights]))
    return np.abs(differences)
