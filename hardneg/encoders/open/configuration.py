"""Reads a model's configuration without opening it: the tokens that it reads, and the shape that decides its size."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hardneg.encoders.open.model_files import TRANSFORMERS, WAYS_ROUND, json_object, module_folders
from hardneg.encoders.open.source import network_folder
from hardneg.records.errors import ModelError

_log = logging.getLogger(__name__)
USUAL = 512
"""Tokens read by a model without a maximum length, and at most by one that is not trained for retrieval yet."""

UNBOUNDED = 1 << 30
"""The length of texts of which all tokens are read."""
_OPTIONS = ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
# Models that count positions from after the padding index on.
_AFTER_PADDING = {"roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "mpnet", "longformer", "data2vec-text"}
_AFTER_PADDING |= {"roberta-prelayernorm", "ibert", "xmod", "esm", "luke", "mluke"}


def transformer_options(folder: Path) -> Mapping[str, Any]:
    """The options of a transformer that sentence-transformers saved; empty where there are none."""
    for name in _OPTIONS:
        path = folder / f"sentence_{name}_config.json"
        if path.is_file() and (content := json_object(path)):
            return content
    return {}


def own_length(folder: Path, side: str, trained: bool) -> tuple[int, str]:
    """The number of tokens read of a text, and a remark where the files declare another ("" otherwise).

    trained: the folder was saved by sentence-transformers; a bare transformer reads `USUAL` tokens at most.

    Source: `Transformer` of sentence-transformers 6, `__init__` and `preprocess`.
    """
    declared = _declared_length(folder, side) if trained else None
    config = json_object(network_folder(folder) / "config.json")
    positions, padding = config.get("max_position_embeddings"), config.get("pad_token_id", 1)
    shifted = str(config.get("model_type")) in _AFTER_PADDING and isinstance(padding, int)
    offset = int(padding) + 1 if shifted else 0
    bound = positions - offset if isinstance(positions, int) and positions > 0 else UNBOUNDED
    length = declared
    if length is None:
        most = json_object(folder / "tokenizer_config.json").get("model_max_length")
        length = min(UNBOUNDED if most is None else _number(most, folder, "model_max_length"), bound + offset)
    if length >= UNBOUNDED:
        return USUAL, f"no maximum length is declared: {USUAL} tokens are read"
    if not trained and min(length, bound) > USUAL:
        return USUAL, f"could read {min(length, bound)} tokens: {USUAL} are read unless a length is given"
    if declared and length > bound:
        return bound, f"declares {length} tokens and has positions for {bound}: those are read"
    return min(length, bound), ""


def own_code(folder: Path) -> dict[str, bool]:
    """The code of its own that a model names for transformers, and whether its vectors may depend on each.

    They do not on code that turns causal attention off, where the configuration says that too.
    """
    code: dict[str, bool] = {}
    for network in (network_folder(path) for path, name in module_folders(folder).items() if name in TRANSFORMERS):
        config, tokenizer = (json_object(network / name) for name in ("config.json", "tokenizer_config.json"))
        causal = config.get("is_causal") is not False
        for auto_map, decides in ((config.get("auto_map"), causal), (tokenizer.get("auto_map"), True)):
            named = auto_map.values() if isinstance(auto_map, dict) else [auto_map]
            flat = (name for each in named for name in (each if isinstance(each, list) else [each]))
            code |= {str(name): decides for name in flat if name}
    return code


@cache
def warn(message: str) -> None:
    """Warns, of the same only once."""
    _log.warning(message)


def check_code(name: str, code: Mapping[str, bool], setting: str | None) -> None:
    """Refuses a model whose vectors may depend on code of its own, unless `setting` is native; warns of other code."""
    if not code:
        return
    named = f"model {name!r} names code of its own ({', '.join(code)}), which is not run"
    if any(code.values()) and setting != "native":
        advice = f"set code: native of the model if transformers' own code computes the same; else {WAYS_ROUND}"
        raise ModelError(f"{named}: {advice}")
    warn(f"{named}: transformers' own is")


def tokens_read(length: int) -> str:
    """The number of tokens read of a text, in words."""
    return "all" if length >= UNBOUNDED else str(length)


def _declared_length(folder: Path, side: str) -> int | None:
    """The length in the options of sentence-transformers, the most specific one first."""
    options = transformer_options(folder)
    texts = _part(options, "processing_kwargs").get("text") or {}
    tokenizer = _part(options, "processor_kwargs") or _part(options, "tokenizer_args")
    names = ((texts, "max_length"), (options, f"{side}_length"), (tokenizer, "model_max_length"))
    for content, name in (*names, (options, "max_seq_length")):
        if (value := content.get(name)) is not None:
            return _number(value, folder, name)
    return None


def _part(options: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = options.get(name)
    return part if isinstance(part, dict) else {}


def _number(value: Any, folder: Path, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 1:
        raise ModelError(f"model {folder}: {name} is {value!r}: must be a number of tokens")
    return min(int(value), UNBOUNDED)


@dataclass(frozen=True)
class Shape:
    """What decides a model's size: hidden size, layers, bytes of its weights, and the size of a vector where known."""

    hidden: int = 768
    layers: int = 12
    weights: int = 440_000_000
    vector: int | None = None


BASE = Shape()
LARGE = Shape(1024, 24, 1_340_000_000)
