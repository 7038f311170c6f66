"""A network that scores pairs of a query and a document: opened, run with or without gradients, saved."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hardneg.encoders import passes, tokens, towers
from hardneg.encoders.open import contract, loading, model_files
from hardneg.encoders.open.model_card import without_folder
from hardneg.encoders.open.resolved import opening
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.tokens import Tokens
from hardneg.protocols import TrainableReranker
from hardneg.records import ModelError, counted
from hardneg.runtime import FIXED
from hardneg.runtime.devices import float32_products

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

Request = tuple[str, Sequence[str]]
"""A query's text, and the texts of its documents."""
Advance = Callable[[int], None]
"""Called with the number of scored pairs."""

_TASKS = ("sequence-classification", "feature-extraction")
_REQUESTS = 256


def load_classifier(
    folder: Path, length: int, outputs: int | None = None, seed: int = FIXED, code: str | None = None
) -> "CrossEncoder":
    """The network in a folder, on the CPU, with float32 weights, in evaluation mode.

    length: how many tokens of a pair are read. outputs: of the head; None keeps what the folder has, or makes one.
    seed: of the weights that the folder lacks, such as a new head. code: `native` as in a model's spec.

    Raises ModelError: the folder holds no such model, or a part of a classifier's weights.
    """
    from sentence_transformers import CrossEncoder

    model_files.check_files(folder)
    contract.check_code(str(folder), contract.own_code(folder), code)
    labels, whole = outputs or own_head(folder) or 1, own_head(folder) and outputs in (None, own_head(folder))
    weights = {"dtype": torch.float32, "ignore_mismatched_sizes": True, **model_files.load_options(folder)}
    with opening("the reranker", folder, seed):
        config = {"num_labels": labels}
        transformer = loading.library_transformer(folder, weights, config, transformer_task=_TASKS[0])
        if whole:
            loading.check_missing(loading.differences(transformer.model, folder, unused=None)[0], str(folder))
    network: CrossEncoder = CrossEncoder(modules=[transformer], device="cpu", activation_fn=nn.Sigmoid())
    most = network.max_seq_length
    if most is not None and most < length:
        raise ModelError(f"reranker {folder}: reads at most {most} tokens: length is {length}, lower it")
    network.max_seq_length = length
    return network.eval()


def check_head(folder: Path, outputs: int | None, source: str) -> None:
    """Refuses files without a head of `outputs` outputs, which would be random. Raises ModelError."""
    own, problem = own_head(folder), ""
    if not own:
        problem = "no head for scores in these weights, this is an encoder: name a cross-encoder"
    elif outputs not in (None, own):
        problem = f"its head has {counted(own, 'output')}, and outputs is {outputs}: leave that out"
    if problem:
        raise ModelError(f"reranker {source}: {problem}, or train this one with stage train-reranker")


def own_head(folder: Path) -> int:
    """The number of outputs of the folder's classifier, 0 where its configuration has none."""
    if not (folder / "config.json").is_file() and (folder / "modules.json").is_file():
        return 0  # modules without a transformer at the top, such as a static model
    config: dict[str, Any] = model_files.read_json(folder / "config.json")
    if not any(str(name).endswith("ForSequenceClassification") for name in config.get("architectures") or ()):
        return 0
    return len(config.get("id2label") or {}) or int(config.get("num_labels", 2))


class PairNetwork:
    """A sentence-transformers `CrossEncoder` over one transformer with one or two outputs.

    The transformer classifies sequences itself, or gives vectors to a head of later modules.

    The logit of a pair is the one output, or the second less the first: its sigmoid is the softmax of the two. Its
    score is the network's `activation_fn` of the logit.
    """

    def __init__(self, module: "CrossEncoder") -> None:
        """module: the `CrossEncoder`."""
        if getattr(module[0], "tokenizer", None) is None or module[0].transformer_task not in _TASKS:
            raise ModelError(
                "a reranker that is trained or batched must be a transformer that classifies sequences, "
                "or one that gives vectors, with a head after it"
            )
        if module.num_labels not in (1, 2):
            raise ModelError(f"the reranker has {module.num_labels} outputs: one or two are needed")
        if module[0].transformer_task == _TASKS[0]:
            _agree_on_padding(module[0].tokenizer, module[0].model.config.get_text_config())
        self.module: Any = module

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
        return tokens.tokenise(self.module[0].tokenizer, queries, self.module.max_seq_length, pairs=documents)

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
        return PairNetwork(towers.sharing(self.module))

    def in_bfloat16(self) -> "PairNetwork":
        """A copy with bfloat16 weights, but for the head: its float32 sums keep close pairs apart."""
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
        """Writes a folder that `sentence_transformers.CrossEncoder(folder)` opens; `card` becomes its README.md."""
        with loading.written_whole(folder) as draft:
            loading.forget_last_call(self.module[0].tokenizer)
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


@dataclass(frozen=True)
class PairScorer:
    """A network prepared to score: pairs of many queries sorted by length, in batches of about equal work.

    half: whether it computes in bfloat16. budget: tokens of a pass.
    """

    network: PairNetwork
    options: EncodeOptions
    half: bool
    budget: passes.Budget

    @classmethod
    def of(
        cls, module: "CrossEncoder", device: str | None = None, options: EncodeOptions | None = None
    ) -> "PairScorer":
        """The network, moved to `device` (None: the best available)."""
        options = options or EncodeOptions()
        network = PairNetwork(module.to(device or best_device()))
        half = passes.takes_bf16(options.precision, network.module, "inference")
        network = network.in_bfloat16() if half else network.sharing()
        passes.arrange(network.module)
        budget = passes.Budget(options.tokens_per_batch or passes.usual_budget(network.device))
        return cls(network, options, half, budget)

    @classmethod
    def opened(
        cls,
        plugin: TrainableReranker,
        folder: Path | None,
        device: str | None = None,
        options: EncodeOptions | None = None,
    ) -> "PairScorer":
        """The network of a plugin, or that in `folder`. Raises ModelError: it does not open, or has no trained head."""
        module = plugin.load(folder)
        if folder is None and (check_trained := getattr(plugin, "check_trained", None)):
            check_trained()
        return cls.of(module, device, options)

    def rerank(self, requests: Iterable[Request], advance: Advance = lambda pairs: None) -> Iterator[Sequence[float]]:
        """Yields one score a document, in order; a few hundred queries are read ahead.

        `advance` is called with the pairs of each batch. Raises ModelError: a score is not finite.
        """
        return self.rerank_blocks([requests], advance)

    def rerank_blocks(
        self, blocks: Iterable[Iterable[Request]], advance: Advance = lambda pairs: None
    ) -> Iterator[Sequence[float]]:
        """The same for the requests of all blocks, where a block's scores do not depend on the other blocks.

        The next window is tokenised while one is scored, be it of the same block or of the next.
        """
        windows = (window for block in blocks for window in self._windows(block))
        with ThreadPoolExecutor(max_workers=1) as tokeniser:
            pending = ((window, tokeniser.submit(self._tokens, window)) for window in windows)
            for window, waiting in passes.ahead(pending, 1):
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

    def _tokens(self, window: Sequence[Request]) -> Tokens:
        queries = [query for query, documents in window for _ in documents]
        return self.network.tokenise(queries, [text for _, documents in window for text in documents])

    def _scores(self, read: Tokens, advance: Advance) -> NDArray[np.float32]:
        network, device, cut = self.network, self.network.device, tokens.token_batches
        put, scores = partial(read.batch, device=device), torch.empty(len(read.lengths), device=device)
        with towers.evaluating(network.module), torch.inference_mode(), float32_products(device):
            for rows, logits in passes.in_passes(read.lengths, self.budget, cut, put, network.logits, advance):
                scores[towers.placed(rows, device)] = logits
        values: NDArray[np.float32] = scores.cpu().numpy()
        if not np.isfinite(values).all():
            raise ModelError("the reranker gives a score that is not finite: check its weights, or use precision fp32")
        return values


def best_device() -> str:
    """The default device."""
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def reranker_card(network: PairNetwork, facts: Mapping[str, object]) -> str:
    """Markdown with the network's origin and how to open it; facts: in the order of the card."""
    own = {"Tokens read": f"{network.module.max_seq_length} of a query and a document together"}
    shown = "\n".join(f"- {name}: {without_folder(value)}" for name, value in {**facts, **own}.items())
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
