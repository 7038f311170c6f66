"""Networks that score pairs of a query and a document: opening, scoring, gradients, and saving."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import CrossEncoder
from torch import Tensor, nn

from hardneg.encoders import tokens, towers
from hardneg.encoders.open import loading, model_card, model_files, resolved
from hardneg.encoders.protocol import EncodeOptions
from hardneg.protocols import TrainableReranker
from hardneg.records import ModelError
from hardneg.runtime import FIXED, devices

Request = tuple[str, Sequence[str]]
"""A query's text and the texts of its documents."""
Advance = Callable[[int], None]
"""A function that is called with the number of pairs scored since the last call."""

_TASKS = ("sequence-classification", "feature-extraction")
_REQUESTS = 256


def load_classifier(
    folder: Path, length: int, outputs: int | None = None, seed: int = FIXED, activation: str = "sigmoid"
) -> CrossEncoder:
    """Load the network in a folder on the CPU, with float32 weights, in evaluation mode.

    length: maximum number of tokens per pair. outputs: number of outputs of the head; None means the folder's number,
    or 1 for a new head. seed: seed of weights missing from the folder. activation: `sigmoid` or `none`. Raises
    ModelError if the folder has no complete transformer, or the transformer reads fewer than `length` tokens.
    """
    model_files.read_folder(folder).check()
    own = model_files.own_head(folder)
    labels, whole = outputs or own or 1, own and outputs in (None, own)
    weights = {"dtype": torch.float32, "ignore_mismatched_sizes": True, **model_files.load_options(folder)}
    with resolved.opening("the reranker", folder, seed):
        config = {"num_labels": labels}
        transformer = loading.library_transformer(folder, weights, config, transformer_task=_TASKS[0])
        if whole:
            loading.check_missing(loading.differences(transformer.model, folder, unused=None)[0], str(folder))
    last = nn.Identity() if activation == "none" else nn.Sigmoid()
    network: CrossEncoder = CrossEncoder(modules=[transformer], device="cpu", activation_fn=last)
    most = network.max_seq_length
    if most is not None and most < length:
        raise ModelError(f"reranker {folder}: reads at most {most} tokens, but length is {length}; lower length")
    network.max_seq_length = length
    return network.eval()


class PairNetwork:
    """A sentence-transformers `CrossEncoder` with one transformer and one or two outputs.

    Either the transformer is a sequence classifier, or the later modules are a head over its vectors.

    The logit of a pair is the single output, or the second output minus the first; its sigmoid is then the softmax of
    the second output. The score is the network's `activation_fn` of the logit.
    """

    def __init__(self, module: CrossEncoder) -> None:
        """Wrap a `CrossEncoder`. Raises ModelError if it cannot be trained or batched."""
        if getattr(module[0], "tokenizer", None) is None or module[0].transformer_task not in _TASKS:
            raise ModelError(
                "a reranker must be a transformer that classifies sequences, or one with a head over its vectors; "
                "use another model"
            )
        if module.num_labels not in (1, 2):
            raise ModelError(f"the reranker has {module.num_labels} outputs; use a model with one or two")
        if module[0].transformer_task == _TASKS[0]:
            _agree_on_padding(module[0].tokenizer, module[0].model.config.get_text_config())
        self.module: Any = module

    @property
    def device(self) -> torch.device:
        """The device that holds the network's weights and receives its inputs."""
        return torch.device(self.module.device)

    @property
    def embeddings(self) -> nn.Module:
        """The transformer's input embedding layer, which maps token ids to vectors."""
        layer: nn.Module = self.module[0].model.get_input_embeddings()
        return layer

    def tokenise(self, queries: Sequence[str], documents: Sequence[str]) -> tokens.Tokens:
        """Tokenise query-document pairs and truncate them to the network's length; the longer text is cut first."""
        return tokens.tokenise(self.module[0].tokenizer, queries, self.module.max_seq_length, pairs=documents)

    def features(self, queries: Sequence[str], documents: Sequence[str]) -> dict[str, Tensor]:
        """Return the input of `logits` by name: int64 tensors [n, longest pair] on the CPU."""
        return self.tokenise(queries, documents).batch(np.arange(len(queries)))

    def logits(self, features: dict[str, Tensor]) -> Tensor:
        """Return the logits of n pairs, float32 [n] even under autocast, with gradients, for inputs on any device."""
        placed = {name: value.to(self.device, non_blocking=True) for name, value in features.items()}
        outputs: Tensor = self.module(placed)["scores"].float()
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs[:, 1] - outputs[:, 0]

    def activated(self, logits: Sequence[float]) -> list[float]:
        """Return the scores for one query's logits, in the same order; different logits give different scores."""
        scores: list[float] = self.module.activation_fn(torch.tensor(logits, dtype=torch.float64)).tolist()
        for higher, lower in pairwise(np.lexsort((-np.asarray(logits), -np.asarray(scores))).tolist()):
            below = scores[higher] if logits[lower] == logits[higher] else math.nextafter(scores[higher], -math.inf)
            scores[lower] = min(scores[lower], below)
        return scores

    def sharing(self) -> "PairNetwork":
        """Return a copy that shares the weights, but has its own modules, so its computation can be changed."""
        return PairNetwork(towers.sharing(self.module))

    def in_bfloat16(self) -> "PairNetwork":
        """Return a copy with bfloat16 weights, except for a float32 head, which keeps close scores distinct."""
        copied = deepcopy(self.module)
        model = copied[0].model
        towers.hold_in(model.base_model, torch.bfloat16)
        own = [part for part in model.children() if model.base_model is not model and part is not model.base_model]
        later = (layer for part in list(copied)[1:] for layer in part.modules() if not list(layer.children()))
        for part in (*own, *later):
            part.register_forward_pre_hook(
                lambda _, values: tuple(value.float() if isinstance(value, Tensor) else value for value in values)
            )
        return PairNetwork(copied)

    def save(self, folder: Path, card: str) -> None:
        """Write a folder that `sentence_transformers.CrossEncoder(folder)` opens, with `card` as README.md."""
        with loading.written_whole(folder) as draft:
            loading.forget_last_call(self.module[0].tokenizer)
            self.module.save_pretrained(str(draft), create_model_card=False, safe_serialization=True)
            (draft / "README.md").write_text(card, encoding="utf-8")


def _agree_on_padding(tokenizer: Any, config: Any) -> None:
    """Make both pad with a token that ends no text, because decoders classify by the last token before padding."""
    own, (*_, last) = config.pad_token_id, tokenizer("a", "a")["input_ids"]
    if own is None or not 0 <= own < config.vocab_size:
        others = (getattr(tokenizer, f"{name}_token_id") for name in ("pad", "eos", "bos", "cls", "unk"))
        config.pad_token_id = own = next((token for token in others if token not in (None, last)), None)
    if own is None:
        raise ModelError("the reranker has no padding token; set pad_token in its tokenizer_config.json")
    if tokenizer.pad_token_id != own:
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(own)


@dataclass(frozen=True)
class PairScorer:
    """A network prepared to score pairs of many queries, sorted by length, in batches of about the same cost.

    half: whether the network computes in bfloat16. budget: maximum number of tokens per forward pass, with padding.
    """

    network: PairNetwork
    options: EncodeOptions
    half: bool
    budget: towers.Budget

    @classmethod
    def of(cls, module: CrossEncoder, device: str | None = None, options: EncodeOptions | None = None) -> "PairScorer":
        """Prepare a network on a device; by default, on the best available one and with default options."""
        options = options or EncodeOptions()
        network = PairNetwork(module.to(device or best_device()))
        half = towers.takes_bf16(options.precision, network.module, "inference")
        network = network.in_bfloat16() if half else network.sharing()
        towers.arrange(network.module)
        budget = towers.Budget(options.tokens_per_batch or towers.usual_budget(network.device))
        return cls(network, options, half, budget)

    @classmethod
    def opened(
        cls,
        plugin: TrainableReranker,
        folder: Path | None,
        device: str | None = None,
        options: EncodeOptions | None = None,
    ) -> "PairScorer":
        """Prepare the network in `folder` or, if None, in the source. Raises ModelError if the source is untrained."""
        module = plugin.load(folder)
        if folder is None and (check_trained := getattr(plugin, "check_trained", None)):
            check_trained()
        return cls.of(module, device, options)

    def rerank(self, requests: Iterable[Request], advance: Advance = lambda pairs: None) -> Iterator[Sequence[float]]:
        """Yield the scores of each query's documents, in order; a few hundred queries are read ahead.

        advance: called with the number of pairs in each scored batch. Raises ModelError if a score is not finite.
        """
        return self.rerank_blocks([requests], advance)

    def rerank_blocks(
        self, blocks: Iterable[Iterable[Request]], advance: Advance = lambda pairs: None
    ) -> Iterator[Sequence[float]]:
        """Yield the scores for each request of each block. A block's scores do not depend on the other blocks.

        While one window of requests is scored, the next one, from the same or the next block, is tokenised.
        """
        windows = (window for block in blocks for window in self._windows(block))
        with ThreadPoolExecutor(max_workers=1) as tokeniser:
            pending = ((window, tokeniser.submit(self._tokens, window)) for window in windows)
            for window, waiting in towers.ahead(pending, 1):
                ends = np.cumsum([len(documents) for _, documents in window])
                scores = self._scores(waiting.result(), advance) if ends[-1] else np.empty(0, np.float32)
                yield from (self.network.activated(part.tolist()) for part in np.split(scores, ends[:-1]))

    def _windows(self, requests: Iterable[Request]) -> Iterator[list[Request]]:
        window, pairs = list[Request](), 0
        for request in requests:
            window.append(request)
            pairs += len(request[1])
            if pairs >= self.options.window or len(window) >= _REQUESTS:
                yield window
                window, pairs = [], 0
        if window:
            yield window

    def _tokens(self, window: Sequence[Request]) -> tokens.Tokens:
        queries = [query for query, documents in window for _ in documents]
        return self.network.tokenise(queries, [text for _, documents in window for text in documents])

    def _scores(self, read: tokens.Tokens, advance: Advance) -> NDArray[np.float32]:
        network, device, cut = self.network, self.network.device, tokens.token_batches
        put, scores = partial(read.batch, device=device), torch.empty(len(read.lengths), device=device)
        with towers.evaluating(network.module), torch.inference_mode(), devices.float32_products(device):
            for rows, logits in towers.in_passes(read.lengths, self.budget, cut, put, network.logits, advance):
                scores[towers.placed(rows, device)] = logits
        values: NDArray[np.float32] = scores.cpu().numpy()
        if not np.isfinite(values).all():
            raise ModelError("some scores of the reranker are not finite; check its weights, or use precision fp32")
        return values


def best_device() -> str:
    """Return the default device: `cuda`, `mps` or `cpu`."""
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def reranker_card(network: PairNetwork, facts: Mapping[str, object]) -> str:
    """Return a Markdown model card that explains how to use the network; facts: list items by name, in order."""
    own = {"Tokens read": f"{network.module.max_seq_length} of a query and a document together"}
    shown = "\n".join(f"- {name}: {model_card.without_folder(value)}" for name, value in {**facts, **own}.items())
    softmax = ", activation_fn=torch.nn.Softmax(dim=1))[:, 1]  # after import torch"
    scores = f'model.predict([("a question", "a passage")]{")" if network.module.num_labels == 1 else softmax}'
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
