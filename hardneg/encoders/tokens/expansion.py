"""Query expansion: short queries are filled up with a token, whose vectors are scored beside those of the text."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hardneg.encoders.tokens.tokens import Tokens

EXPANDED = "query_expansion_positions"
"""The feature that sentence-transformers tells expanded places by."""


def expanded(tokens: Tokens, transformer: Any) -> Tokens:
    """Queries' tokens as a transformer of sentence-transformers takes them: filled up, if it has an expansion."""
    expansion = Expansion.of(transformer)
    return tokens if expansion is None else expansion.expand(tokens)


@dataclass(frozen=True, slots=True)
class Expansion:
    """Up to `length` tokens a query is filled with `token`, an id; attended: whether the network looks at them.

    Source: Khattab and Zaharia, ColBERT (SIGIR 2020), section 3.2, query augmentation.
    """

    length: int
    token: int
    attended: bool

    @classmethod
    def of(cls, transformer: Any) -> "Expansion | None":
        """That of a transformer of sentence-transformers; none where it has none, or no token to fill with."""
        said: Mapping[str, Any] | None = getattr(transformer, "query_expansion", None)
        if said is None:
            return None
        tokenizer = transformer.tokenizer
        if said["token"] is not None:
            token = tokenizer.convert_tokens_to_ids(said["token"])
        else:
            token = tokenizer.eos_token_id if tokenizer.mask_token_id is None else tokenizer.mask_token_id
        return cls(int(said["length"]), int(token), bool(said["attend"]))

    def expand(self, tokens: Tokens) -> Tokens:
        """The tokens with those that fill them up, behind the text, or before it where padding goes there too."""
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
