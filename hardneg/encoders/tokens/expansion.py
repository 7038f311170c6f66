"""Query expansion: short queries are padded with a token whose vectors are scored like those of the text."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hardneg.encoders.tokens.tokens import Tokens

EXPANDED = "query_expansion_positions"
"""The feature of sentence-transformers that marks the positions of an expansion."""


def expanded(tokens: Tokens, transformer: Any) -> Tokens:
    """The tokens of queries for a transformer of sentence-transformers: padded, if it has an expansion."""
    expansion = Expansion.of(transformer)
    return tokens if expansion is None else expansion.expand(tokens)


@dataclass(frozen=True, slots=True)
class Expansion:
    """Pads a query to `length` tokens with `token`, an id; attended: whether the network attends to them.

    Source: Khattab and Zaharia, ColBERT (SIGIR 2020), section 3.2, query augmentation.
    """

    length: int
    token: int
    attended: bool

    @classmethod
    def of(cls, transformer: Any) -> "Expansion | None":
        """The expansion of a transformer of sentence-transformers; None where it has none."""
        options: Mapping[str, Any] | None = getattr(transformer, "query_expansion", None)
        if options is None:
            return None
        tokenizer = transformer.tokenizer
        if options["token"] is not None:
            token = tokenizer.convert_tokens_to_ids(options["token"])
        else:
            token = tokenizer.eos_token_id if tokenizer.mask_token_id is None else tokenizer.mask_token_id
        return cls(int(options["length"]), int(token), bool(options["attend"]))

    def expand(self, tokens: Tokens) -> Tokens:
        """Pads the tokens after the text, or before it where the tokenizer pads on the left."""
        missing = np.maximum(self.length - tokens.lengths, 0)
        values = {"input_ids": self.token, "attention_mask": int(self.attended), EXPANDED: 1}
        other = {name for name, value in tokens.same.items() if value != values.get(name, 0)}
        size = int(tokens.offsets[-1])
        columns = {name: np.full(size, tokens.same[name], np.int32) for name in other}
        columns |= {EXPANDED: np.zeros(size, np.int32), **tokens.columns}
        beside = np.repeat(tokens.offsets[:-1] if tokens.left else tokens.offsets[1:], missing)
        return replace(
            tokens,
            columns={name: np.insert(column, beside, values.get(name, 0)) for name, column in columns.items()},
            offsets=tokens.offsets + np.concatenate([[0], np.cumsum(missing)]),
            same={name: value for name, value in tokens.same.items() if name not in other},
        )
