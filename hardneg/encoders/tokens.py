"""Token ids of texts and pairs in arrays: tokenisation, truncation, segments, and padded batches."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer, processors
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

from hardneg.encoders.spec import TOKEN_TYPES, FullSpec
from hardneg.encoders.towers import has_twins, placed, route
from hardneg.formats.segments import Segments, windows
from hardneg.records import ModelError

Ids = tuple[NDArray[np.int32], NDArray[np.int64]]
"""Concatenated token ids of n texts, int32 [sum of lengths], and each text's start, then the total, int64 [n + 1]."""

_OWN = ("__call__", "_encode_plus", "_convert_encoding", "set_truncation_and_padding")
_CPU = torch.device("cpu")
_TEXTS = 128  # tokenised at a time, because the tokenizer keeps more of a long text in memory than is used


def run_positions(begins: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the concatenated positions of ranges with the given starts and lengths, int64 [sum of lengths]."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(begins - before, lengths) + np.arange(lengths.sum())


def _offsets(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths)])


def _flat(rows: Sequence[Sequence[int]]) -> Ids:
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return np.fromiter(chain.from_iterable(rows), np.int32, int(offsets[-1])), offsets


@dataclass(frozen=True)
class Frame:
    """The special tokens around a text (one part) or a pair of texts (two parts).

    around: the ids before the first part, between parts, and after the last part, each with a token type. types: the
    token type of each part.
    """

    around: tuple[tuple[tuple[int, int], ...], ...]
    types: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of special tokens around each text or pair."""
        return sum(map(len, self.around))

    @property
    def one_type(self) -> int | None:
        """The token type shared by all tokens; None if there are several token types."""
        types = {*self.types, *(token_type for beside in self.around for _, token_type in beside)}
        return types.pop() if len(types) == 1 else None

    @classmethod
    def of(cls, tokenizer: Any, pair: bool) -> "Frame | None":
        """Detect the frame of texts, or of pairs if `pair` is true, by encoding examples; None if no tokens result."""
        for letter in ("a", "1", "."):
            encoding = tokenizer.encode(*[letter] * (1 + pair))
            of_part = encoding.sequence_ids
            positions = [[at for at, part in enumerate(of_part) if part == number] for number in range(1 + pair)]
            if all(positions):
                starts = [0, *(part[-1] + 1 for part in positions)]
                stops = [*(part[0] for part in positions), len(of_part)]
                tokens = list(zip(encoding.ids, encoding.type_ids, strict=True))
                around = tuple(tuple(tokens[start:stop]) for start, stop in zip(starts, stops, strict=True))
                return cls(around, tuple(encoding.type_ids[part[0]] for part in positions))
        return None

    def put(self, parts: Sequence[Ids]) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
        """Add special tokens. Return ids and token types, both int32 [total], and the texts' offsets, int64 [n + 1]."""
        lengths = [np.diff(offsets) for _, offsets in parts]
        offsets = _offsets(np.sum(lengths, axis=0) + self.size)
        ids, types = np.empty(offsets[-1], np.int32), np.empty(offsets[-1], np.int32)
        here = offsets[:-1].copy()
        for number, beside in enumerate(self.around):
            for token, token_type in beside:
                ids[here], types[here] = token, token_type
                here += 1
            if number < len(parts):
                values, begins = parts[number]
                positions = np.arange(len(values)) + np.repeat(here - begins[:-1], lengths[number])
                ids[positions], types[positions] = values, self.types[number]
                here += lengths[number]
        return ids, types, offsets


class Backend:
    """A thread-safe copy of a tokenizer from the tokenizers library that neither truncates nor pads."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = deepcopy(tokenizer)
        self._tokenizer.encode_special_tokens = tokenizer.encode_special_tokens
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.frames = {pair: frame for pair in (False, True) if (frame := Frame.of(self._tokenizer, pair))}

    def ids(self, texts: Sequence[str]) -> Ids:
        """Return the token ids of texts without special tokens; each distinct text is tokenised once."""
        different = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        encodings = self._tokenizer.encode_batch_fast(list(different), add_special_tokens=False)
        values, offsets = _flat([encoding.ids for encoding in encodings])
        if len(different) == len(texts):
            return values, offsets
        rows = np.fromiter((different[text] for text in texts), np.int64, len(texts))
        lengths = np.diff(offsets)[rows]
        return values[run_positions(offsets[rows], lengths)], _offsets(lengths)


def cut(ids: Ids, most: NDArray[np.int64] | int, left: bool = False) -> Ids:
    """Truncate texts to `most` ids, on the left if `left` is true. most: one number for all texts, or int64 [n]."""
    values, offsets = ids
    kept = np.minimum(lengths := np.diff(offsets), most)
    if (kept == lengths).all():
        return ids
    begins = offsets[1:] - kept if left else offsets[:-1]
    return values[run_positions(begins, kept)], _offsets(kept)


def cut_pairs(first: Ids, second: Ids, most: int, left: bool) -> tuple[Ids, Ids]:
    """Truncate each pair to `most` ids, first the longer text, then both equally; on the left if `left` is true."""
    ones, others = np.diff(first[1]), np.diff(second[1])
    shorter = np.minimum(ones, others)
    fits, longer = ones + others <= most, ones > others
    of_shorter = np.where(fits | (2 * shorter <= most), shorter, most // 2)
    of_longer = np.where(fits, np.maximum(ones, others), most - of_shorter)
    kept = np.where(longer, of_longer, of_shorter), np.where(longer, of_shorter, of_longer)
    return cut(first, kept[0], left), cut(second, kept[1], left)


_known: WeakKeyDictionary[Any, tuple[object, Backend]] = WeakKeyDictionary()


def backend_of(tokenizer: Any, pairs: bool = False) -> Backend | None:
    """Return a tokenizer's backend for texts or `pairs`; None if it is slow, customised or without a `Frame`."""
    plain = isinstance(tokenizer, PreTrainedTokenizerFast) and all(
        getattr(type(tokenizer), name) is getattr(PreTrainedTokenizerFast, name) for name in _OWN
    )
    backend = own_backend(tokenizer, tokenizer.backend_tokenizer) if plain else None
    return backend if backend is not None and pairs in backend.frames else None


def own_backend(holder: Any, tokenizer: Any) -> Backend:
    """Return a tokenizer's backend, cached for the lifetime of `holder` and renewed when tokens have been added."""
    state = (tokenizer.get_vocab_size(), tokenizer.encode_special_tokens)
    entry = _known.get(holder)
    if entry is None or entry[0] != state:
        entry = _known[holder] = (state, Backend(tokenizer))
    return entry[1]


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokenised texts without padding.

    columns: the values of all texts in sequence, int32 [sum of lengths], by name of the model input.
    offsets: int64 [n + 1], the start of each text in every column, then the total length.
    padding: the padding value of each column by name, 0 by default. Padding follows the text to keep positions, even if
    the tokenizer pads on the left. left: whether a query expansion precedes the text.
    prompt_length: number of prompt tokens if the pooling skips the prompt, else 0.
    same: inputs with one value for all tokens, such as 1 in the attention mask.
    """

    columns: Mapping[str, NDArray[np.int32]]
    offsets: NDArray[np.int64]
    padding: Mapping[str, int]
    left: bool
    prompt_length: int
    same: Mapping[str, int] = field(default_factory=dict)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of tokens of each text, int64 [n]."""
        return np.diff(self.offsets)

    def batch(self, rows: NDArray[np.int64], device: torch.device = _CPU) -> dict[str, Tensor]:
        """Return model inputs by name for the texts at `rows`, padded: int64 [n, longest]; `prompt_length` is [n]."""
        lengths = self.lengths[rows]
        taken = run_positions(self.offsets[rows], lengths)
        sizes = placed(lengths, device)
        there = torch.arange(int(lengths.max(initial=0)), device=sizes.device) < sizes[:, None]
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
        """Concatenate one or more parts, all tokenised by the same tokenizer."""
        if len(parts) == 1:
            return parts[0]
        columns = {name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns}
        return replace(parts[0], columns=columns, offsets=_offsets(np.concatenate([part.lengths for part in parts])))


def tokenise(
    tokenizer: Any, texts: Sequence[str], length: int, prompt_length: int = 0, pairs: Sequence[str] | None = None
) -> Tokens:
    """Tokenise texts, each truncated to `length` tokens, special tokens included.

    tokenizer: a transformers tokenizer. prompt_length: see `Tokens`. pairs: second texts; the longer text is cut first.
    """
    backend, left = backend_of(tokenizer, pairs is not None), tokenizer.truncation_side == "left"
    if backend is None:
        return _by_its_own_call(tokenizer, texts, length, prompt_length, pairs)
    frame = backend.frames[pairs is not None]
    room = max(length - frame.size, 0)
    if pairs is None:
        return framed(tokenizer, frame, [cut(backend.ids(texts), room, left)], prompt_length)
    parts = cut_pairs(backend.ids(texts), backend.ids(pairs), room, left)
    return framed(tokenizer, frame, parts, prompt_length)


def _by_its_own_call(
    tokenizer: Any, texts: Sequence[str], length: int, prompt_length: int, pairs: Sequence[str] | None
) -> Tokens:
    encoded: dict[str, list[list[int]]] = {"input_ids": []}
    if texts:
        second = None if pairs is None else list(pairs)
        encoded = tokenizer(list(texts), second, truncation="longest_first", max_length=length)
    columns = {name: _flat(rows)[0] for name, rows in encoded.items()}
    return _tokens(tokenizer, columns, _flat(encoded["input_ids"])[1], prompt_length)


def framed(tokenizer: Any, frame: Frame, parts: Sequence[Ids], prompt_length: int) -> Tokens:
    """Add special tokens to texts (one part) or pairs of texts (two parts) and return the tokens."""
    ids, types, offsets = frame.put(parts)
    columns, same = {"input_ids": ids}, {}
    if "attention_mask" in tokenizer.model_input_names:
        same["attention_mask"] = 1
    if "token_type_ids" in tokenizer.model_input_names:
        if frame.one_type is None:
            columns["token_type_ids"] = types
        else:
            same["token_type_ids"] = frame.one_type
    return _tokens(tokenizer, columns, offsets, prompt_length, same)


def _tokens(tokenizer: Any, columns: Any, offsets: Any, prompt_length: int, same: Any = None) -> Tokens:
    padding = {"input_ids": tokenizer.pad_token_id or 0, "token_type_ids": tokenizer.pad_token_type_id}
    return Tokens(columns, offsets, padding, tokenizer.padding_side == "left", prompt_length, same or {})


def token_batches(lengths: NDArray[np.int64], tokens_per_batch: int) -> Iterator[NDArray[np.int64]]:
    """Yield the rows of each batch, longest first: at most `tokens_per_batch` tokens with padding, or a single row."""
    order = np.argsort(-lengths, stable=True)
    start = 0
    while start < len(order):
        rows = max(1, tokens_per_batch // max(1, int(lengths[order[start]])))
        yield order[start : start + rows]
        start += rows


def typed(tokens: Tokens, token_type: int) -> Tokens:
    """Return a copy in which all tokens have the same token type."""
    others = {name: column for name, column in tokens.columns.items() if name != "token_type_ids"}
    return replace(tokens, columns=others, same={**tokens.same, "token_type_ids": token_type})


def check_token_types(transformer: Any, spec: FullSpec) -> None:
    """Raise ModelError if the spec sets token types that the transformer has no embeddings for."""
    if not spec.typed:
        return
    model, instead = transformer.model, 'omit the token types and set query_prompt: "query: " instead'
    taken = "token_type_ids" in inspect.signature(model.forward).parameters
    known = int(getattr(model.config, "type_vocab_size", 0) or 0) if taken else 0
    for name in TOKEN_TYPES:
        if (token_type := getattr(spec, name)) >= max(known, 1):
            has = f"has {known} token types, counted from 0" if known else "has no token types"
            raise ModelError(f"model {spec.name!r} {has}, but {name} is {token_type}; {instead}")
    if getattr(transformer.tokenizer, "backend_tokenizer", None) is None:
        raise ModelError(f"model {spec.name!r} has a slow tokenizer, which cannot save token types; {instead}")


def joined(modules: list[nn.Module]) -> list[nn.Module]:
    """Return only the document modules if both sides' weights are equal (token types may differ), else all modules."""
    whole = nn.Sequential(*modules)
    if not has_twins(whole):
        return modules
    document = route(whole, "document")
    theirs, ours = (nn.Sequential(*parts).state_dict() for parts in (route(whole, "query"), document))
    same = theirs.keys() == ours.keys() and all(torch.equal(theirs[name], ours[name]) for name in ours)
    return document if same else modules


def plain_tokenizer(backend: Any, template: Sequence[str] = ("$A",), **options: Any) -> PreTrainedTokenizerFast:
    """Convert a `tokenizers` tokenizer to a transformers tokenizer that applies `template` and never truncates."""
    copied = Tokenizer.from_str(backend.to_str())
    copied.no_truncation()
    names = dict.fromkeys(part.rpartition(":")[0] for part in template if not part.startswith("$A"))
    special = [(name, copied.token_to_id(name)) for name in names]
    copied.post_processor = processors.TemplateProcessing(single=list(template), special_tokens=special)
    return PreTrainedTokenizerFast(tokenizer_object=copied, **options)


def with_token_type(parts: Sequence[Any], token_type: int) -> list[Any]:
    """Return the modules of one side with a tokenizer that gives all tokens the same token type.

    The first module is a copy with shared weights and a tokenizer whose template transformers saves unchanged.
    """
    first, *rest = parts
    own, tokenizer = copy(first), first.tokenizer
    frame = backend_of(tokenizer).frames[False]  # type: ignore[union-attr]
    before, after = ([tokenizer.convert_ids_to_tokens(token) for token, _ in beside] for beside in frame.around)
    template = [f"{name}:{token_type}" for name in (*before, "$A", *after)]
    options = {name: getattr(tokenizer, name) for name in ("padding_side", "truncation_side", "model_max_length")}
    options |= {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"], **tokenizer.special_tokens_map}
    own.processor = plain_tokenizer(tokenizer.backend_tokenizer, template, **options)
    return [own, *rest]


@dataclass(frozen=True, slots=True)
class SegmentTokens:
    """The tokenised segments of n documents, document by document.

    counts: int64 [n], segments per document. cut_off: bool [n], whether a document has text beyond the last segment.
    """

    tokens: Tokens
    counts: NDArray[np.int64]
    cut_off: NDArray[np.bool_]


def tokenise_segments(
    tokenizer: Any, texts: Sequence[str], cut_at: Segments, prompt: str = "", prompt_length: int = 0
) -> SegmentTokens:
    """Tokenise every segment of every text, each with the prompt and special tokens.

    The first segment has exactly the tokens of the text truncated to `cut_at.length`.

    Raises ModelError if the tokenizer is slow, or the prompt and special tokens leave no room for text.
    """
    backend = backend_of(tokenizer)
    if backend is None:
        raise ModelError("the model has a slow tokenizer, which cannot split texts into segments; omit segments")
    frame = backend.frames[False]
    room = cut_at.length - frame.size
    stride = min(cut_at.stride or room, room)
    longest = room + (cut_at.count - 1) * stride + 1
    if not prompt and tokenizer.truncation_side == "right":
        (ids, offsets), prompts = cut(backend.ids(texts), longest), np.zeros(len(texts), np.int64)
    else:
        (ids, offsets), prompts = _prompted(tokenizer, texts, prompt, longest)
    size = room - prompts
    if (size < 1).any() or room < 1:
        raise ModelError(f"segments of {cut_at.length} tokens leave no room for text after the prompt; use longer ones")
    cuts = windows(np.diff(offsets) - prompts, size, np.minimum(stride, size), cut_at.count)
    begins, prompts = offsets[:-1][cuts.document], prompts[cuts.document]
    starts = np.column_stack([begins, begins + prompts + cuts.starts])
    lengths = np.column_stack([prompts, cuts.stops - cuts.starts])
    segments = ids[run_positions(starts.reshape(-1), lengths.reshape(-1))], _offsets(lengths.sum(axis=1))
    return SegmentTokens(framed(tokenizer, frame, [segments], prompt_length), cuts.counts, cuts.cut_off)


def _prompted(tokenizer: Any, texts: Sequence[str], prompt: str, longest: int) -> tuple[Ids, NDArray[np.int64]]:
    rows: list[list[int]] = []
    prompts: list[int] = []
    for start in range(0, len(texts), _TEXTS):
        encoded = tokenizer(
            [prompt + text for text in texts[start : start + _TEXTS]],
            add_special_tokens=False,
            truncation="longest_first",
            max_length=longest,
            return_attention_mask=False,
            return_token_type_ids=False,
            return_offsets_mapping=True,
        )
        rows += encoded["input_ids"]
        spans = (part[: 4 * len(prompt)] for part in encoded["offset_mapping"])
        prompts += [sum(end <= len(prompt) for _, end in part) for part in spans]
    return _flat(rows), np.array(prompts, np.int64)
