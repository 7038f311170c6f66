"""A model as a function is given it: a folder, a hub id, what a training made, or a live one."""

import os
from pathlib import Path
from typing import Any

from hardneg.api.argument_values import name_of
from hardneg.api.content_store import keep_content
from hardneg.records.errors import UsageError
from hardneg.store.artifacts import Store

Model = str | Path | Any
"""A folder, a hub id or `packaged:NAME`; a result with a model; or a `SentenceTransformer`, `SparseEncoder` or
`MultiVectorEncoder`."""


def named_model(given: Model, store: Store) -> str:
    """The model as a recipe names it; a live one is written into the store, under its content.

    Raises:
        UsageError: it is nothing that a model may be.
    """
    if isinstance(given, str | os.PathLike):
        return name_of("model", os.fspath(given))
    if not hasattr(given, "save_pretrained") or not hasattr(given, "tokenizer"):
        raise UsageError(
            f"model: cannot use {given!r:.60}; give a folder, a hub id, or a model of sentence-transformers"
        )
    return str(keep_content(store, "given-model", lambda folder: _save(given, folder)).path)


def _save(model: Any, folder: Path) -> None:
    from hardneg.encoders.open.resolved import quiet

    with quiet():
        model.save_pretrained(str(folder), create_model_card=False)


def model_name(given: Model) -> str:
    """How results call a model: its name without its place, the name of a result, or a live one's class."""
    if isinstance(given, str | Path):
        return Path(str(given).partition(":")[2] or given).name
    return str(getattr(given, "name", type(given).__name__))
