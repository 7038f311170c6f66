"""What the headers of weight files tell without a weight being read: whether a transformer's layers are all there."""

import json
import re
import struct
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hardneg.errors import ModelError
from hardneg.models.lengths import mapping

_LAYER = re.compile(r"^(.*?\b(?:layers?|h|blocks?))\.(\d+)\.")
_EMBEDDINGS = re.compile(r"(^|\.)(word_embeddings|embed_tokens|tok_embeddings|wte)\.weight$")
_LENGTH = struct.Struct("<Q")
_LONGEST = 100 << 20  # what the format allows a header to have

Shapes = Mapping[str, tuple[int, ...]]


def check_headers(folder: Path) -> None:
    """Refuses a transformer whose files lack layers, have too many, or have fewer embeddings than the tokenizer ids.

    What the files do not tell plainly, as those of several towers and of other formats, is left to the opening.

    Raises:
        ModelError: names the layers, or the ids.
    """
    shapes = read_shapes(folder)
    _check_layers(folder, shapes, mapping(folder / "config.json").get("num_hidden_layers"))
    rows = {shape[0] for name, shape in shapes.items() if _EMBEDDINGS.search(name) and len(shape) == 2}
    highest = _highest_id(mapping(folder / "tokenizer.json"))
    if len(rows) == 1 and highest is not None:
        check_ids(highest, min(rows), f"{folder}")


def check_ids(highest: int, rows: int, name: str) -> None:
    """Refuses a tokenizer whose highest id has no row among a transformer's embeddings.

    Raises:
        ModelError: they do not belong together.
    """
    if highest >= rows:
        raise ModelError(
            f"model {name}: its tokenizer has ids up to {highest}, the transformer embeddings for {rows}: "
            "they do not belong together, copy the model again"
        )


def read_shapes(folder: Path) -> Shapes:
    """The shape of every tensor in a folder's safetensors files, by name; none for other formats.

    Raises:
        ModelError: a file's header is damaged.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with path.open("rb") as file:
                (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
                header = json.loads(file.read(min(length, _LONGEST)))
            shapes |= {name: tuple(told["shape"]) for name, told in header.items() if name != "__metadata__"}
        except (struct.error, ValueError, TypeError, KeyError, AttributeError) as error:
            raise ModelError(f"{path}: not a whole safetensors file: copy the model again") from error
    return shapes


def _check_layers(folder: Path, shapes: Shapes, count: Any) -> None:
    stacks: defaultdict[str, set[int]] = defaultdict(set)
    for found in filter(None, map(_LAYER.match, shapes)):
        stacks[found[1]].add(int(found[2]))
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
    """The highest id of a `tokenizer.json`, where its vocabulary is a table of ids or a list."""
    words = (tokenizer.get("model") or {}).get("vocab")
    added = [token["id"] for token in tokenizer.get("added_tokens") or ()]
    if isinstance(words, dict):
        return max([*words.values(), *added], default=None)
    return max([len(words) - 1, *added]) if isinstance(words, list) else None
