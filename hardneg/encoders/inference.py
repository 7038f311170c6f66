"""Encoding without gradients: windows of texts sorted by length, in batches of about equal work."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hardneg.encoders.passes import Budget, ahead, gathered_in_parts, in_passes, most_tokens, usual_budget
from hardneg.encoders.precision import arrange, takes_bf16
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.representation import first_broken
from hardneg.encoders.spec import Side
from hardneg.encoders.tokens.backend import cores
from hardneg.encoders.tokens.segmenting import SegmentTokens, rows_of
from hardneg.encoders.tokens.tokens import Tokens, token_batches
from hardneg.encoders.towers import evaluating, in_bfloat16, sharing
from hardneg.formats.vectors.begun_blocks import BegunBlock
from hardneg.records.errors import ModelError
from hardneg.records.types import Encoded
from hardneg.registry.faster import Packing
from hardneg.runtime.float32_products import float32_products

if TYPE_CHECKING:
    from hardneg.encoders.encoder import Encoder


Tokenise = Callable[[int, Sequence[str]], Tokens | SegmentTokens]
"""Tokenises texts into the rows to encode; takes the number of the first text and the texts."""
_PASSES = 4  # that a window on a GPU is worth at least: they are sorted by length together


@dataclass(frozen=True)
class Inference:
    """A model prepared to encode.

    parts: its modules, the first possibly in bfloat16. budget: tokens of a pass. tokens: tokenises texts.
    joins: whether windows are joined until they fill a few passes. packing: of a faster way, None for padded texts.
    tf32, begun: as in `EncodeOptions`.
    """

    encoder: "Encoder"
    side: Side
    parts: Sequence[nn.Module]
    budget: Budget
    tokens: Tokenise
    joins: bool
    packing: Packing | None = None
    tf32: bool = False
    begun: Path | None = None


def prepare(encoder: "Encoder", side: Side, options: EncodeOptions, tokens: Tokenise | None = None) -> Inference:
    """Prepares a model to encode texts of a side; tokens: None makes a row of each text."""
    device = encoder.device
    transformer, *rest = encoder.parts(side)
    whole = next(transformer.parameters()).dtype == torch.float32
    with float32_products(device, options.tf32):
        applies = whole or options.precision == "bf16"
        half = applies and takes_bf16(options.precision, transformer, "inference") and whole
    parts = [in_bfloat16(transformer) if half else sharing(transformer), *rest]
    faster, packing = arrange(parts[0], options), None
    if faster is not None:
        with _computing(encoder, parts, options.tf32):
            packing = faster.packing(encoder, side, parts)
    plain = partial(encoder.tokenise, side=side)
    make = tokens or (lambda _, texts: plain(texts))
    budget = Budget(min(options.tokens_per_batch or usual_budget(device), most_tokens(parts[0], device)))
    return Inference(encoder, side, parts, budget, make, device.type != "cpu", packing, options.tf32, options.begun)


@contextmanager
def _computing(encoder: "Encoder", parts: Sequence[nn.Module], tf32: bool) -> Iterator[None]:
    products = float32_products(encoder.device, tf32)
    with evaluating(encoder.module), evaluating(parts[0]), products, torch.inference_mode():
        yield


def encode_windows(
    inference: Inference, windows: Iterable[tuple[int, Sequence[str]]], advance: Callable[[int], None]
) -> Iterator[tuple[int, Encoded, NDArray[np.int64] | None]]:
    """Yields, for each window, the number of its first text, the encoded texts, and the rows of each text, in order.

    The rows of each text, int64 [n], are there where texts are cut into segments. A few windows are tokenised while
    one is encoded. `advance` is called with the size of each batch.

    Raises:
        ModelError: a number is not finite; names the first such text's number, of segments their window's.
    """
    threads = tokenising_threads()
    with ThreadPoolExecutor(threads) as tokenisers:
        pending = ((start, tokenisers.submit(inference.tokens, start, texts)) for start, texts in windows)
        for window in _joined(inference, ahead(pending, threads)):
            tokens = [rows_of(result) for _, result in window]
            joined, stop = Tokens.join(tokens), 0
            begun = BegunBlock(inference.begun if len(window) == 1 else None, str(window[0][0]), len(joined.lengths))
            encoded = _encoded(inference, joined, begun, advance)
            for (start, result), own in zip(window, tokens, strict=True):
                first, stop = stop, stop + len(own.lengths)
                part = encoded if len(window) == 1 else encoded[first:stop]
                _check(inference, start, part, isinstance(result, SegmentTokens))
                yield start, part, result.counts if isinstance(result, SegmentTokens) else None


def tokenising_threads() -> int:
    """The number of threads that tokenise: a few where a tokenizer has one core, else one to read, one for arrays.

    A fast tokenizer reads on all cores by itself, unless TOKENIZERS_PARALLELISM forbids it.
    """
    return min(4, os.cpu_count() or 1) if cores() == 1 else 2


_Tokenised = tuple[int, Tokens | SegmentTokens]


def _joined(
    inference: Inference, pending: Iterator[tuple[int, "Future[Tokens | SegmentTokens]"]]
) -> Iterator[list[_Tokenised]]:
    """Tokenised windows, one by one or, where they are joined, as many as fill a few passes."""
    held: list[_Tokenised] = []
    tokens = 0
    for start, waiting in pending:
        result = waiting.result()
        held.append((start, result))
        tokens += int(rows_of(result).offsets[-1])
        if not inference.joins or tokens >= _PASSES * inference.budget.tokens:
            yield held
            held, tokens = [], 0
    if held:
        yield held


def _encoded(inference: Inference, tokens: Tokens, begun: BegunBlock, advance: Callable[[int], None]) -> Encoded:
    """Encodes rows; `begun` holds those that are encoded already and gets the others."""
    encoder, representation = inference.encoder, inference.encoder.representation
    packing = inference.packing if inference.packing is not None and inference.packing.takes(tokens) else None
    put = partial(tokens.batch if packing is None else partial(packing.features, tokens), device=encoder.device)
    batches = token_batches if packing is None else packing.batches

    def run(features: dict[str, Tensor]) -> Tensor:
        return representation.run(inference.parts, features, encoder.device, inference.side)

    def gathered(some: Iterable[tuple[NDArray[np.int64], Tensor]], count: int) -> Encoded:
        return representation.gathered(some, count, encoder.dimension)

    with _computing(encoder, inference.parts, inference.tf32):
        passes = in_passes(tokens.lengths, inference.budget, batches, put, run, begun)
        return gathered_in_parts(passes, begun, gathered, advance)


def _check(inference: Inference, start: int, encoded: Encoded, cut: bool) -> None:
    broken = first_broken(encoded)
    if broken is not None:
        position = f"{start} or a later one" if cut else str(start + broken)
        raise ModelError(
            f"model {inference.encoder.spec.name!r}: the vector of {inference.side} text {position} (counted from 0) "
            "is not finite: check the model's weights, or encode with precision fp32"
        )
