"""Reranking without gradients: pairs of many queries sorted by length, in batches of about equal work.

Scores outlive a run: one SQLite file a network, in which a pair is known by the texts that it is made of.
"""

import hashlib
import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import compress, islice, tee
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardneg.data.begun_blocks import BegunBlock
from hardneg.digest import digest
from hardneg.encoded import Encoded
from hardneg.encoders.fastest import arrange, takes_bf16, usual_budget
from hardneg.encoders.inference import EncodeOptions
from hardneg.encoders.passes import Budget, gathered_in_parts, in_passes, one_ahead
from hardneg.encoders.tokens import Tokens, token_batches
from hardneg.encoders.towers import evaluating, placed
from hardneg.errors import ModelError
from hardneg.float32_products import float32_products
from hardneg.protocols import TrainableReranker
from hardneg.rerankers.network import PairNetwork
from hardneg.rerankers.trained import check_trained
from hardneg.trials import cache_folder

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder


Request = tuple[str, Sequence[str]]
"""A query's text, and the texts of its documents."""

Advance = Callable[[int], None]
"""Is told how many pairs are done."""

_REQUESTS = 256


def unheard(pairs: int) -> None:
    """For whom it may not concern."""


@dataclass(frozen=True)
class PairScorer:
    """A network made ready to score; half: whether it computes in bfloat16. budget: tokens a pass."""

    network: PairNetwork
    options: EncodeOptions
    half: bool
    budget: Budget

    @classmethod
    def of(
        cls, module: "CrossEncoder", device: str | None = None, options: EncodeOptions | None = None
    ) -> "PairScorer":
        """The network, moved to `device` (None: the best there is)."""
        options = options or EncodeOptions()
        network = PairNetwork(module.to(device or best_device()))
        with float32_products(network.device, options.tf32):
            half = takes_bf16(options.precision, network.module, "inference")
        network = network.in_bfloat16() if half else network.sharing()
        arrange(network.module, options.attention, options.compile)
        return cls(network, options, half, Budget(options.tokens_per_batch or usual_budget(network.device)))

    @classmethod
    def opened(
        cls,
        plugin: TrainableReranker,
        folder: Path | None,
        device: str | None = None,
        options: EncodeOptions | None = None,
    ) -> "PairScorer":
        """The network of a plugin as it is, or the one that was trained and saved in `folder`.

        Raises:
            ModelError: it cannot be loaded, or nobody has trained the head of the plugin's own.
        """
        module = plugin.load(folder)
        if folder is None:
            check_trained(plugin)
        return cls.of(module, device, options)

    def rerank(self, requests: Iterable[Request], advance: Advance = unheard) -> Iterator[Sequence[float]]:
        """One score a document, in the order given; a few hundred queries are read ahead.

        `advance` is told how many pairs each batch had.

        Raises:
            ModelError: a score is not finite.
        """
        return self.rerank_blocks([requests], advance)

    def rerank_blocks(
        self, blocks: Iterable[Iterable[Request]], advance: Advance = unheard
    ) -> Iterator[Sequence[float]]:
        """The same for the requests of all blocks, where a block's scores do not depend on the other blocks.

        The next window is tokenised while one is scored, be it of the same block or of the next.
        """
        windows = (window for block in blocks for window in self._windows(block))
        with ThreadPoolExecutor(max_workers=1) as tokeniser:
            pending = ((window, tokeniser.submit(self._tokens, window)) for window in windows)
            for window, waiting in one_ahead(pending):
                ends = np.cumsum([len(documents) for _, documents in window])
                scores = self._scores(waiting.result(), advance) if ends[-1] else np.empty(0, np.float32)
                for part in np.split(scores, ends[:-1]):
                    yield part.tolist()

    def _windows(self, requests: Iterable[Request]) -> Iterator[list[Request]]:
        window: list[Request] = []
        pairs = 0
        for request in requests:
            window.append(request)
            pairs += len(request[1])
            if pairs >= self.options.window or len(window) >= _REQUESTS:
                yield window
                window, pairs = [], 0
        if window:
            yield window

    def _tokens(self, window: Sequence[Request]) -> Tokens:
        queries = [query for query, documents in window for _ in documents]
        return self.network.tokenise(queries, [text for _, documents in window for text in documents])

    def _scores(self, tokens: Tokens, advance: Advance) -> NDArray[np.float32]:
        network, device = self.network, self.network.device
        begun = BegunBlock(self.options.begun, tokens.content if self.options.begun else "", len(tokens.lengths))

        def gathered(batches: Iterable[tuple[NDArray[np.int64], Tensor]], count: int) -> Encoded:
            scores = torch.empty(count, device=device)
            for places, logits in batches:
                scores[placed(places, device)] = network.activated(logits)
            return scores.cpu().numpy()

        put, products = partial(tokens.batch, device=device), float32_products(device, self.options.tf32)
        with evaluating(network.module), torch.inference_mode(), products:
            passes = in_passes(tokens.lengths, self.budget, token_batches, put, network.logits, begun)
            found = np.asarray(gathered_in_parts(passes, begun, gathered, advance))
        if not np.isfinite(found).all():
            raise ModelError("the reranker gives a score that is not finite: check its weights, or use precision fp32")
        return found


def best_device() -> str:
    """Where to compute unless something else is said."""
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


_log = logging.getLogger(__name__)

_AT_ONCE = 500
_PATIENCE = 60.0  # seconds to wait for another process that writes


class CachedScores:
    """Scores by content. What goes wrong with the file costs time, not results: it is logged and scores are made anew.

    Several processes of one machine may use one file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: sqlite3.Connection | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = sqlite3.connect(path, timeout=_PATIENCE)
            with self._file:
                self._file.execute(
                    "CREATE TABLE IF NOT EXISTS scores (pair BLOB PRIMARY KEY, score REAL) WITHOUT ROWID"
                )
        except (OSError, sqlite3.Error) as error:
            self._give_up(error)

    @classmethod
    def of(cls, scorer: PairScorer, content: object) -> "CachedScores":
        """Those of a network; content: what names it in JSON, its weights and all its options."""
        rounded = {"tf32": True} if scorer.options.tf32 else {}
        name = digest({"content": content, "half": scorer.half, **rounded})
        return cls(cache_folder() / "scores" / f"{name}.sqlite")

    def find(self, pairs: Sequence[bytes]) -> NDArray[np.float32]:
        """float32 [n], nan for pairs that are not known."""
        known: dict[bytes, float] = {}
        for start in range(0, len(pairs), _AT_ONCE):
            part = pairs[start : start + _AT_ONCE]
            known.update(
                self._rows(f"SELECT pair, score FROM scores WHERE pair IN ({', '.join('?' * len(part))})", part)
            )
        return np.array([known.get(pair, np.nan) for pair in pairs], np.float32)

    def keep(self, pairs: Sequence[bytes], scores: Sequence[float]) -> None:
        """Adds the scores of some pairs, all or none."""
        if self._file is None:
            return
        try:
            with self._file:
                self._file.executemany("INSERT OR REPLACE INTO scores VALUES (?, ?)", zip(pairs, scores, strict=True))
        except sqlite3.Error as error:
            self._give_up(error)

    def _rows(self, query: str, values: Sequence[bytes]) -> list[tuple[bytes, float]]:
        if self._file is None:
            return []
        try:
            return self._file.execute(query, values).fetchall()
        except sqlite3.Error as error:
            self._give_up(error)
            return []

    def _give_up(self, error: Exception) -> None:
        _log.warning("%s: scores are not kept (%s); remove the file if it is damaged", self._path, error)
        self._file = None


@dataclass(frozen=True)
class _Looked:
    """A block whose known scores were looked up.

    pairs: of all requests. scores: float32 [pairs], nan where nothing is known. asked: bool [pairs], what is scored for
    this block; the rest of the unknown is scored for the block before it.
    """

    requests: Sequence[Request]
    pairs: Sequence[bytes]
    scores: NDArray[np.float32]
    asked: NDArray[np.bool_]

    def lacking(self) -> Iterator[Request]:
        """All requests, with the documents alone that are to be scored."""
        start = 0
        for query, documents in self.requests:
            wanted = self.asked[start : start + len(documents)].tolist()
            start += len(documents)
            yield query, [text for text, new in zip(documents, wanted, strict=True) if new]

    def finished(self, found: Sequence[float], before: Mapping[bytes, float]) -> Iterator[Sequence[float]]:
        """The scores of each request, with those `found` for this block and for the one `before` it."""
        self.scores[self.asked] = found
        for place in np.flatnonzero(np.isnan(self.scores)).tolist():
            self.scores[place] = before[self.pairs[place]]
        ends = np.cumsum([len(documents) for _, documents in self.requests])
        return (part.tolist() for part in np.split(self.scores, ends)[:-1])


@dataclass(frozen=True)
class CachedScorer:
    """Scores the pairs that are not known yet, and keeps what it finds."""

    scorer: PairScorer
    kept: CachedScores

    def rerank_blocks(
        self, blocks: Iterable[Iterable[Request]], advance: Advance = unheard
    ) -> Iterator[Sequence[float]]:
        """One score a document, in the order given; a block's are kept together before its first is given.

        One block is scored while the next is looked up; both are held. `advance` is told how many pairs each batch had.
        """
        looked, ahead = tee(self._looked_up(blocks))
        answers = self.scorer.rerank_blocks((block.lacking() for block in ahead), advance)
        before: dict[bytes, float] = {}
        for block in looked:
            found = [score for scores in islice(answers, len(block.requests)) for score in scores]
            done = block.finished(found, before)
            before = dict(zip(compress(block.pairs, block.asked), found, strict=True))
            if before:
                self.kept.keep(list(before), list(before.values()))
            yield from done

    def _looked_up(self, blocks: Iterable[Iterable[Request]]) -> Iterator[_Looked]:
        under_way: set[bytes] = set()
        for requests in map(list, blocks):
            pairs = [_pair(query, text) for query, documents in requests for text in documents]
            scores = self.kept.find(pairs)
            asked = np.isnan(scores) & np.array([pair not in under_way for pair in pairs], bool)
            yield _Looked(requests, pairs, scores, asked)
            under_way = set(compress(pairs, asked))


def _pair(query: str, text: str) -> bytes:
    return hashlib.blake2b(f"{len(query)}\0{query}{text}".encode(), digest_size=16).digest()
