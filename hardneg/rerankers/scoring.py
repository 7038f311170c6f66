"""Reranking without gradients: pairs of many queries sorted by length, in batches of about equal work."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from hardneg.errors import ModelError
from hardneg.models.batching import Tokens, token_batches
from hardneg.models.inference import EncodeOptions, one_ahead
from hardneg.models.precision import takes_bf16
from hardneg.models.token_budget import usual_budget
from hardneg.models.towers import evaluating
from hardneg.rerankers.network import PairNetwork

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
    """A network made ready to score; half: whether it computes in bfloat16."""

    network: PairNetwork
    options: EncodeOptions
    half: bool

    @classmethod
    def of(
        cls, module: "CrossEncoder", device: str | None = None, options: EncodeOptions | None = None
    ) -> "PairScorer":
        """The network, moved to `device` (None: the best there is)."""
        options = options or EncodeOptions()
        network = PairNetwork(module.to(device or best_device()))
        half = takes_bf16(options.precision, network.module, "inference")
        return cls(network.in_bfloat16() if half else network, options, half)

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
        network, lengths = self.network, tokens.lengths
        budget = self.options.tokens_per_batch or usual_budget(network.device)
        scores = torch.empty(len(lengths), device=network.device)
        with evaluating(network.module), torch.inference_mode():
            for rows in token_batches(lengths, budget):
                logits = network.logits(tokens.batch(rows))
                scores[torch.from_numpy(rows).to(network.device)] = network.activated(logits)
                advance(len(rows))
        found: NDArray[np.float32] = scores.cpu().numpy()
        if not np.isfinite(found).all():
            raise ModelError("the reranker gives a score that is not finite: check its weights, or use precision fp32")
        return found


def best_device() -> str:
    """Where to compute unless something else is said."""
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
