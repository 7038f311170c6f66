"""Checks that a model is complete and fits its configuration, by the headers of its files and by what was loaded."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hardneg.encoders.open.model_files import SAFE, json_object, load_options
from hardneg.encoders.spec import SIDES, FullSpec
from hardneg.records.errors import ModelError

_LAYER = re.compile(r"^(.*?\b(?:layers?|h|blocks?))\.(\d+)\.")
_EMBEDDINGS = re.compile(r"(^|\.)(word_embeddings|embed_tokens|tok_embeddings|wte)\.weight$")
_NUMBER = re.compile(r"\.\d+\.")
_UNUSED = re.compile(r"(^|\.)(pooler|position_ids|token_type_ids)(\.|$)")  # an encoder's vectors do without them
_SHOWN = 3
_LEAST = 2
_OUTPUT = ("method", "method_output_name")

Shapes = Mapping[str, tuple[int, ...]]


def check_headers(folder: Path) -> None:
    """Refuses a transformer whose files lack layers, have too many, or have fewer embeddings than the tokenizer ids.

    Files without a plain answer, such as those of several towers or other formats, are checked when they are opened.
    """
    shapes = read_shapes(folder)
    _check_layers(folder, shapes, json_object(folder / "config.json").get("num_hidden_layers"))
    rows = {shape[0] for name, shape in shapes.items() if _EMBEDDINGS.search(name) and len(shape) == 2}
    highest = _highest_id(json_object(folder / "tokenizer.json"))
    if len(rows) == 1 and highest is not None:
        check_ids(highest, min(rows), f"{folder}")


def check_ids(highest: int, rows: int, name: str) -> None:
    """Refuses a tokenizer whose highest id has no row among a transformer's embeddings."""
    if highest >= rows:
        raise ModelError(
            f"model {name}: its tokenizer has ids up to {highest}, the transformer embeddings for {rows}: "
            "they do not belong together, copy the model again"
        )


def read_shapes(folder: Path) -> Shapes:
    """The shape of every tensor in a folder's safetensors files, by name; none for other formats.

    Raises:
        ModelError: a file is cut off or damaged.
    """
    from safetensors import SafetensorError, safe_open

    shapes: dict[str, tuple[int, ...]] = {}
    for path in sorted(folder.glob(SAFE)):
        try:
            with safe_open(path, framework="np") as file:
                shapes |= {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise ModelError(f"{path}: not a whole safetensors file ({error}): copy the model again") from error
    return shapes


def _check_layers(folder: Path, shapes: Shapes, count: Any) -> None:
    stacks: defaultdict[str, set[int]] = defaultdict(set)
    for match in filter(None, map(_LAYER.match, shapes)):
        stacks[match[1]].add(int(match[2]))
    if len(stacks) != 1 or not isinstance(count, int):
        return
    (name, have), want = next(iter(stacks.items())), set(range(count))
    if missing := sorted(want - have):
        raise ModelError(f"model {folder}: its weights lack {name}.{missing[0]}: copy the model again")
    if surplus := sorted(have - want):
        raise ModelError(
            f"model {folder}: its weights have {name}.{surplus[0]}, "
            "which its config.json knows nothing of: copy it again"
        )


def _highest_id(tokenizer: Mapping[str, Any]) -> int | None:
    """The highest id of a `tokenizer.json` whose vocabulary is a table of ids or a list."""
    try:
        words = (tokenizer.get("model") or {}).get("vocab")
        added = [int(token["id"]) for token in tokenizer.get("added_tokens") or ()]
        if isinstance(words, dict):
            return max([*words.values(), *added], default=None)
        return max([len(words) - 1, *added]) if isinstance(words, list) else None
    except (AttributeError, LookupError, TypeError, ValueError):  # opening it reports the problem
        return None


def check_encoder(encoder: Any, spec: FullSpec) -> None:
    """Refuses a first module that does not read plain text, or fewer tokens of it than the spec sets."""
    if getattr(encoder, "tokenizer", None) is None or getattr(encoder, "model", None) is None:
        raise ModelError(f"model {spec.name!r} does not begin with a transformer: use another model")
    modalities = getattr(encoder, "modality_config", {"text": {}})
    outputs = [
        [modalities[modality].get(name) for name in _OUTPUT]
        for modality in ("text", "message")
        if modality in modalities
    ]
    if "text" not in modalities or any(output != outputs[0] for output in outputs):
        raise ModelError(f"model {spec.name!r} does not read plain text: use another model")
    parts = {part: values for part, values in encoder.processing_kwargs.items() if part != "chat_template"}
    options = [f"{part}.{name}" for part, values in parts.items() for name in values]
    if unknown := [name for name in options if name != "text.max_length"]:
        problem = f"has processing_kwargs {', '.join(unknown)}, which are not supported"
        raise ModelError(f"model {spec.name!r}: {problem}: use another model")
    most = positions(encoder.model)
    for side in SIDES:
        if (length := spec.length(side)) < _LEAST:
            raise ModelError(f"model {spec.name!r} declares that it reads {length} token of a text: set {side}_length")
        if most is not None and length > most:
            raise ModelError(f"model {spec.name!r} reads at most {most} tokens: {side}_length is {length}, lower it")


def positions(model: Any) -> int | None:
    """The number of positions of a transformer; None where it has no bound."""
    most = getattr(model.config, "max_position_embeddings", None)
    if most is None or most < 1:
        return None
    from torch import nn

    for part in model.modules():  # RoBERTa and similar networks count positions from the padding index on
        first = getattr(part, "padding_idx", None)
        if isinstance(first, int) and isinstance(getattr(part, "position_embeddings", None), nn.Embedding):
            return int(most) - first - 1
    return int(most)


def check_tokenizer(transformer: Any, name: str) -> None:
    """Refuses a tokenizer without words, or with ids that the transformer has no embeddings for."""
    ids, special = transformer.tokenizer.get_vocab().values(), set(transformer.tokenizer.all_special_ids)
    if not set(ids) - special:
        raise ModelError(f"model {name!r}: no tokenizer there: copy the model again, with its tokenizer's files")
    rows = transformer.model.get_input_embeddings().num_embeddings
    check_ids(max(ids), rows, repr(name))


def check_weights(model: Any, folder: Path, name: str) -> None:
    """Refuses weights that lack layers, which would be drawn at random, or that have layers of another model.

    Unused heads, such as poolers and those of language models, may be missing or extra.
    """
    missing, unexpected = differences(model, folder)
    check_missing(missing, name)
    own = {_stem(key) for key in model.state_dict()} - {None}
    if surplus := [key for key in unexpected if _stem(key) in own]:
        raise ModelError(
            f"model {name!r}: its weights have {_first(surplus)}, which its config.json knows nothing of: copy it again"
        )


def differences(model: Any, folder: Path, unused: re.Pattern[str] | None = _UNUSED) -> tuple[list[str], list[str]]:
    """The weights of a network that its files lack, and those in its files that it lacks, without `unused` ones."""
    _, info = type(model).from_pretrained(
        str(folder),
        config=model.config,
        output_loading_info=True,
        device_map="meta",
        local_files_only=True,
        **load_options(folder),
    )
    missing, unexpected = (
        [key for key in info[name] if unused is None or not unused.search(key)]
        for name in ("missing_keys", "unexpected_keys")
    )
    return missing, unexpected


def check_missing(missing: Iterable[str], name: str) -> None:
    """Refuses a model whose files lack weights."""
    if lacking := list(missing):
        raise ModelError(f"model {name!r}: its weights lack {_first(lacking)}: copy the model again")


def _stem(key: str) -> str | None:
    """The list of layers that a weight belongs to, without the number; None where there is none."""
    match = _NUMBER.search(key)
    return key[: match.start()] if match else None


def _first(keys: Iterable[str]) -> str:
    ordered = sorted(keys)
    more = f" and {len(ordered) - _SHOWN} more" if len(ordered) > _SHOWN else ""
    return ", ".join(ordered[:_SHOWN]) + more
