"""Documents and queries of each form: drawn for tests of indexes, scored, checked and compared."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.vectors.flat_vectors import FlatWriter
from hardneg.formats.vectors.sparse_store import SparseWriter
from hardneg.formats.vectors.token_store import TokenWriter
from hardneg.records.types import Encoded, SparseRows, TokenVectors
from hardneg.runtime.seeding import generator
from hardneg.testing.plugin_contract import rule

FORMS = ("vectors", "weights", "token-vectors")
_QUERIES, _MOST, _TOPICS, _NOISE = 9, 7, 20, 0.5


def drawn_documents(form: str, count: int, dimension: int, exact: bool) -> Encoded:
    """Return `count` documents, some of them equal; for an exact index whole numbers, so that sums are exact.

    dimension: of vectors, or how many terms there are. Some documents have no term, or no token.
    """
    if form == "token-vectors":
        return _tokens(count, dimension, exact)
    vectors = generator(3, "vectors").standard_normal((count, dimension)).astype(np.float32)
    vectors[count // 2 :: 7] = vectors[3]  # ties
    if form == "weights":
        return _weights(vectors)
    return np.round(vectors * 4) if exact else vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def drawn_queries(form: str, documents: Encoded, exact: bool) -> Encoded:
    """Return a few queries, the first one nearest to document 3, some without terms or tokens."""
    if isinstance(documents, TokenVectors):
        picked = documents[np.array([3, 8, 0, *range(20, 20 + _QUERIES - 3)])]
        noise = generator(4, "queries").standard_normal(picked.vectors.shape).astype(np.float32)
        noise[picked.offsets[0] : picked.offsets[1]] = 0
        return TokenVectors(picked.offsets, _rounded(picked.vectors + _NOISE / 2 * noise, exact))
    dimension = documents.width if isinstance(documents, SparseRows) else documents.shape[1]
    draws = generator(4, "queries").standard_normal((_QUERIES, dimension)).astype(np.float32)
    if isinstance(documents, SparseRows):
        draws[-1] = 0
        return _weights(draws)
    return np.vstack([documents[3:4], np.round(draws) if exact else draws])


def write_encoded(folder: Path, documents: Encoded) -> Path:
    """Write documents as the verb `encode` does, with the ids `d0`, `d1`, ...."""
    writer: FlatWriter | SparseWriter | TokenWriter
    if isinstance(documents, TokenVectors):
        writer = TokenWriter(folder, documents.vectors.shape[1], documents.offsets)
        writer.write(documents)
    elif isinstance(documents, SparseRows):
        writer = SparseWriter(folder, documents.width, len(documents))
        writer.write(documents)
        writer.write_terms([f"t{i}" for i in range(documents.width)])
    else:
        writer = FlatWriter(folder, documents.shape[1], len(documents))
        writer.write(documents)
    writer.write_doc_ids(f"d{i}" for i in range(len(documents)))
    writer.close()
    return folder


def plain_scores(queries: Encoded, documents: Encoded) -> NDArray[np.float32]:
    """Return the score of each query with each document by plain loops: float32 [Q, D]; -inf is no hit."""
    if isinstance(queries, TokenVectors) and isinstance(documents, TokenVectors):
        pairs = [
            [(q @ d.T).max(1).sum() if q.size and d.size else -np.inf for d in _texts(documents)]
            for q in _texts(queries)
        ]
        return np.array(pairs, np.float32)
    if isinstance(queries, SparseRows) and isinstance(documents, SparseRows):
        products = _dense(queries) @ _dense(documents).T
        return np.where(products > 0, products, -np.inf).astype(np.float32)
    scores: NDArray[np.float32] = np.asarray(queries) @ np.asarray(documents).T
    return scores


def _texts(tokens: TokenVectors) -> list[NDArray[np.float32]]:
    return [tokens.vectors[start:stop] for start, stop in zip(tokens.offsets, tokens.offsets[1:], strict=False)]


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


def _tokens(count: int, dimension: int, exact: bool) -> TokenVectors:
    """Documents of up to `_MOST` tokens around one of a few topics."""
    draws = generator(3, "tokens")
    lengths = draws.integers(1, _MOST + 1, count)
    lengths[8 % count :: 50] = 0
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    topics = draws.standard_normal((_TOPICS, dimension)).astype(np.float32)
    own = np.repeat(topics[draws.integers(0, _TOPICS, count)], lengths, axis=0)
    noise = draws.standard_normal(own.shape).astype(np.float32)
    tokens = TokenVectors(offsets, _rounded(own + _NOISE * noise, exact))
    order = np.arange(count)
    order[count // 2 :: 7] = 3  # ties
    return tokens[order]


def _rounded(vectors: NDArray[np.float32], exact: bool) -> NDArray[np.float32]:
    return np.round(vectors * 4) if exact else vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


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
