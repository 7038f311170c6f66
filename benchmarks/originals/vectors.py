"""From vectors to scores: the best segment of a document, and a sparse encoder's pooling."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from originals.comparing import Differences, Item, both
from originals.losses import columns_of
from originals.source import take
from sentence_transformers.sparse_encoder.modules import SpladePooling
from torch import Tensor

from hardneg.losses.infonce import Nll
from hardneg.training.batches import best_segments, in_slots, masked

LENGTH = 3
"""Tokens of a segment."""


def _max_p(folder: Path) -> Iterator[Differences]:
    (forward,) = take(folder / "model" / "models.py", ["NLL_MultiChunk.forward"], {"torch": torch, "F": F})
    for queries, segments, size in [(2, 1, 4), (3, 2, 8), (5, 3, 16), (8, 4, 12)]:
        counts = torch.randint(1, segments + 1, (2, queries))
        there = torch.arange(segments) < counts[..., None]
        marks = there[..., None].expand(2, queries, segments, LENGTH).reshape(2, queries, -1).long()

        def theirs(asked: Tensor, relevant: Tensor, wrong: Tensor, marks: Tensor = marks) -> Tensor:
            sides = iter([relevant, wrong])
            model = SimpleNamespace(
                base_len=LENGTH, query_emb=lambda vectors, _: vectors, body_emb=lambda ids, _: next(sides)
            )
            return forward(model, asked, None, marks[0], marks[0], marks[1], marks[1])[0]

        def ours(asked: Tensor, relevant: Tensor, wrong: Tensor, there: Tensor = there) -> Tensor:
            each = torch.stack([relevant, wrong], dim=1).flatten(0, 1)
            marked = there.transpose(0, 1).flatten(0, 1)
            scores = best_segments(asked, in_slots(each[marked], marked.sum(1), there.shape[2]))
            return Nll()(masked(scores, columns_of(len(asked), 1)))

        sizes = [(queries, size), (queries, segments, size), (queries, segments, size)]
        yield both(theirs, ours, [torch.randn(*some, dtype=torch.float64) for some in sizes])


def _pooling(folder: Path) -> Iterator[Differences]:
    file = folder / "splade" / "models" / "transformer_rep.py"
    (encode,) = take(file, ["Splade.encode"], {"torch": torch})
    for kind in ("max", "sum"):
        pooling = SpladePooling(kind)
        for texts, tokens in [(2, 3), (3, 5), (5, 8), (8, 4), (16, 12)]:
            marks = (torch.arange(tokens) < torch.randint(1, tokens + 1, (texts, 1))).long()
            weights = torch.randn(texts, 20, dtype=torch.float64)

            def theirs(logits: Tensor, marks: Tensor = marks, kind: str = kind, weights: Tensor = weights) -> Tensor:
                model = SimpleNamespace(agg=kind, encode_=lambda tokens, is_q: {"logits": logits})
                return (encode(model, {"attention_mask": marks}, False) * weights).sum()

            def ours(logits: Tensor, marks: Tensor = marks, pooling=pooling, weights: Tensor = weights) -> Tensor:
                found = pooling({"token_embeddings": logits, "attention_mask": marks})["sentence_embedding"]
                return (found * weights).sum()

            yield both(theirs, ours, [torch.randn(texts, tokens, 20, dtype=torch.float64)])


ITEMS = {
    "ance": [Item("MaxP, 1 to 4 segments", "model/models.py: NLL_MultiChunk.forward", "`nll`, segments", _max_p)],
    "splade": [
        Item(
            "SPLADE's pooling, max and sum", "splade/models/transformer_rep.py: Splade.encode",
            "`encoder: sparse`", _pooling,
        )
    ],
}  # fmt: skip
