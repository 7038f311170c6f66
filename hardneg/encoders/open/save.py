"""Saves a model's folder whole or not at all."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardneg.encoders.families.adapters.adapter_source import noted
from hardneg.encoders.families.adapters.layers import has_adapter, merged
from hardneg.encoders.open.contract import OWN
from hardneg.encoders.open.loading import assembled, with_prompts
from hardneg.encoders.open.resolved import quiet
from hardneg.encoders.spec import SIDES, TOKEN_TYPES, FullSpec
from hardneg.encoders.tokens.tokens import with_token_type
from hardneg.encoders.towers import evaluating, route, transformers, twins
from hardneg.records import SPEC_FILE, ModelError
from hardneg.store import replacing_folder, system_errors

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


_READABLE = 0o444


def save_module(module: "SentenceTransformer", spec: FullSpec, folder: Path, card: str | None) -> None:
    """Writes the model, the part of `spec` that its modules lack, and the card; replaces `folder`."""
    with written_whole(folder) as draft, evaluating(module):
        whole = module
        if spec.typed:  # a tokenizer a side sets that side's token types wherever the model is opened
            parts = (with_token_type(route(module, side), spec.token_type(side)) for side in SIDES)
            typed = assembled([twins(*parts)], spec, str(module.device), type(module))
            whole = with_prompts(typed, module.prompts, module.default_prompt_name)
        if spec.adapter is not None and spec.adapter.save == "merged" and has_adapter(whole):
            whole = merged(whole)
        for transformer in transformers(whole):
            forget_last_call(transformer.tokenizer)
        whole.save(str(draft), create_model_card=False, safe_serialization=True)
        options = {name: getattr(spec, name) for name in (*OWN, *(TOKEN_TYPES if spec.typed else ()))}
        options |= {} if spec.adapter is None else {"adapter": noted(spec.adapter)}
        (draft / SPEC_FILE).write_text(json.dumps(options, indent=2) + "\n", encoding="utf-8")
        if card is not None:
            (draft / "README.md").write_text(card, encoding="utf-8")


@contextmanager
def written_whole(folder: Path) -> Iterator[Path]:
    """A folder to write a model's files in, which replaces `folder` at the end of the block, whole and on disk.

    Raises:
        ModelError: the folder cannot be written.
    """
    try:
        with replacing_folder(folder) as draft, quiet(), system_errors():
            yield draft
            # safetensors writes for the owner alone: every file gets the read permissions of the folder
            for path in draft.rglob("*"):
                if path.is_file():
                    path.chmod(path.stat().st_mode | (draft.stat().st_mode & _READABLE))
    except OSError as error:
        raise ModelError(f"model {folder} cannot be written ({error}): check disk and permissions") from error


def forget_last_call(tokenizer: Any) -> None:
    """Removes the truncation and padding of the last call from a tokenizer, which would save them, and code's names."""
    getattr(tokenizer, "init_kwargs", {}).pop("auto_map", None)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        backend.no_truncation()
        backend.no_padding()
