"""Contract tests for index backends of token vectors."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.plugin import runtime
from hardneg.testing import IndexTests
from hardneg_multi_vector.store import TokenVectors, TokenWriter

_QUERIES, _MOST, _TOPICS, _NOISE = 9, 7, 20, 0.5


def drawn_tokens(count: int, dimension: int, exact: bool) -> TokenVectors:
    """Sample `count` documents of up to seven tokens around a few topics; some are equal, some have no tokens.

    exact: whether values are integers, so that sums are exact; otherwise vectors have norm 1.
    """
    draws = runtime.generator(3, "tokens")
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


def write_tokens(folder: Path, documents: TokenVectors) -> Path:
    """Write documents in the format of the stage `encode`, with the ids `d0`, `d1`, ...; return the folder."""
    writer = TokenWriter(folder, documents.vectors.shape[1], documents.offsets)
    writer.write(documents)
    writer.write_doc_ids(f"d{number}" for number in range(len(documents)))
    writer.close()
    return folder


def drawn_queries(documents: TokenVectors, exact: bool) -> TokenVectors:
    """Sample nine queries near documents: the first near document 3, one without tokens. exact: see `drawn_tokens`."""
    picked = documents[np.array([3, 8, 0, *range(20, 20 + _QUERIES - 3)])]
    noise = runtime.generator(4, "queries").standard_normal(picked.vectors.shape).astype(np.float32)
    noise[picked.offsets[0] : picked.offsets[1]] = 0
    return TokenVectors(picked.offsets, _rounded(picked.vectors + _NOISE / 2 * noise, exact))


class TokenIndexTests(IndexTests):
    """Contract tests for an index backend of token vectors; set `plugin` and other attributes of `IndexTests`."""

    def documents(self, plugin: Any) -> TokenVectors:
        """Sample `count` documents of up to seven tokens each with `drawn_tokens`."""
        return drawn_tokens(self.count, self.dimension, self.exact)

    def encoded_queries(self, plugin: Any) -> TokenVectors:
        """Sample nine queries: the first is nearest to document 3, and one has no tokens."""
        return drawn_queries(self.documents(plugin), self.exact)

    def write(self, folder: Path, documents: Any) -> Path:
        """Write documents in the format of the stage `encode` with `write_tokens`; return the folder."""
        return write_tokens(folder, documents)

    def plain_scores(self, queries: Any, documents: Any) -> NDArray[np.float32]:
        """Compute MaxSim with plain loops, float32 [Q, D]; -inf for texts without tokens."""
        ours, theirs = (np.split(each.vectors, each.offsets[1:-1]) for each in (queries, documents))
        pairs = [[(q @ d.T).max(1).sum() if q.size and d.size else -np.inf for d in theirs] for q in ours]
        return np.array(pairs, np.float32)
