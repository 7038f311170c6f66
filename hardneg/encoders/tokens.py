"""Texts as token ids, with types that tell queries from documents, cut into batches of about equal work."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hardneg.encoders.spec import FullSpec, Kind
from hardneg.encoders.towers import has_twins, side
from hardneg.errors import ModelError


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokenised texts that are not padded yet.

    columns: by the model's input name, the texts' values one after the other, int64 [sum of lengths].
    offsets: int64 [n + 1], where each text begins in every column.
    padding: what fills up a column, by its name; 0 for the others. left: whether it goes before the text.
    prompt_length: tokens of the prompt where a pooling has to leave them out, else 0.
    """

    columns: Mapping[str, NDArray[np.int64]]
    offsets: NDArray[np.int64]
    padding: Mapping[str, int]
    left: bool
    prompt_length: int

    @property
    def lengths(self) -> NDArray[np.int64]:
        """int64 [n], tokens of each text."""
        return np.diff(self.offsets)

    def batch(self, rows: NDArray[np.int64]) -> dict[str, Tensor]:
        """The given texts, padded to the longest of them: int64 tensors [len(rows), longest] on the CPU."""
        lengths = self.lengths[rows]
        places = np.arange(lengths.max(initial=0))
        filled = places >= len(places) - lengths[:, None] if self.left else places < lengths[:, None]
        begins = self.offsets[rows] - (np.cumsum(lengths) - lengths)
        taken = np.repeat(begins, lengths) + np.arange(lengths.sum())
        features = {}
        for name, column in self.columns.items():
            padded = np.full(filled.shape, self.padding.get(name, 0), np.int64)
            padded[filled] = column[taken]
            features[name] = torch.from_numpy(padded)
        if self.prompt_length:
            features["prompt_length"] = torch.full((len(rows),), self.prompt_length)
        return features


def tokenise(
    tokenizer: Any, texts: Sequence[str], length: int, prompt_length: int = 0, pairs: Sequence[str] | None = None
) -> Tokens:
    """`texts` by a Hugging Face tokenizer, cut to `length` tokens each, special ones included.

    pairs: a second text to each, behind the first; of the two the longer one is cut first.
    """
    encoded: dict[str, list[list[int]]] = {"input_ids": []}
    if texts:
        second = None if pairs is None else list(pairs)
        encoded = tokenizer(list(texts), second, truncation="longest_first", max_length=length)
    offsets = np.cumsum([0, *map(len, encoded["input_ids"])], dtype=np.int64)
    size = int(offsets[-1])
    columns = {name: np.fromiter(chain.from_iterable(rows), np.int64, size) for name, rows in encoded.items()}
    padding = {"input_ids": tokenizer.pad_token_id or 0, "token_type_ids": tokenizer.pad_token_type_id}
    return Tokens(columns, offsets, padding, tokenizer.padding_side == "left", prompt_length)


def token_batches(lengths: NDArray[np.int64], tokens_per_batch: int) -> Iterator[NDArray[np.int64]]:
    """Rows, the longest first, in batches of at most `tokens_per_batch` padded tokens, or of one row."""
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        rows = max(1, tokens_per_batch // max(1, int(lengths[order[start]])))
        yield order[start : start + rows]
        start += rows


_TEXTS = 64  # padded to the longest of them for a moment


def has_chat_template(transformer: Any) -> bool:
    """Whether texts of this transformer of sentence-transformers go through a chat template."""
    return "message" in getattr(transformer, "modality_config", ())


def tokenise_chats(transformer: Any, texts: Sequence[str], prompt: str, kind: Kind, length: int) -> Tokens:
    """The texts in the template, cut to `length` tokens; sentence-transformers renders, cuts and mends the end."""
    options = {"text": {"max_length": length}}
    columns: dict[str, list[Any]] = {"input_ids": [], "attention_mask": []}
    lengths: list[Any] = [0]
    for start in range(0, len(texts), _TEXTS):
        part = list(texts[start : start + _TEXTS])
        made = transformer.preprocess(part, prompt=prompt or None, task=kind, processing_kwargs=options)
        real = made["attention_mask"].bool()
        lengths += real.sum(1).tolist()
        for name in columns:
            columns[name].append(made[name][real].numpy())
    tokenizer = transformer.tokenizer
    return Tokens(
        {name: np.concatenate([*parts, []]).astype(np.int64) for name, parts in columns.items()},
        np.cumsum(lengths, dtype=np.int64),
        {"input_ids": tokenizer.pad_token_id or 0},
        tokenizer.padding_side == "left",
        0,
    )


_INPUTS = ["input_ids", "token_type_ids", "attention_mask"]
_COPIED = ("padding_side", "truncation_side", "model_max_length")


def typed(tokens: Tokens, token_type: int) -> Tokens:
    """The same tokens, each of one type."""
    types = np.full_like(tokens.columns["input_ids"], token_type)
    return replace(tokens, columns={**tokens.columns, "token_type_ids": types})


def check_token_types(transformer: Any, spec: FullSpec) -> None:
    """Refuses token types that a transformer has no embeddings for."""
    if not spec.typed:
        return
    model, instead = transformer.model, 'leave the token types out and set query_prompt: "query: " instead'
    taken = "token_type_ids" in inspect.signature(model.forward).parameters
    known = int(getattr(model.config, "type_vocab_size", 0) or 0) if taken else 0
    for field in ("query_token_type", "document_token_type"):
        if (asked := getattr(spec, field)) >= max(known, 1):
            has = f"has {known} token types, counted from 0" if known else "has no token types"
            raise ModelError(f"model {spec.name!r} {has}: {field} is {asked}; {instead}")
    if getattr(transformer.tokenizer, "backend_tokenizer", None) is None:
        raise ModelError(f"model {spec.name!r} has a slow tokenizer, which cannot keep token types: {instead}")


def joined(modules: list[nn.Module]) -> list[nn.Module]:
    """The modules of one side where both have equal weights, as a saved model of two token types has; else as given."""
    whole = nn.Sequential(*modules)
    if not has_twins(whole):
        return modules
    document = side(whole, "document")
    theirs, ours = (nn.Sequential(*parts).state_dict() for parts in (side(whole, "query"), document))
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
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.post_processor = _template(tokenizer, token_type)
    options = {name: getattr(tokenizer, name) for name in _COPIED}
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, model_input_names=_INPUTS, **options, **tokenizer.special_tokens_map
    )


def _template(tokenizer: Any, token_type: int) -> Any:
    """What puts the tokenizer's special tokens around a text, found out with a text of one letter."""
    from tokenizers.processors import TemplateProcessing

    probe = tokenizer("a", return_special_tokens_mask=True)
    names = tokenizer.convert_ids_to_tokens(probe["input_ids"])
    text = [place for place, special in enumerate(probe["special_tokens_mask"]) if not special]
    around = [*names[: text[0]], "$A", *names[text[-1] + 1 :]]
    special = {name: tokenizer.convert_tokens_to_ids(name) for name in around if name != "$A"}
    return TemplateProcessing(single=[f"{name}:{token_type}" for name in around], special_tokens=list(special.items()))
