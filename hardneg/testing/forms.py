"""Documents and queries of one vector each: drawn for tests of indexes, scored, checked and compared."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.vectors import FlatWriter
from hardneg.records import Encoded, EncodedRows
from hardneg.runtime import generator
from hardneg.testing.plugin_contract import rule

FORMS = ("vectors", "weights", "token-vectors")
_QUERIES = 9


def drawn_documents(count: int, dimension: int, exact: bool) -> NDArray[np.float32]:
    """Return `count` documents, some of them equal; for an exact index whole numbers, so that sums are exact."""
    vectors = generator(3, "vectors").standard_normal((count, dimension)).astype(np.float32)
    vectors[count // 2 :: 7] = vectors[3]  # ties
    return np.round(vectors * 4) if exact else vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def drawn_queries(documents: NDArray[np.float32], exact: bool) -> NDArray[np.float32]:
    """Return a few queries, the first one nearest to document 3."""
    draws = generator(4, "queries").standard_normal((_QUERIES, documents.shape[1])).astype(np.float32)
    return np.vstack([documents[3:4], np.round(draws) if exact else draws])


def write_encoded(folder: Path, documents: NDArray[np.float32]) -> Path:
    """Write documents as the verb `encode` does, with the ids `d0`, `d1`, ...."""
    with FlatWriter(folder, documents.shape[1], len(documents)) as writer:
        writer.write(documents)
        writer.write_doc_ids(f"d{i}" for i in range(len(documents)))
        writer.close()
    return folder


def check_encoded(encoded: Encoded, form: str, count: int, dimension: int) -> None:
    """Fail unless this is `count` texts of the form, with finite numbers."""
    rule(len(encoded) == count, "texts are encoded in order, each once", f"{len(encoded)} for {count}")
    arrays = list(encoded.flat.values()) if isinstance(encoded, EncodedRows) else [encoded]
    plain = "vectors" if isinstance(encoded, np.ndarray) else form if form != "vectors" else "several vectors"
    rule(form == plain, "texts are encoded into the family's `form`", f"{plain} for {form}")
    for array in arrays:
        rule(bool(np.isfinite(array).all()), "numbers are finite")
        if array.ndim > 1:
            rule(array.dtype == np.float32, "numbers are float32", array.dtype)
            rule(array.shape[1] == dimension, f"vectors have `dimension` {dimension}", array.shape)
    if isinstance(encoded, EncodedRows):
        rule(encoded.offsets.dtype == np.int64, "offsets are int64", encoded.offsets.dtype)
        ascend = encoded.offsets[0] == 0 and bool((np.diff(encoded.offsets) >= 0).all())
        rule(ascend, "offsets begin with 0 and ascend", encoded.offsets)
        rule({len(array) for array in arrays} == {encoded.offsets[-1]}, "offsets end at the number of numbers")


def alike(one: Encoded, other: Encoded, tolerance: float) -> bool:
    """Return whether two encodings of the same texts differ by at most `tolerance`."""
    if isinstance(one, EncodedRows) and isinstance(other, EncodedRows):
        pairs = zip(one.flat.values(), other.flat.values(), strict=True)
        near = (np.allclose(mine, theirs, rtol=tolerance, atol=tolerance) for mine, theirs in pairs)
        return np.array_equal(one.offsets, other.offsets) and all(near)
    if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
        return False
    return one.shape == other.shape and np.allclose(one, other, rtol=tolerance, atol=tolerance)
