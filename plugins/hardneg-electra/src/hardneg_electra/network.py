"""ELECTRA's discriminator with a linear layer on the first token, built from sentence-transformers modules.

Since all three modules are sentence-transformers' own, `CrossEncoder(folder)` opens a saved network anywhere.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from hardneg.plugin import errors, resolving, runtime

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Dense, Transformer

_DISCRIMINATORS = {"ElectraForPreTraining", "ElectraModel"}
_MODULES = ["Transformer", "Pooling", "Dense"]
_LOCAL = {"local_files_only": True, "trust_remote_code": False}


def open_network(folder: Path, length: int, seed: int) -> "CrossEncoder":
    """Open the network in a folder on the CPU, with float32 weights, in evaluation mode.

    A discriminator gets a new linear layer, initialised with `seed`; a saved reranker keeps its own. `length` is the
    maximum number of tokens per pair.

    Raises:
        ModelError: the folder has no ELECTRA network, or the network reads too few tokens or does not mark segments.
    """
    with resolving.opening("electra:", folder):
        network = _saved(folder) if (folder / "modules.json").exists() else _fresh(folder, seed)
    _check_segments(network[0], folder)
    most = network[0].model.config.max_position_embeddings
    if most < length:
        raise errors.ModelError(f"electra: {folder} reads at most {most} tokens, but length is {length}; lower length")
    network.max_seq_length = length
    return network.eval()


def _fresh(folder: Path, seed: int) -> "CrossEncoder":
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    architectures = set(config.get("architectures") or ["ElectraModel"])
    if config.get("model_type") != "electra" or not architectures <= _DISCRIMINATORS:
        names = ", ".join(sorted(architectures))
        raise errors.ModelError(
            f"electra: {folder} is not an ELECTRA discriminator but {names}; use reranker cross-encoder for it"
        )
    transformer = Transformer(
        str(folder), model_kwargs={"dtype": torch.float32, **_LOCAL}, processor_kwargs=_LOCAL, config_kwargs=_LOCAL
    )
    parts = [transformer, Pooling(transformer.get_embedding_dimension(), "cls"), _layer(transformer, seed)]
    return CrossEncoder(modules=parts, device="cpu", activation_fn=nn.Sigmoid())


def _layer(transformer: "Transformer", seed: int) -> "Dense":
    """Create a linear layer with one output, initialised as in transformers."""
    from sentence_transformers.base.modules import Dense

    width, spread = transformer.get_embedding_dimension(), transformer.model.config.initializer_range
    layer = Dense(width, 1, activation_function=nn.Identity(), module_output_name="scores")
    drawn = runtime.generator(seed, "electra", "linear layer").normal(0.0, spread, (1, width))
    with torch.no_grad():
        layer.linear.weight.copy_(torch.from_numpy(drawn))
        layer.linear.bias.zero_()
    return layer


def _saved(folder: Path) -> "CrossEncoder":
    from sentence_transformers import CrossEncoder

    named = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    classes = [str(module["type"]) for module in named]
    library = [name.rpartition(".")[2] for name in classes if name.startswith("sentence_transformers.")]
    if library != _MODULES or len(classes) != len(library):  # the folder's own code is never run
        raise errors.ModelError(
            f"electra: {folder} has modules {', '.join(classes)}, so it was not saved by this reranker; use another"
        )
    options: dict[str, Any] = {"model_kwargs": {"dtype": torch.float32}, "activation_fn": nn.Sigmoid()}
    return CrossEncoder(str(folder), device="cpu", **_LOCAL, **options)


def _check_segments(transformer: "Transformer", folder: Path) -> None:
    """Raise ModelError unless the tokens of passage and query have different token types."""
    types = transformer.tokenizer("a", "a").get("token_type_ids", [])
    if 1 not in types or transformer.model.config.type_vocab_size < 2:
        raise errors.ModelError(f"electra: {folder} does not mark the segments of a pair; use ELECTRA's tokenizer")
