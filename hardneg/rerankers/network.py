"""A network that scores pairs of a query and a document, with and without gradients."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from hardneg.errors import ModelError
from hardneg.models.batching import Tokens, tokenise
from hardneg.models.save import forget_last_call, written_whole

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder


_TASKS = ("sequence-classification", "feature-extraction")


class PairNetwork:
    """A sentence-transformers `CrossEncoder` over one transformer with one or two outputs.

    The transformer classifies sequences itself, or gives vectors that the modules behind it make into outputs.

    The logit of a pair is the one output, or the second less the first: its sigmoid is the softmax of the two. Its
    score is what the network's `activation_fn` makes of the logit.
    """

    def __init__(self, module: "CrossEncoder") -> None:
        if getattr(module[0], "tokenizer", None) is None or module[0].transformer_task not in _TASKS:
            raise ModelError(
                "a reranker that is trained or batched must be a transformer that classifies sequences, "
                "or one that gives vectors, with a head behind it"
            )
        if module.num_labels not in (1, 2):
            raise ModelError(f"the reranker has {module.num_labels} outputs: one or two are needed")
        self._module = module

    @property
    def module(self) -> Any:
        """The `CrossEncoder`."""
        return self._module

    @property
    def device(self) -> torch.device:
        """Where the network computes."""
        return torch.device(self.module.device)

    @property
    def embeddings(self) -> nn.Module:
        """The layer that gives the tokens their vectors."""
        layer: nn.Module = self.module[0].model.get_input_embeddings()
        return layer

    def tokenise(self, queries: Sequence[str], documents: Sequence[str]) -> Tokens:
        """Pairs, one a query and its document: cut to the network's length, the longer of both first."""
        return tokenise(self.module[0].tokenizer, queries, self.module.max_seq_length, pairs=documents)

    def features(self, queries: Sequence[str], documents: Sequence[str]) -> dict[str, Tensor]:
        """What `logits` takes: int64 tensors [n, longest pair] on the CPU."""
        return self.tokenise(queries, documents).batch(np.arange(len(queries)))

    def logits(self, features: dict[str, Tensor]) -> Tensor:
        """float32 [n], with gradients, whatever autocast is on."""
        placed = {name: value.to(self.device, non_blocking=True) for name, value in features.items()}
        outputs: Tensor = self.module(placed)["scores"].float()
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs[:, 1] - outputs[:, 0]

    def activated(self, logits: Tensor) -> Tensor:
        """The scores of logits [n]."""
        scores: Tensor = self.module.activation_fn(logits)
        return scores

    def in_bfloat16(self) -> "PairNetwork":
        """A copy with bfloat16 weights, but for the head: its float32 sums keep close pairs apart."""
        copied = deepcopy(self.module)
        for weight in copied[0].model.base_model.parameters():
            weight.data = weight.data.to(torch.bfloat16)
        for part in _head(copied):
            part.register_forward_pre_hook(_widened)
        return PairNetwork(copied)

    def save(self, folder: Path, card: str) -> None:
        """Writes a folder that `sentence_transformers.CrossEncoder(folder)` opens; `card` becomes its README.md.

        Raises:
            ModelError: the folder cannot be written.
        """
        with written_whole(folder) as place:
            forget_last_call(self.module[0].tokenizer)
            self.module.save_pretrained(str(place), create_model_card=False, safe_serialization=True)
            (place / "README.md").write_text(card, encoding="utf-8")


def _head(module: Any) -> Iterator[nn.Module]:
    """What computes behind the transformer's last layer: parts of its own model, and layers of later modules."""
    model = module[0].model
    if model.base_model is not model:
        yield from (part for part in model.children() if part is not model.base_model)
    for later in list(module)[1:]:
        yield from (layer for layer in later.modules() if not list(layer.children()))


def _widened(part: nn.Module, values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(value.float() if isinstance(value, Tensor) else value for value in values)
