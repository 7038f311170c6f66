"""A reader: its network, loaded from an encoder's files, saved as a folder that transformers opens too."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from hardneg.plugin import (
    Document,
    ModelError,
    forget_last_call,
    loading,
    locate_model,
    model_files,
    opening_model,
    writing_model,
)
from hardneg_reader.options import ReaderSpec
from hardneg_reader.spans import log_probabilities
from hardneg_reader.tokens import ANSWERABLE, PassageTokens, tokenise_passages

_SPEC, _SELECTION = "reader.json", "selection.safetensors"


class ReaderNetwork(nn.Module):
    """Marks where an answer starts and ends in a passage, and says how much the passage is the one to read.

    body: a Hugging Face model for question answering. selection: a linear layer on the last state of the first token.

    Source: Karpukhin et al., Dense Passage Retrieval for Open-Domain Question Answering (EMNLP 2020), section 6.1.
    """

    def __init__(self, body: Any) -> None:
        super().__init__()
        self.body = body
        self.selection = nn.Linear(int(body.config.hidden_size), 1)
        nn.init.normal_(self.selection.weight, std=0.02)
        nn.init.zeros_(self.selection.bias)

    def forward(self, features: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """From the columns of `PassageTokens`, int64 [n, L] each, padded on the right.

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
    """A `ReaderNetwork` with its tokenizer, and how much it reads."""

    def __init__(self, module: ReaderNetwork, tokenizer: Any, spec: ReaderSpec) -> None:
        self.module = module
        self.tokenizer = tokenizer
        self.spec = spec

    @classmethod
    def load(cls, spec: ReaderSpec, seed: int, device: str | None = None) -> "Reader":
        """The reader that `spec` describes, on `device` (None: the best there is), in evaluation mode.

        seed: of the weights that the files lack, as those of the heads.

        Raises:
            ModelError: the model is not there, or cannot be read with.
        """
        folder = locate_model(spec.start.name, spec.start.revision).fetched().path
        model_files.check_files(folder)
        with opening_model("the reader", folder, seed):
            return cls._of(folder, spec, device)

    @classmethod
    def open(cls, folder: Path, device: str | None = None) -> "Reader":
        """The reader in a folder that `save` wrote.

        Raises:
            ModelError: the folder is not there, or was not written by `save`.
        """
        from safetensors.torch import load_model

        if not (folder / _SPEC).is_file():
            raise ModelError(f"reader {folder}: no {_SPEC} there: name a folder that a reader was saved in")
        with opening_model("the reader", folder):
            lengths = model_files.read_json(folder / _SPEC)
            reader = cls._of(folder, ReaderSpec(str(folder), None, lengths["length"], lengths["answer_length"]), device)
            load_model(reader.module.selection, str(folder / _SELECTION), device=str(reader.device))
        return reader

    @property
    def device(self) -> torch.device:
        """Where the network computes."""
        return self.module.selection.weight.device

    def tokenise(self, questions: Sequence[str], passages: Sequence[Document]) -> PassageTokens:
        """Each question with its passage, as many of both."""
        return tokenise_passages(self.tokenizer, questions, passages, self.spec.length)

    def save(self, folder: Path, card: str | None = None) -> None:
        """Writes a folder that `AutoModelForQuestionAnswering` opens; the selection's weights and a card are beside it.

        Raises:
            ModelError: the folder cannot be written.
        """
        from safetensors.torch import save_model

        with writing_model(folder) as partial:
            forget_last_call(self.tokenizer)
            self.module.body.save_pretrained(str(partial))
            self.tokenizer.save_pretrained(str(partial))
            save_model(self.module.selection, str(partial / _SELECTION))
            lengths = {"length": self.spec.length, "answer_length": self.spec.answer_length}
            (partial / _SPEC).write_text(json.dumps(lengths, indent=2) + "\n", encoding="utf-8")
            if card is not None:
                (partial / "README.md").write_text(card, encoding="utf-8")

    @classmethod
    def _of(cls, folder: Path, spec: ReaderSpec, device: str | None) -> "Reader":
        from sentence_transformers.util import get_device_name
        from transformers import AutoModelForQuestionAnswering, AutoTokenizer

        local = {"local_files_only": True, "trust_remote_code": False}
        body = AutoModelForQuestionAnswering.from_pretrained(
            str(folder), dtype=torch.float32, **model_files.load_options(folder), **local
        )
        tokenizer = AutoTokenizer.from_pretrained(str(folder), **local)
        _check(body, tokenizer, spec)
        return cls(ReaderNetwork(body).to(device or get_device_name()).eval(), tokenizer, spec)


def _check(body: Any, tokenizer: Any, spec: ReaderSpec) -> None:
    if body.config.is_encoder_decoder:
        raise ModelError(f"reader {spec.name!r}: has a decoder: use an encoder, such as BERT")
    if not tokenizer.is_fast:
        raise ModelError(f"reader {spec.name!r}: its tokenizer does not tell places in a text: use another model")
    most = loading.positions(body)
    if most is not None and spec.length > most:
        raise ModelError(f"reader {spec.name!r}: reads at most {most} tokens: length is {spec.length}, lower it")
