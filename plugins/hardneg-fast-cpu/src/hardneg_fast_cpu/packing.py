"""Packing of several texts into one row, for transformers with attention without padding."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hardneg.plugin import token_files, towers

BOUNDS = ("cu_seq_lens_q", "cu_seq_lens_k", "max_length_q", "max_length_k")
"""The features that tell transformers and sentence-transformers where packed texts start."""


@dataclass(frozen=True)
class Packing:
    """Packing of several texts into one row. In networks such as RoBERTa, positions start after the padding id.

    first: position id of a text's first token. skipped: id of a token that positions do not count; None if none.
    """

    first: int = 0
    skipped: int | None = None

    @classmethod
    def of(cls, transformer: nn.Module) -> "Packing":
        """Detect the packing for a network from its position embeddings."""
        tables = (part for name, part in transformer.named_modules() if name.endswith("position_embeddings"))
        skipped = next((token for table in tables if (token := getattr(table, "padding_idx", None)) is not None), None)
        return cls() if skipped is None else cls(skipped + 1, skipped)

    def features(self, tokens: token_files.Tokens, rows: NDArray[np.int64], device: torch.device) -> dict[str, Any]:
        """Pack the texts at `rows`: inputs int64 [1, T], starts of the texts int32 [n + 1], and the longest length."""
        lengths = tokens.lengths[rows]
        ends = np.cumsum(lengths)
        taken = np.repeat(tokens.offsets[rows] - (ends - lengths), lengths) + np.arange(lengths.sum())
        columns = {name: column[taken] for name, column in tokens.columns.items() if name != "attention_mask"}
        same = {name: value for name, value in tokens.same.items() if name != "attention_mask"}
        columns |= {name: np.full(len(taken), value, np.int32) for name, value in same.items()}
        ids = columns["input_ids"]
        counted = np.ones(len(ids), np.int64) if self.skipped is None else (ids != self.skipped).astype(np.int64)
        before = np.concatenate([[0], np.cumsum(counted)])
        position = before[1:] - np.repeat(before[ends - lengths], lengths) - 1 + self.first
        columns["position_ids"] = position if self.skipped is None else np.where(counted, position, self.skipped)
        batch: dict[str, Any] = {name: towers.placed(column, device).long()[None] for name, column in columns.items()}
        begins = towers.placed(np.concatenate([[0], ends]).astype(np.int32), device)
        longest = int(lengths.max(initial=0))
        batch |= dict(zip(BOUNDS, (begins, begins, longest, longest), strict=True))
        if tokens.prompt_length:
            batch["prompt_length"] = torch.full((len(rows),), tokens.prompt_length, device=device)
        return batch

    @staticmethod
    def takes(tokens: token_files.Tokens) -> bool:
        """Return whether texts can be packed, which requires that no token is masked."""
        mask = tokens.columns.get("attention_mask")
        return tokens.same.get("attention_mask", 1) == 1 and (mask is None or bool(mask.all()))

    @staticmethod
    def batches(lengths: NDArray[np.int64], tokens_per_batch: int) -> Iterator[NDArray[np.int64]]:
        """Yield batches of rows, longest first, with at most `tokens_per_batch` tokens or a single row."""
        order = np.argsort(-lengths, stable=True)
        ends = np.concatenate([[0], np.cumsum(lengths[order])])
        start = 0
        while start < len(order):
            stop = max(start + 1, int(np.searchsorted(ends, ends[start] + tokens_per_batch, "right")) - 1)
            yield order[start:stop]
            start = stop


def taken_packed(parts: Sequence[Any]) -> bool:
    """Return whether an encoder's modules accept packed texts: a transformer with position ids, then pooling."""
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    if len(parts) < 2 or not isinstance(parts[0], Transformer) or not isinstance(parts[1], Pooling):
        return False
    parameters = inspect.signature(parts[0].model.forward).parameters
    rest = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    return bool(parts[0].model.is_backend_compatible() and "position_ids" in parameters and rest)


def keeps_apart(
    run: Callable[[dict[str, Any]], Tensor],
    tokens: token_files.Tokens,
    packing: Packing,
    device: torch.device,
    dtype: torch.dtype,
) -> bool:
    """Return whether packing leaves the vectors of texts unchanged; hybrid networks mix neighbouring texts.

    run: function from features to vectors, float32 [n, d]. tokens: a long text, followed by short ones. dtype: dtype of
    the weights.
    """
    rows, first = np.arange(len(tokens.lengths)), int(tokens.lengths[0])
    features = packing.features(tokens, rows, device)
    together, ids = run(features), features["input_ids"]
    beside = run(features | {"input_ids": torch.cat([ids[:, :first].flip(1), ids[:, first:]], 1)})
    apart = torch.cat([run(tokens.batch(row, device)) for row in np.split(rows, len(rows))])
    moved, differ = ((together - other).norm(dim=1) / apart.norm(dim=1) for other in (beside, apart))
    noise = torch.finfo(dtype).eps  # a change may come from the order of sums in experts
    return bool((moved[1:] <= max(1e-5, noise / 16)).all() and (differ <= max(1e-3, 16 * noise)).all())
