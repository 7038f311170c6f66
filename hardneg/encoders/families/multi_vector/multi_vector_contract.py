"""The contract of a folder with a late-interaction model, in each known format."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardneg.encoders.open.configuration import own_length, transformer_options
from hardneg.encoders.open.contract import CONFIG, own_prompts
from hardneg.encoders.open.model_files import json_object, sides
from hardneg.encoders.spec import SIDES, Side
from hardneg.records.errors import ModelError

SIMILARITIES = ("maxsim", "meanmaxsim")
METADATA = "artifact.metadata"
STANFORD = "HF_ColBERT"
"""The architecture that a folder of Stanford's ColBERT names."""

_FILLED = 32  # by sentence-transformers for queries of older formats that set no length
_OLDER = [f"{side}_{name}" for side in SIDES for name in ("length", "prefix")]
_OLDER += ["query_expansion", "do_query_expansion", "attend_to_expansion_tokens", "attend_to_mask_tokens"]
_OLDER += ["skiplist_words"]


@dataclass(frozen=True)
class LateInteractionContract:
    """How a late-interaction model is used.

    form: `sentence-transformers`, `pylate` (its version 3 and before) or `stanford`; "" is a model that was trained for
        other tasks, whose token vectors can be used.
    prompts: all of them by name, with those of queries and documents. lengths: tokens that are read, by side.
    filled: the number of tokens that queries are padded to; 0: they are not.
    options: settings of modules that older formats keep outside of the modules' own files.
    """

    form: str
    similarity: str
    prompts: Mapping[str, str]
    lengths: Mapping[Side, int]
    filled: int
    options: Mapping[str, Any]


def read_late_interaction(folder: Path) -> LateInteractionContract:
    """Reads the contract from a model's folder.

    Source: `MultiVectorEncoder._parse_model_config` and `_maybe_load_stanford_metadata` of sentence-transformers 6.

    Raises:
        ModelError: a file is not readable, or a value has the wrong type.
    """
    config = json_object(folder / CONFIG)
    if STANFORD in (json_object(folder / "config.json").get("architectures") or ()):
        return _stanford(folder)
    model_type = config.get("model_type")
    form = {"MultiVectorEncoder": "sentence-transformers", "ColBERT": "pylate"}.get(str(model_type), "")
    options = {name: config[name] for name in _OLDER if name in config} if form else {}
    transformer = sides(folder)["query"][0]
    own = transformer_options(transformer) if form else {}
    older = options.get("query_expansion")
    if options and "query_expansion" not in options and options.get("do_query_expansion") is not False:
        older = {"strategy": "fixed", "length": options.get("query_length") or _FILLED}  # as PyLate fills queries
    expansion = own.get("query_expansion", older)
    filled = _count(expansion.get("length"), folder) if isinstance(expansion, dict) else 0
    lengths = {side: _length(folder, side, options) for side in SIDES}
    if filled:
        fixed = isinstance(expansion, dict) and expansion.get("strategy") == "fixed"
        lengths["query"] = filled if fixed else max(filled, lengths["query"])
    declared = config.get("similarity_fn_name")
    similarity = str(declared) if declared in SIMILARITIES else "maxsim"
    return LateInteractionContract(form, similarity, _prompts(config, folder), lengths, filled, options)


def _stanford(folder: Path) -> LateInteractionContract:
    metadata = json_object(folder / METADATA)
    filled = _count(metadata.get("query_maxlen") or _FILLED, folder)
    prompts = {
        "query": f"{metadata.get('query_token_id') or '[unused0]'} ",
        "document": f"{metadata.get('doc_token_id') or '[unused1]'} ",
    }
    length = metadata.get("doc_maxlen")
    document = own_length(folder, "document", trained=False)[0] if length is None else _count(length, folder)
    return LateInteractionContract(
        "stanford", "maxsim", prompts, {"query": filled, "document": document}, filled, metadata
    )


def _length(folder: Path, side: Side, options: Mapping[str, Any]) -> int:
    transformer, declared = sides(folder)[side][0], options.get(f"{side}_length")
    if declared is not None and transformer_options(transformer).get(f"{side}_length") is None:
        return _count(declared, folder)
    return own_length(transformer, side, (folder / "modules.json").exists())[0]


def _prompts(config: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """By name; PyLate's markers stand before the prompts of queries and documents."""
    prompts = own_prompts(config, folder)
    for side in SIDES:
        if (marker := config.get(f"{side}_prefix")) is not None:
            prompts[side] = str(marker) + prompts[side].removeprefix(str(marker))
    return prompts


def _count(value: Any, folder: Path) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    raise ModelError(f"model {folder}: {value!r} is no number of tokens: copy the model again")
