"""Requests to an embedding server: texts in, checked vectors out."""

import json
from collections.abc import Sequence
from threading import Event

import numpy as np
from numpy.typing import NDArray

from hardneg.plugin import model_server

_BASE, _A_TEXT = 1, 1  # MiB of an answer


class EmbeddingClient(model_server.ModelServer):
    """Asks one server; several threads may use it."""

    def embed(self, texts: Sequence[str], ended: Event | None = None) -> NDArray[np.float32]:
        """The vectors of some texts, float32 [n, d]; no attempt begins once `ended` is set.

        Raises ModelError where it refuses, answers otherwise than asked, or not within the deadline.
        """
        content = self.post("/embeddings", {"input": list(texts)}, _BASE + len(texts) * _A_TEXT, ended)
        vectors = vectors_of(content, len(texts))
        if isinstance(vectors, str):
            raise self.error(f"the answer is not as /v1/embeddings has it: {vectors}")
        return vectors


def vectors_of(body: bytes, count: int) -> NDArray[np.float32] | str:
    """The vectors of an answer to `count` texts, float32 [count, d], by their `index`; or what is wrong with it.

    That it is no JSON of that form, a vector lacks or stands twice, they are of several dimensions, or one is not
    finite.
    """
    try:
        rows = json.loads(body)["data"]
        places, values = [row["index"] for row in rows], [row["embedding"] for row in rows]
    except (ValueError, TypeError, LookupError, RecursionError):
        return "no JSON with `data`, a list of objects with `index` and `embedding`"
    if len(rows) != count:
        return f"{len(rows)} vectors for {count} texts"
    if {*map(type, places)} != {int} or sorted(places) != list(range(count)):
        return f"the vectors' `index` are not 0 to {count - 1}, each once"
    if not all(isinstance(value, list) and {*map(type, value)} <= {int, float} for value in values):
        return "an `embedding` is no list of numbers"
    if len(dimensions := {*map(len, values)}) > 1:
        return f"vectors of {' and '.join(map(str, sorted(dimensions)))} numbers in one answer"
    try:
        with np.errstate(over="ignore"):
            vectors = np.array(values, np.float64).astype(np.float32)[np.argsort(places)]
    except OverflowError:
        return "an `embedding` cannot be read as float32 numbers"
    return vectors if vectors.shape[1] and np.isfinite(vectors).all() else "a vector is empty, or not finite"
