"""How many tokens a model's files say that it reads."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hardneg.errors import ModelError
from hardneg.models.files import read_json

USUAL = 512
"""What is read by a model that names no bound, and by one that is not made for retrieval yet and could read more."""

_UNBOUNDED = 1 << 30
_OPTIONS = ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
# Models that count positions from behind the padding index on.
_AFTER_PADDING = {"roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "mpnet", "longformer", "data2vec-text"}
_AFTER_PADDING |= {"roberta-prelayernorm", "ibert", "xmod", "esm", "luke", "mluke"}


def transformer_options(place: Path) -> Mapping[str, Any]:
    """What sentence-transformers has written of a transformer; empty where there is nothing.

    Raises:
        ModelError: a file is not readable.
    """
    for name in _OPTIONS:
        path = place / f"sentence_{name}_config.json"
        if path.is_file() and (content := mapping(path)):
            return content
    return {}


def own_length(place: Path, kind: str, trained: bool) -> tuple[int, str]:
    """How many tokens of a text are read, and a remark where that is not what the files say ("" where it is).

    trained: the folder was saved by sentence-transformers; a bare transformer reads `USUAL` tokens at most.

    Source: `Transformer` of sentence-transformers 6, `__init__` and `preprocess`.

    Raises:
        ModelError: a file is not readable, or a length in it is no number.
    """
    said, bound = _said(place, kind) if trained else None, _positions(place)
    asked = said or min(_tokenizer_bound(place), bound + _padding_offset(place))
    if asked >= _UNBOUNDED:
        return USUAL, f"no bound of a text's length is told: {USUAL} tokens are read"
    if not trained and min(asked, bound) > USUAL:
        return USUAL, f"could read {min(asked, bound)} tokens: {USUAL} are read unless a length is given"
    remark = f"says {asked} tokens and has positions for {bound}: those are read" if said and asked > bound else ""
    return min(asked, bound), remark


def mapping(path: Path) -> dict[str, Any]:
    """A JSON file that holds names and values; none where there is no such file.

    Raises:
        ModelError: it holds something else.
    """
    content = read_json(path) if path.is_file() else {}
    if not isinstance(content, dict):
        raise ModelError(f"{path}: not names and values in JSON: copy the model again")
    return content


def _said(place: Path, kind: str) -> int | None:
    """What the options of sentence-transformers say, the most particular one first."""
    options = transformer_options(place)
    texts = _part(options, "processing_kwargs").get("text") or {}
    tokenizer = _part(options, "processor_kwargs") or _part(options, "tokenizer_args")
    names = ((texts, "max_length"), (options, f"{kind}_length"), (tokenizer, "model_max_length"))
    for content, name in (*names, (options, "max_seq_length")):
        if (value := content.get(name)) is not None:
            return _number(value, place, name)
    return None


def _part(options: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = options.get(name)
    return part if isinstance(part, dict) else {}


def _tokenizer_bound(place: Path) -> int:
    value = mapping(place / "tokenizer_config.json").get("model_max_length")
    return _UNBOUNDED if value is None else _number(value, place, "model_max_length")


def _positions(place: Path) -> int:
    most = mapping(place / "config.json").get("max_position_embeddings")
    if not isinstance(most, int) or most < 1:
        return _UNBOUNDED
    return most - _padding_offset(place)


def _padding_offset(place: Path) -> int:
    config = mapping(place / "config.json")
    padding = config.get("pad_token_id", 1)
    return int(padding) + 1 if config.get("model_type") in _AFTER_PADDING and isinstance(padding, int) else 0


def _number(value: Any, place: Path, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 1:
        raise ModelError(f"model {place}: {name} is {value!r}: must be a number of tokens")
    return min(int(value), _UNBOUNDED)
