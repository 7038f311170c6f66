"""Whether what was loaded is the model that the files mean: its tokenizer, all of its layers, its activations."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from hardneg.errors import ModelError
from hardneg.models.headers import check_ids
from hardneg.models.spec import KINDS, FullSpec
from hardneg.models.weights import load_options

_NUMBER = re.compile(r"\.\d+\.")
_UNUSED = re.compile(r"(^|\.)(pooler|position_ids|token_type_ids)(\.|$)")  # an encoder's vectors do without them
_TOLD = 3
_OUTPUT = ("method", "method_output_name")


def check_encoder(encoder: Any, spec: FullSpec) -> None:
    """Refuses a first module that does not read plain text, or not as much of it as the spec says.

    Raises:
        ModelError: it is no transformer for texts, or has fewer positions.
    """
    if getattr(encoder, "tokenizer", None) is None or getattr(encoder, "model", None) is None:
        raise ModelError(f"model {spec.name!r} does not begin with a transformer: use another model")
    kinds = getattr(encoder, "modality_config", {"text": {}})
    outputs = [[kinds[kind].get(name) for name in _OUTPUT] for kind in ("text", "message") if kind in kinds]
    if "text" not in kinds or any(output != outputs[0] for output in outputs):
        raise ModelError(f"model {spec.name!r} is not made for plain text: use another model")
    _check_processing(encoder.processing_kwargs, spec.name)
    most = positions(encoder.model)
    for kind in KINDS:
        if most is not None and (asked := spec.length(kind)) > most:
            raise ModelError(f"model {spec.name!r} reads at most {most} tokens: {kind}_length is {asked}, lower it")


def _check_processing(options: Mapping[str, Any], name: str) -> None:
    """Refuses options of the tokenizer's calls that are not read here; a text's length and a template's options are."""
    asked = [(part, option) for part in options if part != "chat_template" for option in options[part]]
    if found := [f"{part}.{option}" for part, option in asked if (part, option) != ("text", "max_length")]:
        told = f"processing_kwargs {', '.join(found)}"
        raise ModelError(f"model {name!r}: has {told}, which are not known here: use another model")


def positions(model: Any) -> int | None:
    """How many tokens a transformer has positions for; None where there is no such bound."""
    most = getattr(model.config, "max_position_embeddings", None)
    if most is None or most < 1:
        return None
    for part in model.modules():  # RoBERTa and its kin count positions from the padding index on
        first = getattr(part, "padding_idx", None)
        if isinstance(first, int) and isinstance(getattr(part, "position_embeddings", None), nn.Embedding):
            return int(most) - first - 1
    return int(most)


def check_tokenizer(transformer: Any, name: str) -> None:
    """Refuses a tokenizer that knows no words, or ids that the transformer has no embeddings for.

    Raises:
        ModelError: the tokenizer and the transformer do not belong together.
    """
    ids, special = transformer.tokenizer.get_vocab().values(), set(transformer.tokenizer.all_special_ids)
    if not set(ids) - special:
        raise ModelError(f"model {name!r}: no tokenizer there: copy the model again, with its tokenizer's files")
    rows = transformer.model.get_input_embeddings().num_embeddings
    check_ids(max(ids), rows, repr(name))


def check_weights(model: Any, place: Path, name: str) -> None:
    """Refuses weights that lack layers, which would be drawn at random, or that have layers of another model.

    Heads that are not used, such as poolers and those of language models, may lack or be too many.

    Raises:
        ModelError: names the first of them.
    """
    _, found = type(model).from_pretrained(
        str(place),
        config=model.config,
        output_loading_info=True,
        device_map="meta",
        local_files_only=True,
        **load_options(place),
    )
    missing = [key for key in found["missing_keys"] if not _UNUSED.search(key)]
    if missing:
        raise ModelError(f"model {name!r}: its weights lack {_first(missing)}: copy the model again")
    own = {_stem(key) for key in model.state_dict()} - {None}
    if surplus := [key for key in found["unexpected_keys"] if not _UNUSED.search(key) and _stem(key) in own]:
        raise ModelError(
            f"model {name!r}: its weights have {_first(surplus)}, which its config.json knows nothing of: copy it again"
        )


def _stem(key: str) -> str | None:
    """The list of layers that a weight is in, without the number; None where it is in none."""
    found = _NUMBER.search(key)
    return key[: found.start()] if found else None


def _first(keys: Iterable[str]) -> str:
    ordered = sorted(keys)
    more = f" and {len(ordered) - _TOLD} more" if len(ordered) > _TOLD else ""
    return ", ".join(ordered[:_TOLD]) + more
