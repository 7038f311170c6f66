"""Exact search: the k vectors of the largest inner product, whatever the size of the corpus."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from hardneg.data.flat import FlatVectors
from hardneg.errors import MissingDependency, UsageError
from hardneg.indexes.exact_faiss import search_spans
from hardneg.indexes.exact_torch import Blocks, DeviceVectors, search_blocks
from hardneg.indexes.validation import check_queries
from hardneg.progress import Progress, Silent
from hardneg.trials import Way, choose, machine_of
from hardneg.types import Hits

_WORTH_A_TRIAL = 1 << 35  # products of numbers in a search from which on a second of timing pays
_TRIAL_NUMBERS, _TRIAL_ROWS, _TRIAL_QUERIES, _TRIAL_DEPTH = 6 << 20, 16_384, 512, 100
_SPAN_BYTES = 48 << 20  # of vectors, held at a time for faiss
_FAISS_ROWS, _FAISS_QUERIES = 1024, 4096  # its own blocks; whole ones give its index's own scores to the bit


@dataclass(frozen=True)
class ExactOptions:
    """How to search; it changes speed and memory, and the last bits of scores at most.

    corpus_block, query_block: how many vectors and queries are multiplied at a time; None fits the engine.
    device: where to compute; None takes the first GPU, or the CPU where there is none.
    engine: `auto` is torch, but for a search of more than about a second on a CPU where faiss is installed: there a
        trial tells which of the two is faster. The documents are the same, and scores but for their last bits.
    resident: an index of no more bytes than this stays on the device between searches; a larger one is read anew,
        block by block.
    """

    corpus_block: int | None = None
    query_block: int | None = None
    device: str | None = None
    engine: Literal["auto", "torch", "faiss"] = "auto"
    resident: int = 0

    @property
    def where(self) -> torch.device:
        """The device that searches run on."""
        return torch.device(self.device or ("cuda" if torch.cuda.is_available() else "cpu"))


def search_exact(
    vectors: NDArray[np.float32] | FlatVectors | DeviceVectors,
    queries: NDArray[np.float32],
    k: int,
    options: ExactOptions | None = None,
    progress: Progress | None = None,
) -> Hits:
    """The k vectors of the largest inner product with each query; ties by ascending row, at rank k too.

    Args:
        vectors: float32 [N, d]; with `FlatVectors` no more than a block is in memory; `Resident` ones are there.
        queries: float32 [Q, d].
        k: how many; above N the lists are padded with row -1 and score -inf.
        options: block sizes, device and engine.
        progress: told of the vectors that are done.

    Raises:
        UsageError: for another dimension, k below 1, or queries that are not finite.
        ArtifactError: for vectors, or inner products, that are not finite.
        MissingDependency: faiss is asked for and not installed.
    """
    options = options or ExactOptions()
    check_queries(queries, vectors.shape[1] if isinstance(vectors, np.ndarray) else vectors.dimension, k)
    faiss = _by_faiss(options, len(vectors) * queries.size, queries.shape[1])
    blocks = _blocks(options, faiss, queries.shape[1])
    search = search_spans if faiss else search_blocks
    with (progress or Silent()).task("search", len(vectors), "passages") as task:
        return search(vectors, queries, k, blocks, task)


def _blocks(options: ExactOptions, faiss: bool, dimension: int) -> Blocks:
    device = options.where
    if faiss:
        corpus, queries = max(1, _SPAN_BYTES // (4 * dimension * _FAISS_ROWS)) * _FAISS_ROWS, _FAISS_QUERIES
    else:  # what fits a CPU's caches, or fills a GPU's cores
        corpus, queries = (2048, 512) if device.type == "cpu" else (65536, 2048)
    corpus = corpus if options.corpus_block is None else options.corpus_block
    queries = queries if options.query_block is None else options.query_block
    if min(corpus, queries) < 1:
        raise UsageError(f"block sizes must be at least 1, not {corpus} and {queries}")
    return Blocks(corpus, queries, device)


def _by_faiss(options: ExactOptions, products: int, dimension: int) -> bool:
    installed = find_spec("faiss") is not None
    if options.engine == "faiss" and not installed:
        raise MissingDependency('exact search by faiss needs faiss: pip install "hardneg[cpu]", or engine torch')
    if options.engine != "auto" or not installed:
        return options.engine == "faiss"
    if products < _WORTH_A_TRIAL or options.where.type != "cpu":
        return False
    subject = f"exact search on cpu, {dimension} dimensions"
    ways: dict[str, Way] = {"torch": lambda: _trial(False, dimension), "faiss": lambda: _trial(True, dimension)}
    return choose(subject, machine_of(options.where), ways) == "faiss"


def _trial(faiss: bool, dimension: int) -> Callable[[], object]:
    draws = np.random.default_rng(0)
    rows = min(_TRIAL_ROWS, max(1024, _TRIAL_NUMBERS // dimension))
    vectors, queries = (draws.standard_normal((n, dimension), np.float32) for n in (rows, _TRIAL_QUERIES))
    search, blocks = search_spans if faiss else search_blocks, _blocks(ExactOptions(device="cpu"), faiss, dimension)

    def run() -> None:
        with Silent().task("", None, "") as unseen:
            search(vectors, queries, _TRIAL_DEPTH, blocks, unseen)

    return run
