"""Texts as the messages of a chat, for models that are prompted so."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from hardneg.encoders.spec import Side
from hardneg.encoders.tokens.tokens import Tokens, padding_of

_TEXTS = 64  # padded to the longest of them for a moment


def has_chat_template(transformer: Any) -> bool:
    """Whether texts of this transformer of sentence-transformers go through a chat template."""
    return "message" in getattr(transformer, "modality_config", ())


def tokenise_chats(transformer: Any, texts: Sequence[str], prompt: str, side: Side, length: int) -> Tokens:
    """The texts in the template, cut to `length` tokens; sentence-transformers renders, cuts and mends the end."""
    options = {"text": {"max_length": length}}
    columns: dict[str, list[Any]] = {"input_ids": [], "attention_mask": []}
    lengths: list[Any] = [0]
    for start in range(0, len(texts), _TEXTS):
        part = list(texts[start : start + _TEXTS])
        batch = transformer.preprocess(part, prompt=prompt or None, task=side, processing_kwargs=options)
        real = batch["attention_mask"].bool()
        lengths += real.sum(1).tolist()
        for name in columns:
            columns[name].append(batch[name][real].numpy())
    tokenizer = transformer.tokenizer
    return Tokens(
        {name: np.concatenate([*parts, []]).astype(np.int32) for name, parts in columns.items()},
        np.cumsum(lengths, dtype=np.int64),
        padding_of(tokenizer),
        tokenizer.padding_side == "left",
        0,
    )
