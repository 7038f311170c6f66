"""The modules of a sparse encoder, read from a folder or added to a transformer."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from hardneg.plugin import errors, loading, model_files, model_specs, token_files, towers

if TYPE_CHECKING:
    from sentence_transformers import SparseEncoder

    from hardneg.plugin import resolving
    from hardneg_sparse.family import Splade

_SCALE = 1 / 8  # so small that GELU is nearly linear; the norm after it removes the scale
_BAR = 4.5
_CHUNK = 64  # tokens whose weights are computed at once without gradients


def load_module(
    options: "Splade", model: "resolving.ResolvedModel", device: str | None, precision: Any
) -> "SparseEncoder":
    """Load a model as a sentence-transformers `SparseEncoder` in evaluation mode, with the given options.

    precision: precision for encoding; None loads the model for training.

    Raises ModelError if the files are not a complete model, or the model does not support the options or the spec.
    """
    from sentence_transformers import SparseEncoder

    spec, folder, contract = model.full, model.files.path, model.contract
    whole, most = _own(folder, spec) if options.saved(model.files) else (_new(folder, spec), None)
    for transformer in towers.transformers(whole):
        if hasattr(transformer, "model"):  # else a table of query terms
            towers.hold_in(transformer.model, loading.weights_dtype(spec, precision))
    assembly = loading.assembled(_arranged(options, spec, whole), spec, device, SparseEncoder)
    module: Any = loading.with_prompts(assembly, contract.prompts, contract.default_prompt_name)
    module.max_active_dims = options.max_terms or most
    return module


def terms_of(module: Any) -> Sequence[str]:
    """Return the word of each term, in vocabulary order; `[number]` for terms that the tokenizer lacks."""
    tokenizer, width = towers.route(module, "document")[0].tokenizer, int(module.get_embedding_dimension())
    words = tokenizer.convert_ids_to_tokens(range(min(width, len(tokenizer))))
    return [token or f"[{number}]" for number, token in enumerate(words)] + [
        f"[{number}]" for number in range(len(words), width)
    ]


def _own(folder: Path, spec: model_specs.FullSpec) -> tuple[nn.Module, int | None]:
    """Load the modules of the folder, and the number of largest weights that it keeps per text."""
    from sentence_transformers import SparseEncoder

    for path, class_name in model_files.read_folder(folder).modules.items():
        if class_name == "SparseStaticEmbedding" and (
            outside := model_files.read_json(path / "config.json").get("path")
        ):
            raise errors.ModelError(
                f"model {path}: its weights are in another folder, {outside}; save them in the model's folder"
            )
    module = loading.library_model(SparseEncoder, folder)
    whole = nn.Sequential(*towers.folded(list(module.children()), spec.name))
    transformer, *rest = towers.route(whole, "document")
    names = [type(part).__name__ for part in rest]
    if names not in (["SpladePooling"], ["SpladePooling", "Normalize"]):
        problem = f"only SpladePooling is supported after the transformer, not {', '.join(names)}"
        raise errors.ModelError(f"model {spec.name!r}: {problem}; use another model")
    loading.check_encoder(transformer, spec)
    if transformer.model.get_output_embeddings() is None:
        raise errors.ModelError(f"model {spec.name!r}: its masked-language-model head is missing; copy the model again")
    loading.check_tokenizer(transformer.tokenizer, transformer.model.get_input_embeddings().num_embeddings, spec.name)
    loading.check_weights(transformer.model, model_files.read_folder(folder).sides["document"][0], spec.name)
    return whole, module.max_active_dims


def _new(folder: Path, spec: model_specs.FullSpec) -> nn.Module:
    """Load the folder's transformer with a masked-language-model head, its own or a new one, and SPLADE's pooling."""
    from sentence_transformers.sparse_encoder.modules import SpladePooling

    folders = [
        path for path, class_name in model_files.read_folder(folder).modules.items() if class_name == "Transformer"
    ]
    if len(folders) != 1:
        raise errors.ModelError(f"model {spec.name!r}: it has {len(folders)} transformers; use a model with one")
    weights = loading.load_kwargs(folder)
    transformer = loading.library_transformer(folders[0], weights, {}, transformer_task="fill-mask")
    loading.check_encoder(transformer, spec)
    loading.check_tokenizer(transformer.tokenizer, transformer.model.get_input_embeddings().num_embeddings, spec.name)
    _with_head(transformer.model, folders[0], spec.name)
    return nn.Sequential(transformer, SpladePooling(embedding_dimension=transformer.model.config.vocab_size))


def _with_head(model: Any, folder: Path, name: str) -> None:
    """Check that the network is complete, and initialise its head if the files have none."""
    missing, _ = loading.differences(model, folder)
    body = f"{model.base_model_prefix}."
    lacking = {key for key in missing if not key.startswith(body)}
    outside = {key for key, _ in model.named_parameters() if not key.startswith(body)}
    if not lacking or lacking < outside:
        return loading.check_weights(model, folder, name)
    loading.check_missing(set(missing) - lacking, name)
    _new_head(model, lacking, name)


def _arranged(options: "Splade", spec: model_specs.FullSpec, whole: nn.Module) -> list[nn.Module]:
    """Return the modules with the pooling, queries and normalisation that options and spec require."""
    documents = _pooled(options, spec, towers.route(whole, "document"))
    queries = towers.route(whole, "query")
    if options.queries == "terms" or (options.queries == "own" and not hasattr(queries[0], "model")):
        ours = queries[0] if not hasattr(queries[0], "model") else None
        return [towers.twins([_query_terms(documents[0].tokenizer, spec, ours), *documents[2:]], documents)]
    if not hasattr(queries[0], "model"):
        raise errors.ModelError(f"model {spec.name!r} has no query encoder; omit encoder.queries, or use another model")
    if towers.has_twins(whole):
        return [towers.twins(_pooled(options, spec, queries), documents)]
    return [towers.twins(towers.with_own_queries(documents), documents)] if spec.twins else documents


def _pooled(options: "Splade", spec: model_specs.FullSpec, parts: Sequence[Any]) -> list[nn.Module]:
    from sentence_transformers.base.modules import Normalize
    from sentence_transformers.sparse_encoder.modules import SpladePooling

    transformer, own = parts[0], parts[1]
    pooling = SpladePooling(
        pooling_strategy=own.pooling_strategy if options.pooling == "own" else options.pooling,
        activation_function=own.activation_function if options.activation == "own" else options.activation,
        embedding_dimension=transformer.model.config.vocab_size,
        chunk_size=_CHUNK,
    )
    return [transformer, pooling, *([Normalize()] if spec.similarity == "cosine" else [])]


def _new_head(model: Any, missing: set[str], name: str) -> None:
    """Initialise a head that is missing from the model's files, using their other weights.

    The head is BERT's: a layer, an activation, a norm, and the inner product with each term's embedding. The layer is
    initialised to an eighth of the identity, and the norm to no effect of its own. A term's logit is then the inner
    product of its embedding with a token's output, normalised to mean 0 and variance 1. The bias of each term is -4.5
    times the mean norm of the embeddings, which is 4.5 standard deviations of the product with a random vector. With
    all-MiniLM-L6-v2, about one term in a hundred has a weight above 0.

    Raises ModelError if the head has another structure.
    """
    output, inputs = model.get_output_embeddings(), model.get_input_embeddings().weight
    if output is None or output.weight is not inputs or getattr(output, "bias", None) is None:
        raise errors.ModelError(
            f"model {name!r} has no masked-language-model head and cannot get a new one; use another model"
        )
    with torch.no_grad():
        for path, module in model.named_modules():
            if isinstance(module, nn.Linear) and module is not output and f"{path}.weight" in missing:
                module.weight.copy_(_SCALE * torch.eye(*module.weight.shape))
                if module.bias is not None:
                    module.bias.zero_()
            elif isinstance(module, nn.LayerNorm) and f"{path}.weight" in missing:
                module.reset_parameters()
        output.bias.fill_(-_BAR * inputs.norm(dim=1).mean())


def _query_terms(tokenizer: Any, spec: model_specs.FullSpec, own: Any = None) -> nn.Module:
    """Create a sentence-transformers module with one weight per query term: those of `own`, or 1 each.

    Its tokenizer adds no special tokens and truncates to the query length in any program that opens the model.
    """
    from sentence_transformers.sparse_encoder.modules import SparseStaticEmbedding

    weight = torch.ones(len(tokenizer)) if own is None else own.weight.detach().clone()
    frozen = False if own is None else own.frozen
    tokenizer = tokenizer if own is None else own.tokenizer
    options = {name: getattr(tokenizer, name) for name in ("padding_side", "truncation_side")}
    options |= {"model_max_length": spec.query_length, **tokenizer.special_tokens_map}
    plain = token_files.plain_tokenizer(tokenizer.backend_tokenizer, **options)
    module: nn.Module = SparseStaticEmbedding(plain, weight, frozen)
    return module
