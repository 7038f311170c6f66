"""A served model as an encoder, with a cache of vectors from earlier runs."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import numpy as np
import torch

from hardneg.plugin import Corpus, Segments, encoders, encoding, errors, model_specs, runtime, stores
from hardneg_http.client import EmbeddingClient, Vector, VectorCache, text_key

if TYPE_CHECKING:
    from hardneg_http.family import Http

_DEFAULTS = encoding.EncodeOptions()
_SILENT = runtime.Silent()
_PROBE = "The quick brown fox jumps over the lazy dog."
_SAME = 0.99  # minimum cosine between two responses of one model to one text, in any precision


class HttpEncoder:
    """An encoder whose model runs on a server.

    An empty text is sent as a space, because servers refuse empty texts.
    """

    files = encoders.Representation.files
    block = encoders.Representation.block
    device = torch.device("cpu")

    def __init__(
        self, family: "Http", spec: model_specs.FullSpec, client: EmbeddingClient, cache: VectorCache | None
    ) -> None:
        self.spec = spec
        self._family, self._client, self._cache = family, client, cache
        self._dimension = self._probed()

    @classmethod
    def opened(cls, family: "Http", spec: model_specs.FullSpec) -> "HttpEncoder":
        """Open the model that `spec` describes. Raises ModelError like `Http.load`."""
        client = family.client(spec)
        path = stores.cache_folder() / "vectors" / f"{stores.digest(family.content(spec))}.sqlite"
        cache = VectorCache(path, int(family.cache * 1e9)) if family.cache else None
        return cls(family, spec, client, cache)

    @property
    def dimension(self) -> int:
        """Dimension of the returned vectors, after any truncation to `truncate_dim`."""
        return min(self._dimension, self.spec.truncate_dim or self._dimension)

    def encode(
        self,
        texts: Sequence[str],
        side: model_specs.Side,
        options: encoding.EncodeOptions = _DEFAULTS,
        progress: runtime.Progress = _SILENT,
    ) -> Vector:
        """Return the vectors of n texts, float32 [n, dimension]. Raises ModelError if the server fails."""
        starts = range(0, len(texts), options.window)
        windows = ((start, texts[start : start + options.window]) for start in starts)
        vectors = np.empty((len(texts), self.dimension), np.float32)
        with progress.task(f"encode {side} texts", len(texts), "texts") as task:
            for start, part in self.encode_windows(windows, side, options, task.advance):
                vectors[start : start + len(part)] = part
        return vectors

    def encode_windows(
        self,
        windows: Iterable[tuple[int, Sequence[str]]],
        side: model_specs.Side,
        options: encoding.EncodeOptions,
        advance: Callable[[int], None],
        cut: Segments | None = None,
    ) -> Iterator[tuple[int, Vector]]:
        """Yield the position of each window's first text and the window's vectors, float32 [n, dimension].

        windows: position and texts. advance: called with the number of newly finished texts. cut: has no effect.
        """
        for start, texts in windows:
            whole = (self.spec.prompt(side) + text for text in texts)
            sent = [text[: self._family.characters] or " " for text in whole]
            vectors = self._vectors(sent, advance)
            none = np.empty((0, self.dimension), np.float32)
            yield start, self._finished(np.stack([vectors[text] for text in sent])) if sent else none

    def rows(
        self, corpus: Corpus, cut: Segments | None, folder: Path, progress: runtime.Progress, here: runtime.World
    ) -> encoding.StoredRows:
        """Return `corpus`: one row per document. Raises ModelError if `cut` is set, as only the server can tokenize."""
        if cut is not None:
            raise errors.ModelError(f"model {self.spec.name!r}: a served model cannot segment documents; omit segments")
        return corpus

    def writer(self, folder: Path, rows: encoding.StoredRows) -> encoding.StoreWriter:
        """Return a writer that stores the vectors of `rows` in a flat index in `folder`."""
        return encoders.Representation().writer(folder, rows, self.dimension)

    def _finished(self, vectors: Vector) -> Vector:
        """Truncate the vectors, and normalise them for cosine similarity."""
        cut = vectors[:, : self.dimension]
        if self.spec.similarity != "cosine":
            return np.ascontiguousarray(cut)
        lengths: Vector = np.linalg.norm(cut, axis=1, keepdims=True)
        return np.divide(cut, np.maximum(lengths, np.finfo(np.float32).tiny), dtype=np.float32)

    def _probed(self) -> int:
        """Request one vector, compare it with the cached one, and return its dimension."""
        key = text_key(f"probe\0{_PROBE}")
        answer = self._client.embed([_PROBE])[0]
        if not answer.any():
            raise self._error("the vector of a test sentence is all zeros; check the server")
        known = {} if self._cache is None else self._cache.find([key])
        if self._cache is not None and key not in known:
            self._cache.keep({key: answer})
        elif key in known and not _alike(known[key], answer):
            problem = "its vectors differ from those cached on this machine, so its weights have changed"
            raise self._error(f"{problem}; set another model.revision")
        return len(answer)

    def _vectors(self, sent: Sequence[str], advance: Callable[[int], None]) -> dict[str, Vector]:
        """Return vectors by text, float32 [d] each, cached or requested once per distinct text, longest texts first."""
        counts = Counter(sent)
        keys = {text: text_key(text) for text in counts}
        known = {} if self._cache is None else self._cache.find(list(keys.values()))
        vectors_of = {text: known[key] for text, key in keys.items() if key in known}
        advance(sum(counts[text] for text in vectors_of))
        lacking = sorted((text for text in counts if text not in vectors_of), key=len, reverse=True)
        for texts, vectors in self._embedded(lacking):
            vectors_of.update(zip(texts, vectors, strict=True))
            if self._cache is not None:
                self._cache.keep({keys[text]: vectors_of[text] for text in texts})
            advance(sum(counts[text] for text in texts))
        if other := next((vector for vector in vectors_of.values() if len(vector) != self._dimension), None):
            raise self._error(f"a vector has dimension {len(other)}, but the first had {self._dimension}")
        if len(vectors_of) > 1 and not any(vector.any() for vector in vectors_of.values()):
            raise self._error(f"the vectors of {len(vectors_of)} texts are all zeros; check the server")
        return vectors_of

    def _error(self, problem: str) -> errors.ModelError:
        return errors.ModelError(f"model {self.spec.name!r} at {self._family.url}: {problem}")

    def _embedded(self, texts: Sequence[str]) -> Iterator[tuple[Sequence[str], Vector]]:
        """Yield batches of texts with their vectors, float32 [n, d], from concurrent requests as they are answered."""
        pool, ended = ThreadPoolExecutor(self._family.in_flight), Event()
        try:
            waiting = {pool.submit(self._client.embed, batch, ended): batch for batch in self._batches(texts)}
            for answer in as_completed(waiting):
                yield waiting[answer], answer.result()
        finally:
            ended.set()
            pool.shutdown(cancel_futures=True)

    def _batches(self, texts: Sequence[str]) -> Iterator[list[str]]:
        batch: list[str] = []
        characters = 0
        for text in texts:
            if batch and (len(batch) == self._family.batch or characters + len(text) > self._family.batch_characters):
                yield batch
                batch, characters = [], 0
            batch.append(text)
            characters += len(text)
        if batch:
            yield batch


def _alike(one: Vector, other: Vector) -> bool:
    """Return whether two vectors have the same dimension and almost the same direction."""
    if len(one) != len(other):
        return False
    lengths = float(np.linalg.norm(one) * np.linalg.norm(other))
    return lengths > 0 and float(one @ other) >= _SAME * lengths
