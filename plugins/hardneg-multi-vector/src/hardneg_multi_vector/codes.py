"""Token vectors stored as codes (a centroid and a product-quantised residual), and search over them.

`codebooks.safetensors` contains the centroids of tokens and of residual parts; `nearest.npy` and `codes.npy` contain,
for each token, the number of its centroid and the codes of its residual; `offsets.npy` has the start of each document.
`lists.npy` has, for each centroid, the documents with a token nearest to it; `lists_offsets.npy` has each list's start.

Source: K. Santhanam et al., ColBERTv2 (NAACL 2022), section 3.3, with product quantisation of the residuals (Jégou,
Douze and Schmid, TPAMI 2011) instead of its buckets; lists and candidates as in PLAID (CIKM 2022).
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardneg.plugin import arrays, errors, index_checks, index_files, rank_candidates, records, stores
from hardneg_multi_vector.maxsim import TokenSearcher, check_tokens, tensor
from hardneg_multi_vector.store import (
    DOC_IDS,
    OFFSETS,
    NumberFile,
    TokenStore,
    TokenVectors,
    offsets_fault,
    ranges,
    spans,
    token_positions,
)

CODES = 256
"""Number of centroids per residual part, so that a code is one byte."""

_BOOKS, _NEAREST, _RESIDUALS = "codebooks.safetensors", "nearest.npy", "codes.npy"
_LISTS, _LIST_OFFSETS = "lists.npy", "lists_offsets.npy"
_TOKENS = 1 << 20  # whose lists are built at a time
_QUERIES = 8192  # whose candidates are in memory at a time
_LISTED = 1 << 22  # documents of lists that are processed together
_PRODUCTS = 1 << 24  # of query tokens with centroids, in memory at a time
_SCORED = 1 << 17  # document tokens that are scored together


def _number_format(centroids: int) -> str:
    return "<u2" if centroids <= 1 << 16 else "<u4"


def write_codes(
    path: Path,
    centroids: NDArray[np.float32],
    codebooks: NDArray[np.float32],
    coded: Iterator[NDArray[np.uint8]],
    source: TokenStore,
) -> None:
    """Write an index without its lists to the folder `path`.

    centroids: float32 [K, d]. codebooks: float32 [M, 256, d / M]. coded: blocks of tokens, uint8
    [n, b + M]: b bytes for the centroid's number, lowest first, then M codes. source: the original token vectors.
    """
    from safetensors.numpy import save

    path.mkdir(parents=True, exist_ok=True)
    with stores.replacing(path / _BOOKS) as file:
        file.write(save({"centroids": centroids, "codebooks": codebooks}))
    tokens, parts = len(source.vectors), len(codebooks)
    near, writing = _number_format(len(centroids)), arrays.writing_numbers
    with writing(path / _NEAREST, near, tokens) as nearest, writing(path / _RESIDUALS, "|u1", tokens * parts) as codes:
        for block in coded:
            numbers, residuals = np.split(block, [block.shape[1] - parts], axis=1)
            # combine the bytes of each row [n, b], lowest first, to a number
            nearest(numbers.astype(np.int64) @ (1 << 8 * np.arange(numbers.shape[1])))
            codes(residuals)
    for name in (OFFSETS, DOC_IDS):
        stores.link_file(source.folder / name, path / name)


def write_lists(path: Path, centroids: int, store: TokenStore) -> None:
    """Write an ascending list of documents for each centroid; memory holds a block and a number per centroid."""
    nearest = NumberFile(path / _NEAREST, _number_format(centroids))
    counts = np.zeros(centroids, np.int64)
    for owner, _ in _pairs(store, nearest):
        counts += np.bincount(owner, minlength=centroids)
    ends, aside = np.concatenate([[0], np.cumsum(counts)]), path / f".{_LISTS}"
    with arrays.writing_numbers(path / _LIST_OFFSETS, "<i8", len(ends)) as write:
        write(ends)
    lists, free = np.lib.format.open_memmap(aside, "w+", np.dtype("<i4"), (int(ends[-1]),)), ends[:-1].copy()
    for owner, documents in _pairs(store, nearest):
        rank = np.arange(len(owner)) - np.searchsorted(owner, owner)
        lists[free[owner] + rank] = documents
        free += np.bincount(owner, minlength=len(free))
    lists.flush()
    stores.flush(aside)
    os.replace(aside, path / _LISTS)


def _pairs(store: TokenStore, nearest: Any) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the distinct pairs of a centroid and a document, ascending, block by block."""
    for start, stop in store.spans(_TOKENS):
        offsets = store.offsets[start : stop + 1]
        document = np.repeat(np.arange(start, stop), np.diff(offsets))
        own = nearest.read(int(offsets[0]), int(offsets[-1])).astype(np.int64)
        keys = np.unique(own * store.count + document)
        yield keys // store.count, keys % store.count


@dataclass(frozen=True)
class TokenCodes:
    """A folder of codes opened for reading; large files are memory-mapped.

    centroids: float32 [K, d]. codebooks: float32 [M, 256, d / M]. offsets: int64 [N + 1], the start of each document's
    tokens. nearest: uint16 or uint32 [T], each token's centroid. codes: uint8 [T, M]. list_offsets: int64 [K + 1], the
    start of each centroid's list. lists: int32 [L], rows of documents.
    """

    path: Path
    centroids: NDArray[np.float32]
    codebooks: NDArray[np.float32]
    offsets: NDArray[np.int64]
    nearest: NDArray[Any]
    codes: NDArray[np.uint8]
    list_offsets: NDArray[np.int64]
    lists: NDArray[np.int32]

    @classmethod
    def open(cls, path: Path) -> "TokenCodes":
        """Open a complete folder. Raises ArtifactError if a file is missing, truncated, or from another folder."""
        centroids, codebooks = _read_books(path / _BOOKS)
        formats = {OFFSETS: "<i8", _NEAREST: _number_format(len(centroids)), _RESIDUALS: "|u1", _LIST_OFFSETS: "<i8"}
        offsets, nearest, codes, begins = (
            NumberFile(path / name, number_format).mapped for name, number_format in formats.items()
        )
        lists = NumberFile(path / _LISTS, "<i4").mapped
        sound = not offsets_fault(offsets) and not offsets_fault(begins) and (path / DOC_IDS).exists()
        fits = (
            len(nearest),
            len(codes),
            len(begins),
            len(lists),
            len(index_files.DocIds(path / DOC_IDS)) if sound else -1,
        )
        if fits != (offsets[-1], offsets[-1] * len(codebooks), len(centroids) + 1, begins[-1], len(offsets) - 1):
            raise errors.ArtifactError(f"{path}: its files do not belong together; rebuild the index")
        return cls(path, centroids, codebooks, offsets, nearest, codes.reshape(-1, len(codebooks)), begins, lists)

    @property
    def dimension(self) -> int:
        """The dimension of the decoded token vectors."""
        return int(self.centroids.shape[1])

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def gather(self, rows: NDArray[np.int64]) -> TokenVectors:
        """Decode the documents at the given rows, int64 [n], to float32 token vectors."""
        tokens, offsets = token_positions(self.offsets, rows)
        codes = self.codes[tokens].astype(np.int64) + CODES * np.arange(len(self.codebooks))
        parts = self.codebooks.reshape(-1, self.codebooks.shape[2])[codes]
        return TokenVectors(offsets, self.centroids[self.numbers(tokens)] + parts.reshape(len(tokens), -1))

    def numbers(self, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the centroid number of each token, int64 [n]. Raises ArtifactError if a centroid does not exist."""
        numbers = self.nearest[tokens].astype(np.int64)
        if numbers.max(initial=0) >= len(self.centroids):
            raise errors.ArtifactError(f"{self.path / _NEAREST}: damaged; rebuild the index")
        return numbers


def _read_books(path: Path) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        arrays = load_file(path)
        centroids, codebooks = arrays["centroids"], arrays["codebooks"]
    except (OSError, SafetensorError, KeyError) as error:
        raise errors.ArtifactError(
            f"{path}: cannot be read ({str(error).splitlines()[0]}); rebuild the index"
        ) from error
    shaped = centroids.ndim == 2 and codebooks.ndim == 3 and codebooks.shape[1] == CODES
    if not shaped or codebooks.shape[0] * codebooks.shape[2] != centroids.shape[1]:
        raise errors.ArtifactError(f"{path}: damaged; rebuild the index")
    return centroids, codebooks


@dataclass(frozen=True)
class CodedSearcher(TokenSearcher):
    """A searcher that reranks up to max(k, `candidates`) documents from the lists of `probes` centroids per token."""

    store: TokenCodes
    probes: int
    candidates: int

    def search(self, queries: Any, k: int) -> records.Hits:
        """Return each query's k best candidates by MaxSim, ties by row. Raises UsageError for invalid queries or k."""
        wanted = check_tokens(queries, self.store.dimension, k)
        count = min(max(k, self.candidates), len(self.store))
        hits = index_checks.no_hits(len(wanted), k)
        for start in range(0, len(wanted) if count else 0, _QUERIES):
            part = wanted[start : start + _QUERIES]
            ranked = rank_candidates(self, part, by_centroids(self.store, part, self.probes, count), k)
            hits.rows[start : start + len(part)], hits.scores[start : start + len(part)] = ranked.rows, ranked.scores
        return hits


def by_centroids(codes: TokenCodes, queries: TokenVectors, probes: int, count: int) -> NDArray[np.int64]:
    """Return each query's `count` best documents from the lists of the `probes` centroids nearest to each token.

    The score is MaxSim with the nearest centroid instead of each document token.
    Returns rows of documents, best first, int64 [Q, count], padded with -1.
    """
    candidates = np.full((len(queries), count), -1, np.int64)
    centroids = tensor(codes.centroids)
    size = max(1, _PRODUCTS // (len(centroids) * max(1, int(np.diff(queries.offsets).max(initial=0)))))
    with torch.inference_mode():
        for start in range(0, len(queries), size):
            part = queries[start : start + size]
            products = tensor(part.vectors) @ centroids.T
            probed = products.topk(min(probes, len(centroids)), dim=1, sorted=False).indices.numpy()
            lengths = (codes.list_offsets[probed + 1] - codes.list_offsets[probed]).sum(1)
            for first, last in spans(np.append(0, np.cumsum(lengths))[part.offsets], _LISTED):
                inside = slice(int(part.offsets[first]), int(part.offsets[last]))
                offsets = part.offsets[first : last + 1] - part.offsets[first]
                owner, documents = _listed(codes, offsets, probed[inside])
                scores = _scored(codes, offsets, products[inside], owner, documents)
                ranked = best_of_each(owner, documents, scores, (last - first, count))
                candidates[start + first : start + last] = ranked
    return candidates


def _listed(
    codes: TokenCodes, offsets: NDArray[np.int64], probed: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct pairs of a query and a document in its lists, ascending; probed: int64 [T, probes]."""
    centroid = probed.reshape(-1)
    token = np.repeat(np.arange(len(probed)), probed.shape[1])
    listed, begins = ranges(codes.list_offsets[centroid], codes.list_offsets[centroid + 1])
    query = np.repeat(np.searchsorted(offsets, token, "right") - 1, np.diff(begins))
    keys = np.unique(query * len(codes) + codes.lists[listed])
    return keys // len(codes), keys % len(codes)


def _scored(
    codes: TokenCodes,
    offsets: NDArray[np.int64],
    products: Tensor,
    owner: NDArray[np.int64],
    documents: NDArray[np.int64],
) -> NDArray[np.float32]:
    """Compute MaxSim of each pair of a query and a document, with centroids instead of its tokens, float32 [n].

    products: float32 [T, K], inner products of query tokens and centroids. offsets: the start of each query's tokens.
    """
    table = _table(products, offsets)
    scores = np.empty(len(owner), np.float32)
    ends = np.concatenate([[0], np.cumsum(codes.offsets[documents + 1] - codes.offsets[documents])])
    for start, stop in spans(ends, _SCORED):
        tokens, begins = token_positions(codes.offsets, documents[start:stop])
        lengths = np.diff(begins)
        lines = np.repeat(owner[start:stop], lengths) * len(codes.centroids) + codes.numbers(tokens)
        near = torch.segment_reduce(
            table.index_select(0, torch.from_numpy(lines)), "max", lengths=torch.from_numpy(lengths), axis=0
        )
        scores[start:stop] = near.sum(1).numpy()
    return scores


def _table(products: Tensor, offsets: NDArray[np.int64]) -> Tensor:
    """Arrange the products by query and centroid, float32 [Q * K, S], padded with zeros after the query's tokens."""
    lengths = np.diff(offsets)
    query = np.repeat(np.arange(len(lengths)), lengths)
    slot = np.arange(len(query)) - offsets[query]
    table = products.new_zeros(len(lengths), products.shape[1], int(lengths.max(initial=0)))
    table[torch.from_numpy(query), :, torch.from_numpy(slot)] = products
    return table.flatten(0, 1)


def best_of_each(
    owner: NDArray[np.int64], documents: NDArray[np.int64], scores: NDArray[np.floating], shape: tuple[int, int]
) -> NDArray[np.int64]:
    """Return the best documents of each query in `owner`, ties by document, int64 `shape` [Q, k], padded with -1."""
    order = np.lexsort((documents, -scores, owner))
    owner = owner[order]
    rank = np.arange(len(owner)) - np.searchsorted(owner, owner)
    kept = rank < shape[1]
    lists = np.full(shape, -1, np.int64)
    lists[owner[kept], rank[kept]] = documents[order][kept]
    return lists
