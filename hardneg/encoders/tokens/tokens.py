"""Texts as token ids, cut into batches of about equal work."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hardneg.encoders.spec import FullSpec
from hardneg.encoders.tokens.backend import Frame, Ids, backend_of, cut, cut_pairs, run_positions
from hardneg.encoders.towers import has_twins, placed, route
from hardneg.records.errors import ModelError

_CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokenised texts that are not padded yet.

    columns: by the model's input name, the texts' values one after the other, int32 [sum of lengths].
    offsets: int64 [n + 1], where each text begins in every column.
    padding: the value that pads a column, by its name; 0 for the others. It goes after a text, where it moves no
    position, also where the tokenizer pads on the left. left: whether an expansion goes before the text.
    prompt_length: tokens of the prompt where a pooling skips them, else 0.
    same: further inputs with one value for all tokens, such as the attention mask's 1.
    """

    columns: Mapping[str, NDArray[np.int32]]
    offsets: NDArray[np.int64]
    padding: Mapping[str, int]
    left: bool
    prompt_length: int
    same: Mapping[str, int] = field(default_factory=dict)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """int64 [n], tokens of each text."""
        return np.diff(self.offsets)

    def batch(self, rows: NDArray[np.int64], device: torch.device = _CPU) -> dict[str, Tensor]:
        """The texts `rows`, padded on the device to the longest of them: int64 tensors [len(rows), longest]."""
        lengths = self.lengths[rows]
        taken = run_positions(self.offsets[rows], lengths)
        sizes = placed(lengths, device)
        longest = int(lengths.max(initial=0))
        there = torch.arange(longest, device=sizes.device) < sizes[:, None]
        features = {}
        for name, column in self.columns.items():
            padded = torch.full(there.shape, self.padding.get(name, 0), device=device)
            features[name] = padded.masked_scatter_(there, placed(column[taken], device).long())
        for name, value in self.same.items():
            outside = self.padding.get(name, 0)
            features[name] = there.long() if (value, outside) == (1, 0) else torch.where(there, value, outside)
        if self.prompt_length:
            features["prompt_length"] = torch.full((len(rows),), self.prompt_length, device=device)
        return features

    @classmethod
    def join(cls, parts: "Sequence[Tokens]") -> "Tokens":
        """Concatenates one or more parts, all of one tokenizer."""
        if len(parts) == 1:
            return parts[0]
        columns = {name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns}
        lengths = np.concatenate([part.lengths for part in parts])
        return replace(parts[0], columns=columns, offsets=np.concatenate([[0], np.cumsum(lengths)]))


def tokenise(
    tokenizer: Any, texts: Sequence[str], length: int, prompt_length: int = 0, pairs: Sequence[str] | None = None
) -> Tokens:
    """Tokenises texts by a Hugging Face tokenizer, truncated to `length` tokens each, special ones included.

    pairs: a second text for each, after the first; the longer of the two is truncated first.
    """
    backend = backend_of(tokenizer, pairs is not None)
    if backend is None:
        return _by_its_own_call(tokenizer, texts, length, prompt_length, pairs)
    frame, left = backend.frames[pairs is not None], tokenizer.truncation_side == "left"
    room = max(length - frame.size, 0)
    if pairs is None:
        return framed(tokenizer, frame, [cut(backend.ids(texts), room, left)], prompt_length)
    parts = cut_pairs(backend.ids_of_repeated(texts), backend.ids_of_repeated(pairs), room, left)
    return framed(tokenizer, frame, parts, prompt_length)


def framed(tokenizer: Any, frame: Frame, parts: Sequence[Ids], prompt_length: int) -> Tokens:
    """The tokens of texts, or of pairs of texts, in the special tokens of their tokenizer."""
    ids, types, offsets = frame.put(parts)
    columns, same = {"input_ids": ids}, {}
    if "attention_mask" in tokenizer.model_input_names:
        same["attention_mask"] = 1
    if "token_type_ids" in tokenizer.model_input_names:
        if frame.one_type is None:
            columns["token_type_ids"] = types
        else:
            same["token_type_ids"] = frame.one_type
    return Tokens(columns, offsets, padding_of(tokenizer), tokenizer.padding_side == "left", prompt_length, same)


def padding_of(tokenizer: Any) -> dict[str, int]:
    """The padding values of a Hugging Face tokenizer, by column."""
    return {"input_ids": tokenizer.pad_token_id or 0, "token_type_ids": tokenizer.pad_token_type_id}


def _by_its_own_call(
    tokenizer: Any, texts: Sequence[str], length: int, prompt_length: int, pairs: Sequence[str] | None
) -> Tokens:
    encoded: dict[str, list[list[int]]] = {"input_ids": []}
    if texts:
        second = None if pairs is None else list(pairs)
        encoded = tokenizer(list(texts), second, truncation="longest_first", max_length=length)
    offsets = np.cumsum([0, *map(len, encoded["input_ids"])], dtype=np.int64)
    size = int(offsets[-1])
    columns = {name: np.fromiter(chain.from_iterable(rows), np.int32, size) for name, rows in encoded.items()}
    return Tokens(columns, offsets, padding_of(tokenizer), tokenizer.padding_side == "left", prompt_length)


def token_batches(lengths: NDArray[np.int64], tokens_per_batch: int) -> Iterator[NDArray[np.int64]]:
    """Rows, the longest first, in batches of at most `tokens_per_batch` padded tokens, or of one row."""
    order = np.argsort(-lengths, stable=True)
    start = 0
    while start < len(order):
        rows = max(1, tokens_per_batch // max(1, int(lengths[order[start]])))
        yield order[start : start + rows]
        start += rows


_INPUTS = ["input_ids", "token_type_ids", "attention_mask"]
_COPIED = ("padding_side", "truncation_side", "model_max_length")


def typed(tokens: Tokens, token_type: int) -> Tokens:
    """The same tokens, each of one type."""
    others = {name: column for name, column in tokens.columns.items() if name != "token_type_ids"}
    return replace(tokens, columns=others, same={**tokens.same, "token_type_ids": token_type})


def check_token_types(transformer: Any, spec: FullSpec) -> None:
    """Refuses token types that a transformer has no embeddings for."""
    if not spec.typed:
        return
    model, instead = transformer.model, 'leave the token types out and set query_prompt: "query: " instead'
    taken = "token_type_ids" in inspect.signature(model.forward).parameters
    known = int(getattr(model.config, "type_vocab_size", 0) or 0) if taken else 0
    for name in ("query_token_type", "document_token_type"):
        if (token_type := getattr(spec, name)) >= max(known, 1):
            has = f"has {known} token types, counted from 0" if known else "has no token types"
            raise ModelError(f"model {spec.name!r} {has}: {name} is {token_type}; {instead}")
    if getattr(transformer.tokenizer, "backend_tokenizer", None) is None:
        raise ModelError(f"model {spec.name!r} has a slow tokenizer, which cannot keep token types: {instead}")


def joined(modules: list[nn.Module]) -> list[nn.Module]:
    """The modules of one side where both have equal weights, as in a saved model of two token types; else all."""
    whole = nn.Sequential(*modules)
    if not has_twins(whole):
        return modules
    document = route(whole, "document")
    theirs, ours = (nn.Sequential(*parts).state_dict() for parts in (route(whole, "query"), document))
    same = theirs.keys() == ours.keys() and all(torch.equal(theirs[name], ours[name]) for name in ours)
    return document if same else modules


def with_token_type(parts: Sequence[Any], token_type: int) -> list[Any]:
    """The modules of a side, the first a copy that shares its weights and has a tokenizer of one token type."""
    first, *rest = parts
    own = copy(first)
    own.processor = _of_one_type(first.tokenizer, token_type)
    return [own, *rest]


def _of_one_type(tokenizer: Any, token_type: int) -> Any:
    """The tokenizer with a template of one token type, in the class of transformers that keeps it as it is."""
    from tokenizers import Tokenizer
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    frame = backend_of(tokenizer).frames[False]  # type: ignore[union-attr]
    before, after = ([tokenizer.convert_ids_to_tokens(token) for token, _ in beside] for beside in frame.around)
    special = [(name, tokenizer.convert_tokens_to_ids(name)) for name in dict.fromkeys([*before, *after])]
    single = [f"{name}:{token_type}" for name in (*before, "$A", *after)]
    backend.post_processor = TemplateProcessing(single=single, special_tokens=special)
    options = {name: getattr(tokenizer, name) for name in _COPIED}
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, model_input_names=_INPUTS, **options, **tokenizer.special_tokens_map
    )
