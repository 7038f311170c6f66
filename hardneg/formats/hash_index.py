"""Lookup through sorted 64-bit hashes. Hashes may collide: callers compare what they find."""

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def hash_texts(texts: Iterable[str]) -> NDArray[np.uint64]:
    """A 64-bit hash of each text: uint64 [n], the same on every machine."""
    blake = hashlib.blake2b
    digests = b"".join([blake(text.encode(), digest_size=8).digest() for text in texts])
    return np.frombuffer(digests, "<u8").astype(np.uint64)


def normalise(text: str) -> str:
    """The text with each run of white space as one space, and none at the ends."""
    return " ".join(text.split())


def find_equal(
    sorted_hashes: NDArray[np.uint64], wanted: NDArray[np.uint64], order: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each wanted hash stands in the array, sorted or sorted by `order`: [first, end) positions.

    Both are int64 [len(wanted)]; first equals end where the hash is not there.
    """
    first = np.searchsorted(sorted_hashes, wanted, "left", sorter=order)
    end = np.searchsorted(sorted_hashes, wanted, "right", sorter=order)
    return first.astype(np.int64), end.astype(np.int64)


def ranges(first: NDArray[np.int64], end: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All positions of the ranges [first, end), one after another, and the range that each is from."""
    lengths = end - first
    owner = np.repeat(np.arange(len(first)), lengths)
    begins = np.repeat(np.cumsum(lengths) - lengths, lengths)
    return first[owner] + np.arange(len(owner)) - begins, owner


def known_to(wanted: NDArray[Any], known: NDArray[Any], owner: NDArray[np.int64], queries: int) -> NDArray[np.bool_]:
    """Whether each query knows what is wanted: its positives by their rows, or with their copies by content hashes.

    Args:
        wanted: [M], the same for all B queries, or [B, M].
        known: [K], what the queries know; owner: int64 [K], the query of each.
        queries: B.

    Returns:
        bool [B, M].
    """
    distinct, number = np.unique(known, return_inverse=True)
    if not len(distinct):
        return np.zeros((queries, wanted.shape[-1]), bool)
    table = np.zeros((queries, len(distinct)), bool)
    table[owner, number] = True
    position = np.minimum(np.searchsorted(distinct, wanted), len(distinct) - 1)
    known_to_query: NDArray[np.bool_] = table[np.arange(queries)[:, None], position] & (distinct[position] == wanted)
    return known_to_query
