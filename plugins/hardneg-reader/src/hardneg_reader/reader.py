"""Readers: tokens of questions and passages, spans, and the network, which is saved in transformers' format.

Source: Karpukhin et al., Dense Passage Retrieval for Open-Domain Question Answering (EMNLP 2020), section 6.1.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import hardneg.plugin as hp
from hardneg_reader.train_reader import ReaderSpec

ANSWERABLE = "answerable"
"""The column that marks tokens that may be in an answer: 1 in a passage's text, else 0."""
_SPEC, _SELECTION = "reader.json", "selection.safetensors"


@dataclass(frozen=True, slots=True)
class PassageTokens:
    """The tokens of n questions, each with one passage.

    tokens: the network's inputs, and the column `ANSWERABLE`.
    begins, ends: int64 [sum of lengths], the character range of each token in the passage's text; 0 and 0 for special
    tokens and tokens of the question or the title.
    """

    tokens: hp.token_files.Tokens
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]

    def characters(self, row: int, first: int, last: int) -> tuple[int, int]:
        """Return the character range in the passage's text from token `first` to token `last` of a row."""
        offset = int(self.tokens.offsets[row])
        return int(self.begins[offset + first]), int(self.ends[offset + last])

    def spans(self, row: int, stretches: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return the first and last token of each character range in a row's text; omit truncated and repeated ones."""
        offset, end = self.tokens.offsets[row : row + 2]
        here = offset + np.flatnonzero(self.tokens.columns[ANSWERABLE][offset:end])
        begins, ends = self.begins[here], self.ends[here]
        covered = []
        for begin, stop in stretches:
            first = int(np.searchsorted(ends, begin, "right"))
            last = int(np.searchsorted(begins, stop, "left")) - 1
            if first <= last and begins[first] <= begin and ends[last] >= stop:
                covered.append((int(here[first] - offset), int(here[last] - offset)))
        return list(dict.fromkeys(covered))


def tokenise_passages(
    tokenizer: Any, questions: Sequence[str], passages: Sequence[hp.Document], length: int
) -> PassageTokens:
    """Tokenise each question with its passage, title first, to at most `length` tokens; needs a fast tokenizer."""
    encoded = tokenizer(
        list(questions),
        [passage.contents for passage in passages],
        truncation="longest_first",
        max_length=length,
        return_offsets_mapping=True,
    )
    stretches = encoded.pop("offset_mapping")
    offsets = np.cumsum([0, *map(len, encoded["input_ids"])], dtype=np.int64)
    size = int(offsets[-1])
    columns = {name: np.fromiter(chain.from_iterable(rows), np.int32, size) for name, rows in encoded.items()}
    of_passage = np.fromiter(
        (part == 1 for row in range(len(questions)) for part in encoded.sequence_ids(row)), bool, size
    )
    title = np.array([len(passage.contents) - len(passage.text) for passage in passages], np.int64)
    characters = np.array(list(chain.from_iterable(stretches)), np.int64).reshape(size, 2)
    characters -= np.repeat(title, np.diff(offsets))[:, None]
    answerable = of_passage & (characters[:, 1] > 0)
    columns[ANSWERABLE] = answerable.astype(np.int32)
    characters = np.maximum(characters, 0) * answerable.astype(np.int64)[:, None]
    padding = {"input_ids": tokenizer.pad_token_id or 0, "token_type_ids": tokenizer.pad_token_type_id}
    return PassageTokens(hp.token_files.Tokens(columns, offsets, padding, False, 0), characters[:, 0], characters[:, 1])


def log_probabilities(logits: Tensor, answerable: Tensor) -> Tensor:
    """Return the log-softmax over the tokens that may be in an answer.

    logits: float [n, L]. answerable: bool [n, L].
    Returns float32 [n, L], -inf at the other tokens; a row without such tokens is -inf throughout.
    """
    masked = logits.float().masked_fill(~answerable, -torch.inf)
    return masked - torch.logsumexp(masked, 1, keepdim=True).masked_fill(~answerable.any(1, keepdim=True), 0.0)


def span_log_likelihood(starts: Tensor, ends: Tensor, spans: Tensor, there: Tensor) -> Tensor:
    """Return the log of the sum of P(start = s) P(end = e) over a row's spans (s, e).

    starts, ends: log-probabilities, float [n, L]. spans: int64 [n, S, 2], first and last token. there: bool [n, S],
    false for padding; at least one true in each row.
    Returns float [n].
    """
    scores = starts.gather(1, spans[:, :, 0]) + ends.gather(1, spans[:, :, 1])
    return torch.logsumexp(scores.masked_fill(~there, -torch.inf), 1)


def best_spans(starts: Tensor, ends: Tensor, longest: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the span of up to `longest` tokens with the highest P(start) P(end) in each row; ties go to the shortest.

    starts, ends: log-probabilities, float [n, L].
    Returns each span's log-probability, float [n], -inf if there is no span, and its first and last token, int64 [n].
    """
    best, first = (starts + ends).max(1)
    last = first.clone()
    for more in range(1, min(longest, starts.shape[1])):
        score, start = (starts[:, :-more] + ends[:, more:]).max(1)
        better = score > best
        best = torch.where(better, score, best)
        first, last = torch.where(better, start, first), torch.where(better, start + more, last)
    return best, first, last


class ReaderNetwork(nn.Module):
    """A network that marks the start and end of an answer in a passage, and scores the passage.

    body: a Hugging Face model for question answering. selection: a linear layer on the last state of the first token.
    """

    def __init__(self, body: Any) -> None:
        super().__init__()
        self.body = body
        self.selection = nn.Linear(int(body.config.hidden_size), 1)
        nn.init.normal_(self.selection.weight, std=0.02)
        nn.init.zeros_(self.selection.bias)

    def forward(self, features: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Run the network on the columns of `PassageTokens`, int64 [n, L] each, padded on the right.

        Returns the log-probabilities of the start and of the end of an answer over the tokens that may be in one, both
        float32 [n, L], and the scores of the passages, float32 [n].
        """
        inputs = {name: value for name, value in features.items() if name != ANSWERABLE}
        answerable = features[ANSWERABLE].bool()
        out = self.body(**inputs, output_hidden_states=True)
        first = out.hidden_states[-1][:, 0].float()
        with torch.autocast(first.device.type, enabled=False):
            selected = self.selection(first).squeeze(1)
        starts, ends = (log_probabilities(logits, answerable) for logits in (out.start_logits, out.end_logits))
        return starts, ends, selected


class Reader:
    """A `ReaderNetwork` with its tokenizer, and a spec with the maximum lengths of inputs and answers."""

    def __init__(self, module: ReaderNetwork, tokenizer: Any, spec: ReaderSpec) -> None:
        self.module = module
        self.tokenizer = tokenizer
        self.spec = spec

    @classmethod
    def load(cls, spec: ReaderSpec, seed: int, device: str | None = None) -> "Reader":
        """Load the reader of a spec on `device` (None: the best available), in evaluation mode.

        seed: random seed for weights that the files do not contain, such as those of the heads.

        Raises:
            ModelError: the model is missing or unsuitable.
        """
        folder = hp.model_files.locate(spec.start.name, spec.start.revision).fetched().path
        hp.model_files.read_folder(folder).check()
        with hp.resolving.opening("the reader", folder, seed):
            return cls._of(folder, spec, device)

    @classmethod
    def open(cls, folder: Path, device: str | None = None) -> "Reader":
        """Open a reader from a folder written by `save`.

        Raises:
            ModelError: the folder does not exist, or `save` did not write it.
        """
        from safetensors.torch import load_model

        if not (folder / _SPEC).is_file():
            raise hp.errors.ModelError(f"reader {folder}: no {_SPEC} in it; use the folder of a saved reader")
        with hp.resolving.opening("the reader", folder):
            lengths = hp.model_files.read_json(folder / _SPEC)
            reader = cls._of(folder, ReaderSpec(str(folder), None, lengths["length"], lengths["answer_length"]), device)
            load_model(reader.module.selection, str(folder / _SELECTION), device=str(reader.device))
        return reader

    @property
    def device(self) -> torch.device:
        """The device that the network's weights are on."""
        return self.module.selection.weight.device

    def tokenise(self, questions: Sequence[str], passages: Sequence[hp.Document]) -> PassageTokens:
        """Tokenise each question with its passage, to at most the `length` of the spec."""
        return tokenise_passages(self.tokenizer, questions, passages, self.spec.length)

    def save(self, folder: Path) -> None:
        """Write a folder that `AutoModelForQuestionAnswering` opens, with selection layer and lengths in extra files.

        Raises:
            ModelError: the folder cannot be written.
        """
        from safetensors.torch import save_model

        with hp.loading.written_whole(folder) as partial:
            hp.loading.forget_last_call(self.tokenizer)
            self.module.body.save_pretrained(str(partial))
            self.tokenizer.save_pretrained(str(partial))
            save_model(self.module.selection, str(partial / _SELECTION))
            lengths = {"length": self.spec.length, "answer_length": self.spec.answer_length}
            (partial / _SPEC).write_text(json.dumps(lengths, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def _of(cls, folder: Path, spec: ReaderSpec, device: str | None) -> "Reader":
        from sentence_transformers.util import get_device_name
        from transformers import AutoModelForQuestionAnswering, AutoTokenizer

        local = {"local_files_only": True, "trust_remote_code": False}
        body = AutoModelForQuestionAnswering.from_pretrained(
            str(folder), dtype=torch.float32, **hp.model_files.load_options(folder), **local
        )
        tokenizer = AutoTokenizer.from_pretrained(str(folder), **local)
        _check(body, tokenizer, spec)
        return cls(ReaderNetwork(body).to(device or get_device_name()).eval(), tokenizer, spec)


def _check(body: Any, tokenizer: Any, spec: ReaderSpec) -> None:
    if body.config.is_encoder_decoder:
        raise hp.errors.ModelError(f"reader {spec.name!r}: has a decoder; use an encoder, such as BERT")
    if not tokenizer.is_fast:
        raise hp.errors.ModelError(f"reader {spec.name!r}: its tokenizer has no character offsets; use another model")
    most = hp.loading.positions(body)
    if most is not None and spec.length > most:
        raise hp.errors.ModelError(
            f"reader {spec.name!r}: reads at most {most} tokens, but length is {spec.length}; lower length"
        )
