"""A model as a function is given it: a folder, a hub id, what a training made, or a live one."""

import os
from pathlib import Path
from typing import Any

from hardneg.api.argument_values import name_of
from hardneg.api.arguments import Model
from hardneg.api.content_store import keep_content
from hardneg.records.errors import UsageError
from hardneg.store.artifacts import Store


def named_model(argument: Model, store: Store) -> str:
    """The model as a recipe names it; a live one is written into the store, under its content.

    Raises:
        UsageError: it is nothing that a model may be.
    """
    if isinstance(argument, str | os.PathLike):
        return name_of("model", os.fspath(argument))
    if not hasattr(argument, "save_pretrained") or not hasattr(argument, "tokenizer"):
        raise UsageError(
            f"model: cannot use {argument!r:.60}; give a folder, a hub id, or a model of sentence-transformers"
        )
    return str(keep_content(store, "given-model", lambda folder: _save(argument, folder)).path)


def _save(model: Any, folder: Path) -> None:
    from hardneg.encoders.open.resolved import quiet

    with quiet():
        model.save_pretrained(str(folder), create_model_card=False)


def model_name(argument: Model) -> str:
    """How results call a model: its name without its place, the name of a result, or a live one's class."""
    if isinstance(argument, str | Path):
        return Path(str(argument).partition(":")[2] or argument).name
    return str(getattr(argument, "name", type(argument).__name__))
