"""An encoder whose network is a table: tokens looked up and averaged, with nothing put around a text."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.configuration import UNBOUNDED
from hardneg.encoders.spec import Side
from hardneg.encoders.tokens.backend import TokenSource, cut, own_backend
from hardneg.encoders.tokens.segmenting import SegmentTokens, tokenise_segments
from hardneg.encoders.tokens.tokens import Tokens
from hardneg.encoders.towers import route
from hardneg.formats.segments import Segments

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class StaticEncoder(Encoder):
    """A `StaticEmbedding` of sentence-transformers, one for both sides or one each."""

    def parts(self, side: Side) -> list[Any]:
        """The modules of a side, with a table for padded texts."""
        table, *rest = super().parts(side)
        return [Bag(table.embedding), *rest]

    def tokenise(self, texts: Sequence[str], side: Side) -> Tokens:
        """The token ids of the texts with their side's prompt, truncated to its length; an empty text has no token."""
        prompt = self.spec.prompt(side)
        prompted = [prompt + text for text in texts] if prompt else list(texts)
        return tokenise(route(self.module, side)[0].tokenizer, prompted, self.spec.length(side))

    def token_source(self) -> TokenSource:
        """What the ids of documents depend on, without special tokens."""
        tokenizer = route(self.module, "document")[0].tokenizer
        prompt, length = self.spec.prompt("document"), self.spec.length("document")
        plain = own_backend(tokenizer, tokenizer)
        return plain.source(prompt=prompt, length=length, left=_keeps_the_end(tokenizer), framed=False)

    def segment(self, texts: Sequence[str], cut: Segments) -> SegmentTokens:
        """The documents with their prompt, cut into segments of any length.

        Raises:
            ModelError: a segment is too short for any text after the prompt.
        """
        tokenizer = _plain(route(self.module, "document")[0].tokenizer)
        return tokenise_segments(tokenizer, texts, cut, self.spec.prompt("document"))


class Bag(nn.Module):
    """The mean of the vectors of each text's tokens; that of a text without tokens is 0."""

    def __init__(self, embedding: nn.EmbeddingBag) -> None:
        super().__init__()
        self.embedding = embedding

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        """Adds `sentence_embedding` [n, d] to features with `input_ids` and `attention_mask`, int64 [n, longest]."""
        mask = features["attention_mask"].bool()
        lengths = mask.sum(1)
        features["sentence_embedding"] = self.embedding(features["input_ids"][mask], lengths.cumsum(0) - lengths)
        return features


def tokenise(tokenizer: "Tokenizer", texts: Sequence[str], length: int) -> Tokens:
    """Tokenises texts by a tokenizer of the tokenizers library, without special tokens.

    Of each text `length` tokens are kept, at the end that the tokenizer's own truncation keeps.
    """
    left = _keeps_the_end(tokenizer)
    ids, offsets = cut(own_backend(tokenizer, tokenizer).ids(texts), length, left)
    return Tokens({"input_ids": ids}, offsets, {}, False, 0, {"attention_mask": 1})


def _keeps_the_end(tokenizer: "Tokenizer") -> bool:
    return (tokenizer.truncation or {}).get("direction") == "left"


def _plain(tokenizer: "Tokenizer") -> Any:
    """The tokenizer in the class of transformers, without special tokens."""
    from tokenizers import Tokenizer
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer.from_str(tokenizer.to_str())
    backend.no_truncation()
    backend.post_processor = TemplateProcessing(single="$A", special_tokens=[])
    return PreTrainedTokenizerFast(tokenizer_object=backend)


def bound(tokenizer: "Tokenizer", lengths: Sequence[int]) -> None:
    """Makes a tokenizer truncate texts to the longest length of any side, at the same end as before."""
    truncation = tokenizer.truncation
    direction = truncation["direction"] if truncation else "right"
    if max(lengths) < UNBOUNDED:
        tokenizer.enable_truncation(max(lengths), direction=direction)
    else:
        tokenizer.no_truncation()


def table_module(tokenizer: "Tokenizer", table: Tensor) -> nn.Module:
    """A `StaticEmbedding` of trainable float32 weights."""
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    module: nn.Module = StaticEmbedding(tokenizer, embedding_weights=table.to(torch.float32))
    return module
