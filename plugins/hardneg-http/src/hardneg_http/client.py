"""Requests to an embedding server: texts in, checked vectors out."""

from collections.abc import Sequence
from threading import Event

import numpy as np
from numpy.typing import NDArray

from hardneg.plugin import model_server
from hardneg_http.answer import BadAnswer, vectors_of

_BASE, _A_TEXT = 1, 1  # MiB of an answer


class EmbeddingClient(model_server.ModelServer):
    """Asks one server; several threads may use it."""

    def embed(self, texts: Sequence[str], ended: Event | None = None) -> NDArray[np.float32]:
        """The vectors of some texts, float32 [n, d]; no attempt begins once `ended` is set.

        Raises:
            ModelError: it refuses, answers otherwise than asked, or not within the deadline.
        """
        content = self.post("/embeddings", {"input": list(texts)}, _BASE + len(texts) * _A_TEXT, ended)
        try:
            return vectors_of(content, len(texts))
        except BadAnswer as error:
            raise self.error(f"the answer is not as /v1/embeddings has it: {error}") from None
