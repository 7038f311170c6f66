"""Encoding without gradients: windows of texts sorted by length, in batches of about equal work."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hardneg.encoders.fastest import most_tokens, takes_bf16, token_budget
from hardneg.encoders.representation import first_broken
from hardneg.encoders.spec import Kind
from hardneg.encoders.tokens import Tokens, token_batches
from hardneg.encoders.towers import evaluating, in_bfloat16
from hardneg.errors import ModelError
from hardneg.types import Encoded

if TYPE_CHECKING:
    from hardneg.encoders.encoder import Encoder


Tokenise = Callable[[Sequence[str]], Tokens]
_Item = TypeVar("_Item")


@dataclass(frozen=True)
class EncodeOptions:
    """How texts or pairs go through a model; changes a vector or score by float noise, and `precision` by rounding.

    tokens_per_batch: the most rows times padded length of one forward pass; a longer text passes alone. None is
        what this machine is fastest with (`hardneg.encoders.fastest`), and the usual one of a device for pairs.
    precision: `auto` is bfloat16 where a trial finds it faster (`hardneg.encoders.fastest`).
    window: texts or pairs that are sorted by length together.
    """

    tokens_per_batch: int | None = None
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    window: int = 4096


@dataclass(frozen=True)
class Inference:
    """A model made ready to encode.

    parts: its modules, the first with bfloat16 weights where asked. budget: tokens a pass.
    segments: makes the tokens of texts that are cut into several rows each; none makes one row a text.
    """

    encoder: "Encoder"
    kind: Kind
    parts: Sequence[nn.Module]
    budget: int
    segments: Tokenise | None = None

    @property
    def tokens(self) -> Tokenise:
        """Makes the rows to encode of some texts."""
        return self.segments or partial(self.encoder.tokenise, kind=self.kind)


def prepare(
    encoder: "Encoder", kind: Kind, options: EncodeOptions, count: int, segments: Tokenise | None = None
) -> Inference:
    """The model made ready for about `count` rows of a kind."""
    device = encoder.device
    transformer, *rest = encoder.parts(kind)
    whole = next(transformer.parameters()).dtype == torch.float32
    half = whole and takes_bf16(options.precision, transformer, "inference")
    parts = [in_bfloat16(transformer) if half else transformer, *rest]
    with evaluating(encoder.module), evaluating(parts[0]), torch.inference_mode():
        budget = min(options.tokens_per_batch or token_budget(parts, device, count), most_tokens(parts[0], device))
    return Inference(encoder, kind, parts, budget, segments)


def encode_windows(
    inference: Inference, windows: Iterable[tuple[int, Sequence[str]]], advance: Callable[[int], None]
) -> Iterator[tuple[int, Encoded]]:
    """For each (number of its first text, texts): that number and what they are encoded into, in order.

    One window is tokenised while another is computed; two are held. `advance` is told of each batch.

    Raises:
        ModelError: a number is not finite; names the first such text's number, of segments their window's.
    """
    with ThreadPoolExecutor(max_workers=1) as tokeniser:
        pending = ((start, tokeniser.submit(inference.tokens, texts)) for start, texts in windows)
        for start, waiting in one_ahead(pending):
            encoded = _encoded(inference, waiting.result(), advance)
            _check(inference, start, encoded)
            yield start, encoded


def one_ahead(pending: Iterator[_Item]) -> Iterator[_Item]:
    """The same items, each given when the one behind it is there too: begun, where they are begun as they are made."""
    held = next(pending, None)
    while held is not None:
        following = next(pending, None)
        yield held
        held = following


def _encoded(inference: Inference, tokens: Tokens, advance: Callable[[int], None]) -> Encoded:
    encoder, made = inference.encoder, inference.encoder.representation

    def batches() -> Iterator[tuple[NDArray[np.int64], Tensor]]:
        for rows in token_batches(tokens.lengths, inference.budget):
            yield rows, made.run(inference.parts, tokens.batch(rows), encoder.device, inference.kind)
            advance(len(rows))

    with evaluating(encoder.module), evaluating(inference.parts[0]), torch.inference_mode():
        return made.gathered(batches(), len(tokens.lengths), encoder.dimension)


def _check(inference: Inference, start: int, encoded: Encoded) -> None:
    broken = first_broken(encoded)
    if broken is not None:
        position = f"{start} or one behind it" if inference.segments else str(start + broken)
        raise ModelError(
            f"model {inference.encoder.spec.name!r}: the vector of {inference.kind} text {position} (counted from 0) "
            "is not finite: check the model's weights, or encode with precision fp32"
        )
