"""A model's modules for queries and documents, its forward passes within a token budget, and their precision."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hardneg.encoders.spec import Precision, Side
from hardneg.records import ModelError, UsageError
from hardneg.registry import faster
from hardneg.runtime import has_bf16_units
from hardneg.store import choose

Use = Literal["inference", "training"]
Batching = Callable[[NDArray[np.int64], int], Iterable[NDArray[np.int64]]]
"""A function from text lengths and a token budget to the rows of each pass (at least one row), longest texts first."""

LARGE = 1_000_000
"""Minimum number of weights for precision `auto` to select bfloat16, which does not speed up smaller transformers."""
_GPU_TOKENS = 65_536
_CPU_OUTPUT, _GPU_OUTPUT = 512 << 20, 16 << 30  # bytes of a pass's output
_Item = TypeVar("_Item")
_Features = TypeVar("_Features")
_Output = TypeVar("_Output")
_log = logging.getLogger(__name__)


def route(module: nn.Module, side: Side) -> list[Any]:
    """Return the modules of one side in order, the transformer first."""
    parts = list(module.children())
    return list(parts[0].sub_modules[side]) if has_twins(module) else parts  # type: ignore[index]


def has_twins(module: nn.Module) -> bool:
    """Return whether queries and documents have separate modules."""
    return hasattr(next(iter(module.children()), None), "sub_modules")


def folded(parts: Sequence[Any], name: str) -> list[nn.Module]:
    """Move the modules after a Router into its routes. Raises ModelError if they have weights or a route is missing."""
    if not any(hasattr(part, "sub_modules") for part in parts):
        return [*parts]
    routes, rest = getattr(parts[0], "sub_modules", {}), parts[1:]
    if set(routes) != {"query", "document"} or nn.Sequential(*rest).state_dict():
        problem = "its Router must be its only module with weights and have routes query and document"
        raise ModelError(f"model {name!r}: {problem}; use another model")
    return [twins([*routes["query"], *rest], [*routes["document"], *rest])]


def with_own_queries(parts: Sequence[nn.Module]) -> list[nn.Module]:
    """Return the modules, with those that have weights replaced by copies."""
    return [deepcopy(part) if any(True for _ in part.parameters()) else part for part in parts]


def twins(query: Sequence[nn.Module], document: Sequence[nn.Module]) -> nn.Module:
    """Return a sentence-transformers Router with a route for each side; `document` is the default."""
    from sentence_transformers.sentence_transformer.modules import Router

    router: nn.Module = Router.for_query_document(list(query), list(document))
    return router


def transformers(module: nn.Module) -> Iterable[Any]:
    """Return the first module of each side, or a single module if both sides share it."""
    return {id(first): first for first in (route(module, "query")[0], route(module, "document")[0])}.values()


def forward(
    parts: Sequence[nn.Module], features: dict[str, Tensor], device: torch.device, side: Side = "document"
) -> dict[str, Tensor]:
    """Pass features through modules, all but the first in float32 without autocast. Raises ModelError on a mismatch."""
    transformer, *rest = parts
    out: dict[str, Any] = {}
    for name, value in features.items():
        out[name] = value.to(device, non_blocking=True) if isinstance(value, Tensor) else value
    try:
        out = transformer(out)
        with torch.autocast(device.type, enabled=False):
            for name in out.keys() & {"token_embeddings", "sentence_embedding"}:
                out[name] = out[name].float()
            for part in rest:
                asks = "task" in getattr(part, "forward_kwargs", ())
                out = part(out, task=side) if asks else part(out)
        return out
    except (AttributeError, LookupError, TypeError, ValueError) as error:  # of modules with impossible configurations
        reason = " ".join((str(error) or type(error).__name__).split())
        raise ModelError(f"the model's modules do not fit together ({reason}); check its files") from error


def placed(values: NDArray[Any], device: torch.device) -> Tensor:
    """Copy an array to a tensor on the device, asynchronously to a GPU."""
    tensor = torch.from_numpy(values)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


class Cut(nn.Module):
    """A module that truncates vectors to their first dimensions and renormalises them for cosine similarity."""

    def __init__(self, dimension: int, normalised: bool) -> None:
        super().__init__()
        self.dimension, self.normalised = dimension, normalised

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        """Truncate the vectors in `sentence_embedding` to float32 [n, dimension]."""
        features["sentence_embedding"] = cut(features["sentence_embedding"], self.dimension, self.normalised)
        return features


def cut(vectors: Tensor, dimension: int, normalised: bool) -> Tensor:
    """Return the first `dimension` values of vectors [n, d], renormalised if `normalised` is true."""
    shorter = vectors[:, :dimension]
    return nn.functional.normalize(shorter, dim=-1) if normalised else shorter


def at_least_float32(tensor: Tensor) -> Tensor:
    """Convert a tensor to float32, unless it is float64."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def list_products(queries: Tensor, documents: Tensor) -> Tensor:
    """Compute inner products of each query [B, d] with its M documents [B * M, d], float32 [B, M], without autocast."""
    with torch.autocast(queries.device.type, enabled=False):
        own = documents.view(len(queries), -1, documents.shape[-1])
        return (own @ queries.float()[:, :, None]).squeeze(2)


def hold_in(network: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Convert a network's weights, but not its buffers, to a dtype in place, and return the network."""
    for weight in network.parameters():
        weight.data = weight.data.to(dtype)
    return network


def in_bfloat16(transformer: nn.Module) -> nn.Module:
    """Return a copy of a transformer with bfloat16 weights and the same tokenizer."""
    return hold_in(deepcopy(transformer, _tokenizers(transformer)), torch.bfloat16)


def sharing(network: nn.Module) -> Any:
    """Return a copy of a network that shares the weights and buffers but can be switched to faster kernels."""
    tensors = {id(tensor): tensor for tensor in [*network.parameters(), *network.buffers()]}
    return deepcopy(network, tensors | _tokenizers(network))


def _tokenizers(network: nn.Module) -> dict[int, Any]:
    there = [item for part in network.modules() for item in vars(part).items()]
    return {id(value): value for name, value in there if name == "processor" or isinstance(value, Tensor)}


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Set evaluation mode in the block (no dropout), and restore the mode of each part afterwards."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


def takes_bf16(precision: Precision, network: nn.Module, use: Use) -> bool:
    """Return whether to compute a network's transformer in bfloat16; for `auto`, only if the device supports it.

    `auto` selects float32 if there is no transformer, or it has fewer than a million weights.

    Raises UsageError if bfloat16 is requested on a GPU that can only emulate it.
    """
    if precision == "auto":
        transformer = _transformer_of(network)
        weights = 0 if transformer is None else sum(weight.numel() for weight in transformer.parameters())
        if weights < LARGE:
            return False
        subject = f"{use} on {transformer.device.type}, {weights:,} weights"
        return choose(subject, *("bf16", "fp32") if has_bf16_units(transformer.device) else ("fp32", "bf16")) == "bf16"
    if precision == "bf16":
        device = next((weight.device for weight in network.parameters()), torch.device("cpu"))
        if device.type == "cuda" and not has_bf16_units(device):
            raise UsageError(
                f"precision bf16 needs a GPU of CUDA capability 8.0 or later, but {torch.cuda.get_device_name(device)} "
                "is older; set precision to fp32 or auto"
            )
    return precision == "bf16"


def arrange(network: nn.Module) -> Any:
    """Switch a network to an optional package's inference kernels. Return the package's `passes` module, or None."""
    ways = None if _transformer_of(network) is None else faster("passes")
    if ways is not None:
        ways.arrange(network)
    return ways


def _transformer_of(network: nn.Module) -> Any:
    from transformers import PreTrainedModel

    return next((part for part in network.modules() if isinstance(part, PreTrainedModel)), None)


@dataclass
class Budget:
    """The token budget per forward pass, padding included; it is lowered when memory runs out."""

    tokens: int


def usual_budget(device: torch.device) -> int:
    """Return the default token budget per pass, padding included; on a CPU, 1024 per thread, to fit its caches."""
    return 1024 * torch.get_num_threads() if device.type == "cpu" else _GPU_TOKENS


def most_tokens(first: Any, device: torch.device) -> int:
    """Return the largest token budget for which the first part's output, e.g. logits of all terms, fits in memory."""
    numbers = int(first.get_embedding_dimension()) if hasattr(first, "get_embedding_dimension") else 1
    return max(1, (_CPU_OUTPUT if device.type == "cpu" else _GPU_OUTPUT) // (4 * numbers))


def in_passes(
    lengths: NDArray[np.int64],
    budget: Budget,
    batching: Batching,
    put: Callable[[NDArray[np.int64]], _Features],
    run: Callable[[_Features], _Output],
    advance: Callable[[int], None],
) -> Iterator[tuple[NDArray[np.int64], _Output]]:
    """Yield the rows of each pass, int64 [b], and its output, while the next pass is copied to the device.

    If a pass does not fit into memory, the token budget is halved for that pass and all later ones.

    lengths: int64 [n], tokens per text. budget: token budget, which may be lowered. batching: divides texts into
    passes. put: returns the features of given rows on the device. run: computes the output from features. advance:
    called with the number of rows after each pass.

    Raises ModelError if a single text does not fit into memory.
    """
    left = np.arange(len(lengths))
    while len(left):
        passes, done = [left[rows] for rows in batching(lengths[left], budget.tokens)], 0
        try:
            for rows, features in ahead(((rows, put(rows)) for rows in passes), 1):
                yield rows, run(features)
                done += 1
                advance(len(rows))
        except torch.OutOfMemoryError as error:
            if len(passes[done]) == 1:
                reason = " ".join(str(error).split())
                raise ModelError(
                    f"a single text of {lengths[passes[done][0]]} tokens does not fit in device memory; lower the "
                    f"maximum length, or stop other programs on the device ({reason:.200})"
                ) from None
        left = np.concatenate([left[:0], *passes[done:]])
        if len(left):  # the memory of the failed pass is free only here, after its exception
            failed = lengths[passes[done]]
            tried = min(budget.tokens, len(failed) * int(failed.max()))
            budget.tokens = max(1, tried // 2)
            torch.cuda.empty_cache()
            _log.warning("a pass of %d tokens does not fit in device memory; continuing with %d", tried, budget.tokens)


def ahead(pending: Iterator[_Item], count: int) -> Iterator[_Item]:
    """Yield each item only after the next `count` items have been fetched."""
    waiting = list[_Item]()
    for item in pending:
        waiting.append(item)
        if len(waiting) > count:
            yield waiting.pop(0)
    yield from waiting
