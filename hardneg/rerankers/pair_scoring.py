"""Reranking without gradients: pairs of many queries sorted by length, in batches of about equal work."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from hardneg.encoders.passes import Budget, in_passes, one_ahead, usual_budget
from hardneg.encoders.precision import arrange, takes_bf16
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.tokens.tokens import Tokens, token_batches
from hardneg.encoders.towers import evaluating, placed
from hardneg.protocols import TrainableReranker
from hardneg.records import ModelError
from hardneg.rerankers.network import PairNetwork
from hardneg.runtime.float32_products import float32_products

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder


Request = tuple[str, Sequence[str]]
"""A query's text, and the texts of its documents."""

Advance = Callable[[int], None]
"""Called with the number of scored pairs."""

_REQUESTS = 256


def unheard(pairs: int) -> None:
    """Ignores progress."""


@dataclass(frozen=True)
class PairScorer:
    """A network prepared to score; half: whether it computes in bfloat16. budget: tokens of a pass."""

    network: PairNetwork
    options: EncodeOptions
    half: bool
    budget: Budget

    @classmethod
    def of(
        cls, module: "CrossEncoder", device: str | None = None, options: EncodeOptions | None = None
    ) -> "PairScorer":
        """The network, moved to `device` (None: the best available)."""
        options = options or EncodeOptions()
        network = PairNetwork(module.to(device or best_device()))
        half = takes_bf16(options.precision, network.module, "inference")
        network = network.in_bfloat16() if half else network.sharing()
        arrange(network.module)
        return cls(network, options, half, Budget(options.tokens_per_batch or usual_budget(network.device)))

    @classmethod
    def opened(
        cls,
        plugin: TrainableReranker,
        folder: Path | None,
        device: str | None = None,
        options: EncodeOptions | None = None,
    ) -> "PairScorer":
        """The network of a plugin, or the trained one in `folder`.

        Raises:
            ModelError: it cannot be loaded, or the plugin's own head is untrained.
        """
        module = plugin.load(folder)
        if folder is None and (check_trained := getattr(plugin, "check_trained", None)):
            check_trained()
        return cls.of(module, device, options)

    def rerank(self, requests: Iterable[Request], advance: Advance = unheard) -> Iterator[Sequence[float]]:
        """Yields one score a document, in order; a few hundred queries are read ahead.

        `advance` is called with the pairs of each batch.

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
                yield from (self.network.activated(part.tolist()) for part in np.split(scores, ends[:-1]))

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
        put, scores = partial(tokens.batch, device=device), torch.empty(len(tokens.lengths), device=device)
        with evaluating(network.module), torch.inference_mode(), float32_products(device):
            for rows, logits in in_passes(tokens.lengths, self.budget, token_batches, put, network.logits, advance):
                scores[placed(rows, device)] = logits
        values: NDArray[np.float32] = scores.cpu().numpy()
        if not np.isfinite(values).all():
            raise ModelError("the reranker gives a score that is not finite: check its weights, or use precision fp32")
        return values


def best_device() -> str:
    """The default device."""
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
