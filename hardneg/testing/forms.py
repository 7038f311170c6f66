"""Documents and queries of each form: drawn for tests of indexes, scored, checked and compared."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.vectors.flat_vectors import FlatWriter
from hardneg.formats.vectors.token_store import TokenWriter
from hardneg.records.types import Encoded, EncodedRows, TokenVectors
from hardneg.runtime.seeding import generator
from hardneg.testing.plugin_contract import rule

FORMS = ("vectors", "weights", "token-vectors")
_QUERIES, _MOST, _TOPICS, _NOISE = 9, 7, 20, 0.5


def drawn_documents(form: str, count: int, dimension: int, exact: bool) -> Encoded:
    """Return `count` documents, some of them equal; for an exact index whole numbers, so that sums are exact.

    Some documents have no token.
    """
    if form == "token-vectors":
        return _tokens(count, dimension, exact)
    vectors = generator(3, "vectors").standard_normal((count, dimension)).astype(np.float32)
    vectors[count // 2 :: 7] = vectors[3]  # ties
    return np.round(vectors * 4) if exact else vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def drawn_queries(form: str, documents: Encoded, exact: bool) -> Encoded:
    """Return a few queries, the first one nearest to document 3, some without tokens."""
    if isinstance(documents, TokenVectors):
        picked = documents[np.array([3, 8, 0, *range(20, 20 + _QUERIES - 3)])]
        noise = generator(4, "queries").standard_normal(picked.vectors.shape).astype(np.float32)
        noise[picked.offsets[0] : picked.offsets[1]] = 0
        return TokenVectors(picked.offsets, _rounded(picked.vectors + _NOISE / 2 * noise, exact))
    vectors = np.asarray(documents)
    draws = generator(4, "queries").standard_normal((_QUERIES, vectors.shape[1])).astype(np.float32)
    return np.vstack([vectors[3:4], np.round(draws) if exact else draws])


def write_encoded(folder: Path, documents: Encoded) -> Path:
    """Write documents as the verb `encode` does, with the ids `d0`, `d1`, ...."""
    writer: FlatWriter | TokenWriter
    if isinstance(documents, TokenVectors):
        writer = TokenWriter(folder, documents.vectors.shape[1], documents.offsets)
        writer.write_block(0, 0, documents)
    else:
        vectors = np.asarray(documents)
        writer = FlatWriter(folder, vectors.shape[1], len(vectors))
        writer.write_block(0, 0, vectors)
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
    scores: NDArray[np.float32] = np.asarray(queries) @ np.asarray(documents).T
    return scores


def _texts(tokens: TokenVectors) -> list[NDArray[np.float32]]:
    return [tokens.vectors[start:stop] for start, stop in zip(tokens.offsets, tokens.offsets[1:], strict=False)]


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
    check_rows(encoded, form, count, "token-vectors" if isinstance(encoded, TokenVectors) else "vectors")
    _check_numbers(encoded.vectors if isinstance(encoded, TokenVectors) else np.asarray(encoded), dimension)


def check_rows(encoded: Encoded, form: str, count: int, actual: str) -> None:
    """Fail unless this is `count` texts of the form, which is `actual`; whatever their numbers are."""
    rule(len(encoded) == count, "texts are encoded in order, each once", f"{len(encoded)} for {count}")
    rule(form == actual, "texts are encoded into the family's `form`", f"{actual} for {form}")
    if isinstance(encoded, EncodedRows):
        rule(encoded.offsets.dtype == np.int64, "offsets are int64", encoded.offsets.dtype)
        ascend = encoded.offsets[0] == 0 and bool((np.diff(encoded.offsets) >= 0).all())
        rule(ascend, "offsets begin with 0 and ascend", encoded.offsets)


def _check_numbers(vectors: NDArray[np.float32], dimension: int) -> None:
    rule(vectors.ndim == 2 and vectors.shape[1] == dimension, f"vectors have `dimension` {dimension}", vectors.shape)
    rule(vectors.dtype == np.float32, "numbers are float32", vectors.dtype)
    rule(bool(np.isfinite(vectors).all()), "numbers are finite")


def alike(one: Encoded, other: Encoded, tolerance: float) -> bool:
    """Return whether two encodings of the same texts differ by at most `tolerance`."""
    if isinstance(one, TokenVectors) and isinstance(other, TokenVectors):
        same = np.array_equal(one.offsets, other.offsets)
        return same and np.allclose(one.vectors, other.vectors, rtol=tolerance, atol=tolerance)
    if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
        return False
    return one.shape == other.shape and np.allclose(one, other, rtol=tolerance, atol=tolerance)
