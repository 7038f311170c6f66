"""A network that scores pairs of a query and a document: opened, run with or without gradients, saved."""

import math
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from hardneg.encoders.open.contract import check_code, own_code
from hardneg.encoders.open.loading import check_missing, differences, library_transformer
from hardneg.encoders.open.model_card import without_folder
from hardneg.encoders.open.model_files import check_files, load_options, read_json
from hardneg.encoders.open.resolved import opening
from hardneg.encoders.open.save import forget_last_call, written_whole
from hardneg.encoders.tokens.tokens import Tokens, tokenise
from hardneg.encoders.towers import sharing
from hardneg.records import ModelError, counted
from hardneg.runtime import FIXED

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder


_CLASSIFIER = "ForSequenceClassification"
_TASKS = ("sequence-classification", "feature-extraction")


def load_classifier(
    folder: Path, length: int, outputs: int | None = None, seed: int = FIXED, code: str | None = None
) -> "CrossEncoder":
    """The network in a folder, on the CPU, with float32 weights, in evaluation mode.

    length: how many tokens of a pair are read. outputs: of the head; None keeps what the folder has, or makes one.
    seed: of the weights that the folder lacks, such as a new head. code: `native` as in a model's spec.

    Raises:
        ModelError: the folder holds no such model, or a part of a classifier's weights.
    """
    from sentence_transformers import CrossEncoder

    check_files(folder)
    check_code(str(folder), own_code(folder), code)
    labels, whole = outputs or own_head(folder) or 1, not _head_problem(folder, outputs)
    weights = {"dtype": torch.float32, "ignore_mismatched_sizes": True, **load_options(folder)}
    with opening("the reranker", folder, seed):
        task = {"transformer_task": "sequence-classification"}
        transformer = library_transformer(folder, weights, {"num_labels": labels}, **task)
        if whole:
            check_missing(differences(transformer.model, folder, unused=None)[0], str(folder))
    network: CrossEncoder = CrossEncoder(modules=[transformer], device="cpu", activation_fn=nn.Sigmoid())
    most = network.max_seq_length
    if most is not None and most < length:
        raise ModelError(f"reranker {folder}: reads at most {most} tokens: length is {length}, lower it")
    network.max_seq_length = length
    return network.eval()


def check_head(folder: Path, outputs: int | None, source: str) -> None:
    """Refuses files without a head of `outputs` outputs, which would be random. Raises ModelError."""
    if problem := _head_problem(folder, outputs):
        raise ModelError(f"reranker {source}: {problem}, or train this one with stage train-reranker")


def _head_problem(folder: Path, outputs: int | None) -> str:
    """Why a head of `outputs` outputs would be random; empty where the files have it."""
    own = own_head(folder)
    if not own:
        return "no head for scores in these weights, this is an encoder: name a cross-encoder"
    if outputs not in (None, own):
        return f"its head has {counted(own, 'output')}, and outputs is {outputs}: leave that out"
    return ""


def own_head(folder: Path) -> int:
    """The number of outputs of the folder's classifier, 0 where its configuration has none."""
    if not (folder / "config.json").is_file() and (folder / "modules.json").is_file():
        return 0  # modules without a transformer at the top, such as a static model
    config: dict[str, Any] = read_json(folder / "config.json")
    if not any(str(name).endswith(_CLASSIFIER) for name in config.get("architectures") or ()):
        return 0
    return len(config.get("id2label") or {}) or int(config.get("num_labels", 2))


class PairNetwork:
    """A sentence-transformers `CrossEncoder` over one transformer with one or two outputs.

    The transformer classifies sequences itself, or gives vectors to a head of later modules.

    The logit of a pair is the one output, or the second less the first: its sigmoid is the softmax of the two. Its
    score is the network's `activation_fn` of the logit.
    """

    def __init__(self, module: "CrossEncoder") -> None:
        if getattr(module[0], "tokenizer", None) is None or module[0].transformer_task not in _TASKS:
            raise ModelError(
                "a reranker that is trained or batched must be a transformer that classifies sequences, "
                "or one that gives vectors, with a head after it"
            )
        if module.num_labels not in (1, 2):
            raise ModelError(f"the reranker has {module.num_labels} outputs: one or two are needed")
        if module[0].transformer_task == _TASKS[0]:
            _agree_on_padding(module[0].tokenizer, module[0].model.config.get_text_config())
        self._module = module

    @property
    def module(self) -> Any:
        """The `CrossEncoder`."""
        return self._module

    @property
    def device(self) -> torch.device:
        """The device that the network computes on."""
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
        """The input of `logits`: int64 tensors [n, longest pair] on the CPU."""
        return self.tokenise(queries, documents).batch(np.arange(len(queries)))

    def logits(self, features: dict[str, Tensor]) -> Tensor:
        """float32 [n], with gradients, whatever autocast is on."""
        placed = {name: value.to(self.device, non_blocking=True) for name, value in features.items()}
        outputs: Tensor = self.module(placed)["scores"].float()
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs[:, 1] - outputs[:, 0]

    def activated(self, logits: Sequence[float]) -> list[float]:
        """The scores of one query's documents, computed in float64; logits that differ give scores that do."""
        scores: list[float] = self.module.activation_fn(torch.tensor(logits, dtype=torch.float64)).tolist()
        for higher, lower in pairwise(np.lexsort((-np.asarray(logits), -np.asarray(scores))).tolist()):
            below = scores[higher] if logits[lower] == logits[higher] else math.nextafter(scores[higher], -math.inf)
            scores[lower] = min(scores[lower], below)
        return scores

    def sharing(self) -> "PairNetwork":
        """A copy with the same weights, which may compute in another way."""
        return PairNetwork(sharing(self.module))

    def in_bfloat16(self) -> "PairNetwork":
        """A copy with bfloat16 weights, but for the head: its float32 sums keep close pairs apart."""
        copied = deepcopy(self.module)
        for weight in copied[0].model.base_model.parameters():
            weight.data = weight.data.to(torch.bfloat16)
        for part in _head(copied):
            part.register_forward_pre_hook(
                lambda _, values: tuple(value.float() if isinstance(value, Tensor) else value for value in values)
            )
        return PairNetwork(copied)

    def save(self, folder: Path, card: str) -> None:
        """Writes a folder that `sentence_transformers.CrossEncoder(folder)` opens; `card` becomes its README.md."""
        with written_whole(folder) as draft:
            forget_last_call(self.module[0].tokenizer)
            self.module.save_pretrained(str(draft), create_model_card=False, safe_serialization=True)
            (draft / "README.md").write_text(card, encoding="utf-8")


def _agree_on_padding(tokenizer: Any, config: Any) -> None:
    """Has both pad with one token, which ends no text: decoders classify by the last other one. Raises ModelError."""
    own, (*_, last) = config.pad_token_id, tokenizer("a", "a")["input_ids"]
    if own is None or not 0 <= own < config.vocab_size:
        others = (getattr(tokenizer, f"{name}_token_id") for name in ("pad", "eos", "bos", "cls", "unk"))
        config.pad_token_id = own = next((token for token in others if token not in (None, last)), None)
    if own is None:
        raise ModelError("the reranker has no token that could pad: set pad_token in its tokenizer_config.json")
    if tokenizer.pad_token_id != own:
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(own)


def _head(module: Any) -> Iterator[nn.Module]:
    """The modules after the transformer's last layer: parts of its own model, and layers of later modules."""
    model = module[0].model
    if model.base_model is not model:
        yield from (part for part in model.children() if part is not model.base_model)
    for later in list(module)[1:]:
        yield from (layer for layer in later.modules() if not list(layer.children()))


def reranker_card(network: PairNetwork, facts: Mapping[str, object]) -> str:
    """Markdown with the network's origin and how to open it; facts: in the order of the card."""
    own = {"Tokens read": f"{network.module.max_seq_length} of a query and a document together"}
    shown = "\n".join(f"- {name}: {without_folder(value)}" for name, value in {**facts, **own}.items())
    scores = 'model.predict([("a question", "a passage")]'
    if network.module.num_labels == 1:
        scores += ")"
    else:
        scores += ", activation_fn=torch.nn.Softmax(dim=1))[:, 1]  # after import torch"
    return f"""\
---
library_name: sentence-transformers
pipeline_tag: text-ranking
tags: [sentence-transformers, cross-encoder, reranker, hard-negatives, hardneg]
---

# Reranker trained with hard negatives

{shown}

## Use

```python
from sentence_transformers import CrossEncoder

model = CrossEncoder("path/to/this/folder")
scores = {scores}
```
"""
