"""A small server of /v1/embeddings that fails on demand."""

import hashlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from hardneg_http import testing

DIMENSION = 8


def vector(text: str, salt: str = "") -> np.ndarray:
    """Return a vector, float32 [8], that depends on the text and `salt`."""
    seed = int.from_bytes(hashlib.sha256((salt + text).encode()).digest()[:4], "little")
    return np.random.default_rng(seed).standard_normal(DIMENSION).astype(np.float32)


class Served(testing.ServedModel):
    """A served embedding model. change: a function that may change the rows of an answer."""

    path = "/v1/embeddings"

    def __init__(self) -> None:
        super().__init__()
        self.salt = ""
        self.change: Callable[[list[dict[str, Any]]], Any] = lambda rows: rows

    @property
    def texts(self) -> list[str]:
        return [text for request in self.requests for text in request["input"]]

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        found = [vector(text, self.salt)[: request.get("dimensions")] for text in request["input"]]
        rows = [{"index": place, "embedding": part.tolist()} for place, part in enumerate(found)]
        return {"data": self.change(rows)}


def serving() -> AbstractContextManager[Served]:
    """Serve the model in threads of this process until the block ends."""
    return testing.serving(Served())
