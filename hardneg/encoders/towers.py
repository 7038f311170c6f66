"""The modules that a text passes through, by its side, one pass of features through them, and products of vectors."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hardneg.encoders.spec import Side
from hardneg.records import ModelError


def route(module: nn.Module, side: Side) -> list[Any]:
    """The modules that texts of a side pass through, the transformer first."""
    routes = _routes(module)
    return list(module.children() if routes is None else routes[side])


def has_twins(module: nn.Module) -> bool:
    """Whether queries and documents have separate modules."""
    return _routes(module) is not None


def folded(parts: Sequence[Any], name: str) -> list[nn.Module]:
    """The modules, with those behind a Router at the end of its routes. Raises ModelError where these have weights."""
    if not any(hasattr(part, "sub_modules") for part in parts):
        return [*parts]
    routes, rest = getattr(parts[0], "sub_modules", {}), parts[1:]
    if set(routes) != {"query", "document"} or nn.Sequential(*rest).state_dict():
        problem = "its Router must be its only module with weights, with routes query and document"
        raise ModelError(f"model {name!r}: {problem}")
    return [twins([*routes["query"], *rest], [*routes["document"], *rest])]


def with_own_queries(parts: Sequence[nn.Module]) -> list[nn.Module]:
    """Copies of the modules that have weights; the others are shared, as they cannot change."""
    return [deepcopy(part) if any(True for _ in part.parameters()) else part for part in parts]


def twins(query: Sequence[nn.Module], document: Sequence[nn.Module]) -> nn.Module:
    """One module of sentence-transformers with two routes; without a task it takes that of documents."""
    from sentence_transformers.sentence_transformer.modules import Router

    router: nn.Module = Router.for_query_document(list(query), list(document))
    return router


def transformers(module: nn.Module) -> Iterable[Any]:
    """The first module of each side."""
    return {id(first): first for first in (route(module, "query")[0], route(module, "document")[0])}.values()


def _routes(module: nn.Module) -> Any:
    return getattr(next(iter(module.children()), None), "sub_modules", None)


def forward(
    parts: Sequence[nn.Module], features: dict[str, Tensor], device: torch.device, side: Side = "document"
) -> dict[str, Tensor]:
    """The output of the last part, whatever autocast is on; all parts after the first run in float32."""
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
        raise ModelError(f"the model's modules do not fit together ({reason}): check its files") from error


def placed(values: NDArray[Any], device: torch.device) -> Tensor:
    """An array as a tensor on the device; to a GPU it is copied while the program goes on."""
    tensor = torch.from_numpy(values)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


class Cut(nn.Module):
    """Truncates vectors to their first dimensions, with norm 1 again where they are compared by cosine."""

    def __init__(self, dimension: int, normalised: bool) -> None:
        super().__init__()
        self.dimension, self.normalised = dimension, normalised

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        """The features with shorter vectors, float32 [n, dimension]."""
        features["sentence_embedding"] = cut(features["sentence_embedding"], self.dimension, self.normalised)
        return features


def cut(vectors: Tensor, dimension: int, normalised: bool) -> Tensor:
    """The first dimensions of vectors [n, d], optionally with norm 1 again."""
    shorter = vectors[:, :dimension]
    return nn.functional.normalize(shorter, dim=-1) if normalised else shorter


def at_least_float32(tensor: Tensor) -> Tensor:
    """The tensor in float32, or in float64 if it is that already."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def list_products(queries: Tensor, documents: Tensor) -> Tensor:
    """float32 [B, M]: each of [B, d] queries with the vectors of its own list, of [B * M, d], outside autocast."""
    with torch.autocast(queries.device.type, enabled=False):
        own = documents.view(len(queries), -1, documents.shape[-1])
        return (own @ queries.float()[:, :, None]).squeeze(2)


def hold_in(network: nn.Module, dtype: torch.dtype) -> nn.Module:
    """The network with rounded weights; buffers, such as the frequencies of positions, stay as they are."""
    for weight in network.parameters():
        weight.data = weight.data.to(dtype)
    return network


def in_bfloat16(transformer: nn.Module) -> nn.Module:
    """A copy with bfloat16 weights."""
    return hold_in(deepcopy(transformer, _tokenizers(transformer)), torch.bfloat16)


def sharing(network: nn.Module) -> Any:
    """A copy with the same weights and buffers in other modules, which may compute in another way."""
    tensors = {id(tensor): tensor for tensor in [*network.parameters(), *network.buffers()]}
    return deepcopy(network, tensors | _tokenizers(network))


def _tokenizers(network: nn.Module) -> dict[int, Any]:
    """The parts that a copy shares with its original: tokenizers, which take long to copy, and states of a pass."""
    there = [item for part in network.modules() for item in vars(part).items()]
    return {id(value): value for name, value in there if name == "processor" or isinstance(value, Tensor)}


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Dropout off inside; every part's own mode is put back."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode
