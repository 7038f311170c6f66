"""Loads a `MultiVectorEncoder` of sentence-transformers from a folder of any format, by a spec."""

import string
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from hardneg.encoders.families.adapters.layers import put_adapters
from hardneg.encoders.families.multi_vector.late_interaction import read_late_interaction
from hardneg.encoders.open.loading import (
    assembled,
    check_sound,
    hold_in,
    library_model,
    read_modules,
    weights_dtype,
    with_prompts,
)
from hardneg.encoders.spec import SIDES, FullSpec, Precision
from hardneg.encoders.towers import has_twins, route, transformers, twins
from hardneg.records.errors import ModelError
from hardneg.runtime.seeding import derive_seed

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from hardneg.encoders.families.multi_vector.late_interaction import LateInteraction
    from hardneg.encoders.open.resolved import ResolvedModel

_SCORED = "MultiVectorMask"
_TOKENS = "token_embeddings"
_KNOWN = {"Dense", _SCORED, "Normalize"}


def load_multi_vector(
    options: "LateInteraction", model: "ResolvedModel", device: str | None, precision: Precision | None
) -> "SentenceTransformer":
    """The model in evaluation mode.

    precision: that of the encoding; None is to train.

    Raises:
        ModelError: the files are not those of one whole model, or it does not support what the spec sets.
    """
    from sentence_transformers import MultiVectorEncoder

    spec, folder = model.full, model.path
    interaction = read_late_interaction(folder)
    if interaction.form:  # sentence-transformers reads the older forms too
        modules = list(library_model(MultiVectorEncoder, folder, torch.float32).children())
    else:  # the transformer of a model that was trained for other things, and nothing after it
        modules = route(nn.Sequential(*read_modules(folder, torch.float32)), "document")[:1]
    check_sound(modules, folder, spec)
    _check_known(modules, spec)
    if spec.adapter is not None:
        put_adapters(nn.Sequential(*modules), spec, model.location, learns=precision is None)
    whole = nn.Sequential(*modules)
    if has_twins(whole):
        modules = [twins(*(_one_side(route(whole, side), options) for side in SIDES))]
    else:
        modules = _one_side(modules, options)
    whole = nn.Sequential(*modules)
    queries = route(whole, "query")[0]
    expansion, queries.query_expansion = queries.query_expansion or {}, None  # lengths are checked against it
    for first in transformers(whole):
        hold_in(first.model, weights_dtype(spec, precision))
    module = with_prompts(assembled(modules, spec, device, MultiVectorEncoder), interaction.prompts, None)
    if filled := options.filled(interaction):
        strategy = "fixed" if filled == spec.query_length else "min"
        queries.query_expansion = {**expansion, "strategy": strategy, "length": filled}
    return module


def _check_known(modules: list[nn.Module], spec: FullSpec) -> None:
    """Refuses unknown modules."""
    whole = nn.Sequential(*modules)
    for side in SIDES:
        rest = route(whole, side)[1:]
        if others := [name for part in rest if (name := type(part).__name__) not in _KNOWN]:
            raise ModelError(f"model {spec.name!r}: has {', '.join(others)} after its transformer: use another model")
        names = [getattr(part, name, None) for part in rest for name in ("module_input_name", "module_output_name")]
        if odd := [name for name in names if name not in (None, _TOKENS)]:
            raise ModelError(f"model {spec.name!r}: its modules give {odd[0]!r}, not {_TOKENS}: use another model")
        if any(getattr(part, "keep_only_token_ids", None) for part in rest):
            raise ModelError(f"model {spec.name!r} scores tokens of images alone: use another model")


def _one_side(parts: list[Any], options: "LateInteraction") -> list[nn.Module]:
    """The transformer, the projection of its vectors, the mask of scored tokens, and a normalisation."""
    from sentence_transformers.base.modules import Normalize
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    transformer, *rest = parts
    of_type = {name: [part for part in rest if type(part).__name__ == name] for name in _KNOWN}
    heads, masks, norms = of_type["Dense"], of_type[_SCORED], of_type["Normalize"]
    if options.dimension is not None:
        heads = [_projection(transformer, options.dimension)]
    words = list(string.punctuation) if options.skiplist == "punctuation" else []
    masks = masks if masks and options.skiplist == "own" else [MultiVectorMask(skiplist_words=words)]
    normalised = options.normalise if options.normalise is not None else bool(norms) or len(parts) == 1
    return [transformer, *heads, *masks, *([Normalize(module_input_name="token_embeddings")] if normalised else [])]


def _projection(transformer: Any, dimension: int) -> nn.Module:
    """A linear layer without bias whose rows are drawn at random and then made orthonormal.

    Inner products of what it makes of token vectors are those of the vectors times a constant, but for noise: so a
    model ranks about as well with it as without it before any training.

    Source: the layer is that of Khattab and Zaharia, ColBERT (SIGIR 2020), section 3.2.
    """
    from sentence_transformers.base.modules import Dense

    size = int(transformer.get_embedding_dimension())
    if dimension > size:
        raise ModelError(f"encoder.dimension is {dimension}: token vectors have {size} dimensions, give fewer")
    draws = torch.Generator().manual_seed(derive_seed(0, "token projection", size, dimension) >> 1)
    weight = torch.linalg.qr(torch.randn(size, dimension, generator=draws)).Q.T.contiguous()
    dense: nn.Module = Dense(
        size,
        dimension,
        bias=False,
        activation_function=nn.Identity(),
        init_weight=weight,
        module_input_name="token_embeddings",
    )
    return dense
