"""Query generation with transformers, in batches sized by tokens; samples do not depend on the batch."""

from collections import Counter
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from transformers import LogitsProcessor

from hardneg.plugin import Document, errors, model_files, pair_scoring, records, resolving, runtime, token_files, towers

if TYPE_CHECKING:
    from hardneg_seq2seq.writer import Seq2seq

_WINDOW = 256  # passages that are sorted by length together
_LOCAL = {"local_files_only": True, "trust_remote_code": False}


class Drawn(LogitsProcessor):  # type: ignore[misc]
    """A logits processor that keeps one token per row, drawn from the `top_k` most likely tokens.

    draws: float64 [rows, steps], a random number from 0 to 1 that selects each row's token at each step.
    """

    def __init__(self, draws: Tensor, top_k: int) -> None:
        self._draws, self._top_k, self._step = draws, top_k, 0

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Return scores [rows, vocabulary]: 0 for the drawn token of each row, -inf for all others."""
        likeliest, tokens = scores.topk(min(self._top_k, scores.shape[1]))
        shares = likeliest.double().softmax(-1)
        behind = shares.cumsum(-1) <= self._draws[:, self._step, None]
        chosen = behind.sum(-1).minimum((shares > 0).sum(-1) - 1)
        self._step += 1
        return torch.full_like(scores, -torch.inf).scatter(1, tokens.gather(1, chosen[:, None]), 0.0)


@dataclass(frozen=True)
class Generation:
    """A loaded network that writes queries. counts: totals of tokens read and written, duplicate and empty queries."""

    version: ClassVar[int] = 1

    options: "Seq2seq"
    network: Any
    tokenizer: Any
    counts: Counter[str] = field(default_factory=Counter)

    @classmethod
    def opened(cls, options: "Seq2seq", device: str | None) -> "Generation":
        """Open the network on `device`, by default the best one. Raises ModelError if it cannot be opened."""
        from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

        folder = model_files.locate(options.source, options.revision, fetch=True).path
        model_files.read_folder(folder).check()
        target = torch.device(device or pair_scoring.best_device())
        half = options.precision == "bf16"
        if options.precision == "auto":
            half = target.type == "cuda" and torch.cuda.is_bf16_supported()
        with resolving.opening(f"seq2seq: {options.source}", folder):
            dtype = torch.bfloat16 if half else torch.float32
            network = AutoModelForSeq2SeqLM.from_pretrained(
                folder, dtype=dtype, **model_files.load_options(folder), **_LOCAL
            )
            tokenizer = AutoTokenizer.from_pretrained(folder, **_LOCAL)
            tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
        if tokenizer.pad_token is None:
            raise errors.ModelError(
                f"seq2seq: {options.source}: its tokenizer has no padding or end token; add pad_token"
            )
        return cls(options, network.to(target).eval(), tokenizer)

    def write(self, documents: Iterable[Document], *, count: int, seed: int) -> Iterator[records.Written]:
        """Yield one `Written` per document, in order, like `Seq2seq.write`; documents are read 256 at a time."""
        stream = iter(documents)
        while window := list(islice(stream, _WINDOW)):
            texts = [self.options.prefix + document.contents if document.text.strip() else "" for document in window]
            queries = self._queries([text for text in texts if text], count, seed) if count > 0 else iter(())
            for text, document in zip(texts, window, strict=True):
                yield records.Written(next(queries, ()) if text else (), document)

    def _queries(self, texts: Sequence[str], count: int, seed: int) -> Iterator[list[str]]:
        """Yield the queries of each text, in the order of the texts."""
        if not texts:
            return
        ids = self.tokenizer(list(texts), truncation=True, max_length=self.options.length)["input_ids"]
        budget = self.options.tokens_per_batch or towers.usual_budget(self.network.device)
        written: dict[int, list[str]] = {}
        for rows in token_files.token_batches(np.array([len(each) for each in ids]), max(1, budget // count)):
            batch = rows.tolist()
            lines = self._generated([ids[row] for row in batch], [texts[row] for row in batch], count, seed)
            written |= {row: self._kept(lines[at * count : (at + 1) * count]) for at, row in enumerate(batch)}
        yield from (written[row] for row in range(len(texts)))

    @torch.inference_mode()
    def _generated(self, ids: Sequence[list[int]], texts: Sequence[str], count: int, seed: int) -> list[str]:
        """Return `count` generated queries for each text, text by text, in the order of the texts."""
        from transformers import LogitsProcessorList, TemperatureLogitsWarper, TopPLogitsWarper

        options, device = self.options, self.network.device
        batch = self.tokenizer.pad({"input_ids": list(ids)}, return_tensors="pt").to(device)
        states = self.network.get_encoder()(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
        states.last_hidden_state = states.last_hidden_state.repeat_interleave(count, 0)
        streams = (runtime.generator(seed, "seq2seq", text, number) for text in texts for number in range(count))
        draws = torch.from_numpy(np.stack([stream.random(options.query_tokens) for stream in streams])).to(device)
        warpers = [TemperatureLogitsWarper(float(options.temperature)), TopPLogitsWarper(float(options.top_p))]
        output = self.network.generate(
            encoder_outputs=states,
            attention_mask=batch["attention_mask"].repeat_interleave(count, 0),
            logits_processor=LogitsProcessorList([*warpers, Drawn(draws, options.top_k)]),
            generation_config=self._greedy(),
        )
        self.counts["tokens read"] += int(batch["attention_mask"].sum())
        self.counts["tokens written"] += int((output[:, 1:] != self.tokenizer.pad_token_id).sum())
        lines: list[str] = self.tokenizer.batch_decode(output, skip_special_tokens=True)
        return lines

    def _greedy(self) -> Any:
        """Return the network's own settings with greedy decoding, as `Drawn` keeps a single token."""
        config = deepcopy(self.network.generation_config)
        config.update(do_sample=False, num_beams=1, temperature=1.0, top_k=50, top_p=1.0)
        config.update(max_length=None, max_new_tokens=self.options.query_tokens)
        return config

    def _kept(self, lines: Sequence[str]) -> list[str]:
        texts = [" ".join(line.split()) for line in lines]
        kept = list(dict.fromkeys(filter(None, texts)))
        self.counts["empty queries"] += texts.count("")
        self.counts["duplicate queries"] += len(texts) - texts.count("") - len(kept)
        return kept


@contextmanager
def writing(options: "Seq2seq", counts: MutableMapping[str, float], device: str | None) -> Iterator[Generation]:
    """Open the network once for all documents and yield it. At the end, store its non-zero totals in `counts`."""
    opened = options.opened(device)
    yield opened
    counts.update({what: count for what, count in opened.counts.items() if count})
