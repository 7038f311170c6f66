"""The network of a reader: a question-answering head over a transformer, and a score of the passage."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from hardneg.reading.spans import log_probabilities
from hardneg.reading.tokens import ANSWERABLE


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
