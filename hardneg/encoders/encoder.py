"""An encoder whose network runs here: texts in, vectors or weights out, with or without gradients."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardneg.encoders.inference import encode_windows, prepare
from hardneg.encoders.open.loading import assembled, positions, with_prompts
from hardneg.encoders.open.save import save_module
from hardneg.encoders.protocol import EncodeOptions, StoredRows, StoreWriter, TextWindows
from hardneg.encoders.representation import Representation, check_different
from hardneg.encoders.spec import SIDES, FullSpec, Side
from hardneg.encoders.tokens.backend import TokenSource, backend_of
from hardneg.encoders.tokens.segmenting import SegmentedCorpus, SegmentTokens, tokenise_segments
from hardneg.encoders.tokens.tokens import Tokens, has_chat_template, tokenise, tokenise_chats, typed
from hardneg.encoders.towers import Cut, cut, evaluating, has_twins, route, twins, with_own_queries
from hardneg.formats.corpus import Corpus
from hardneg.formats.segments import Segments
from hardneg.records.errors import ModelError
from hardneg.records.types import Encoded
from hardneg.runtime.distributed import World
from hardneg.runtime.progress import Progress, Silent

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


_DEFAULTS = EncodeOptions()
_SILENT = Silent()


class Encoder:
    """A model of sentence-transformers that can learn, with the prompts, lengths and token types of its spec."""

    def __init__(
        self, module: "SentenceTransformer", spec: FullSpec, representation: Representation | None = None
    ) -> None:
        """representation: what texts are encoded into; one vector each by default."""
        self.module = module
        self.spec = spec
        self.representation = representation or Representation()
        self.files, self.block = self.representation.files, self.representation.block

    @property
    def dimension(self) -> int:
        """Size of a vector."""
        return int(self.module.get_embedding_dimension() or 0)

    @property
    def device(self) -> torch.device:
        """The device that the model computes on."""
        return torch.device(self.module.device)

    @property
    def twins(self) -> bool:
        """Whether queries and documents have separate encoders."""
        return has_twins(self.module)

    def parts(self, side: Side) -> list[Any]:
        """The modules that texts of a side pass through: the transformer first, the truncation of vectors last."""
        parts, kept = route(self.module, side), self.spec.truncate_dim
        return parts if kept is None else [*parts, Cut(kept, self.spec.similarity == "cosine")]

    def prompted(self, side: Side, prompt: str | None) -> "Encoder":
        """The same modules with another prompt of a side; None leaves it as it is."""
        if prompt is None:
            return self
        changed: dict[str, Any] = {f"{side}_prompt": prompt}
        return type(self)(self.module, replace(self.spec, **changed), self.representation)

    def tokenise(self, texts: Sequence[str], side: Side) -> Tokens:
        """The token ids of the texts with the prompt of their side, truncated to its length."""
        prompt, parts = self.spec.prompt(side), self.parts(side)
        if has_chat_template(parts[0]):
            return tokenise_chats(parts[0], texts, prompt, side, self.spec.length(side))
        prompted = [prompt + text for text in texts] if prompt else texts
        tokens = tokenise(parts[0].tokenizer, prompted, self.spec.length(side), _prompt_length(parts, prompt))
        tokens = self.representation.expanded(tokens, parts[0]) if side == "query" else tokens
        return typed(tokens, self.spec.token_type(side)) if self.spec.typed else tokens

    def token_source(self) -> TokenSource | None:
        """What the ids of documents depend on; None for slow tokenizers and for chat templates."""
        first = self.parts("document")[0]
        backend = None if has_chat_template(first) else backend_of(first.tokenizer)
        if backend is None:
            return None
        spec, side_of_cut = self.spec, first.tokenizer.truncation_side
        return backend.source(prompt=spec.prompt("document"), length=spec.length("document"), side=side_of_cut)

    def features(self, texts: Sequence[str], side: Side) -> dict[str, Tensor]:
        """The input of `embed`: int64 tensors [n, longest text] on the CPU, by the model's input names."""
        tokens = self.tokenise(texts, side)
        return tokens.batch(np.arange(len(tokens.lengths)))

    def segment(self, texts: Sequence[str], cut: Segments) -> SegmentTokens:
        """The documents with their prompt, cut into segments.

        Raises:
            ModelError: a segment is longer than the model reads, or too short for any text.
        """
        parts, prompt = self.parts("document"), self.spec.prompt("document")
        if has_chat_template(parts[0]):
            raise ModelError(f"model {self.spec.name!r} has a chat template, which cannot be cut: leave segments out")
        most = positions(parts[0].model)
        if most is not None and cut.length > most:
            raise ModelError(
                f"model {self.spec.name!r} reads at most {most} tokens: segments of {cut.length} are longer"
            )
        segmented = tokenise_segments(parts[0].tokenizer, texts, cut, prompt, _prompt_length(parts, prompt))
        if not self.spec.typed:
            return segmented
        return replace(segmented, tokens=typed(segmented.tokens, self.spec.document_token_type))

    def check_fit(self) -> None:
        """Encodes two words on each side.

        Raises:
            Exception: of any class, where the modules do not fit each other or the representation.
        """
        with evaluating(self.module), torch.inference_mode():
            for side in SIDES:
                encoded = self.embed(self.features(["a trial"], side), side)
                self.representation.gathered([(np.zeros(1, np.int64), encoded)], 1, self.dimension)

    def embed(self, features: dict[str, Tensor], side: Side) -> Tensor:
        """Encodes texts with gradients, in the form of `Representation`; all after the transformer is float32."""
        return self.representation.run(self.parts(side), features, self.device, side)

    def score(self, queries: Tensor, documents: Tensor, columns: Tensor | None = None) -> Tensor:
        """Scores float [B, M] with gradients; columns: int64 [M], the document of each column; None: each once."""
        return self.representation.score(queries, documents, columns)

    def score_lists(self, queries: Tensor, encoded: Encoded) -> Tensor:
        """Scores float [B, M] with gradients to the queries, each with M own documents of the B * M stored ones."""
        return self.representation.score_lists(queries, encoded)

    def collect(self, tensor: Tensor) -> Encoded:
        """The output of `embed` on the host, as an index is searched with it."""
        return self.representation.collect(tensor.detach())

    def tensor(self, encoded: Encoded) -> Tensor:
        """Stored texts on the device, in the form of `embed`."""
        return self.representation.tensor(encoded, self.device)

    def truncated(self, encoded: Tensor, dimension: int) -> Tensor:
        """Truncates the output of `embed` to its first dimensions: float32 [n, dimension].

        Raises:
            ModelError: a text of this model has more than one vector, or weights of terms.
        """
        if self.representation.form != "vectors":
            raise ModelError(f"model {self.spec.name!r} has no single vector a text that could be cut: leave dims out")
        if dimension == encoded.shape[-1]:
            return encoded
        return cut(encoded, dimension, self.spec.similarity == "cosine")

    def encode(
        self, texts: Sequence[str], side: Side, options: EncodeOptions = _DEFAULTS, progress: Progress = _SILENT
    ) -> Any:
        """Encodes texts in order, such as float32 [n, dimension]; an empty text has its special tokens alone.

        Raises:
            ModelError: a number is not finite; names the first such text's position.
        """
        starts = range(0, len(texts), options.window)
        windows = TextWindows(((start, texts[start : start + options.window]) for start in starts), len(texts))
        with progress.task(f"encode {side} texts", len(texts), "texts") as task:
            return self._joined([part for _, part in self.encode_windows(windows, side, options, task.advance)])

    def encode_segments(
        self, texts: Sequence[str], cut: Segments, options: EncodeOptions = _DEFAULTS, progress: Progress = _SILENT
    ) -> tuple[Any, NDArray[np.int64]]:
        """Encodes segments in order, such as float32 [S, dimension]; also int64 [n], the segments of each document."""
        counts = [np.empty(0, np.int64)]
        step = max(1, options.window // cut.count)
        starts = range(0, len(texts), step)
        parts = ((start, texts[start : start + step]) for start in starts)
        windows = TextWindows(parts, len(texts) * cut.count, cut)
        with progress.task("encode segments", None, "segments") as task:
            encoded = self.encode_windows(windows, "document", options, task.advance, counts.append)
            return self._joined([part for _, part in encoded]), np.concatenate(counts)

    def encode_windows(
        self,
        windows: TextWindows,
        side: Side,
        options: EncodeOptions,
        advance: Callable[[int], None],
        counted: Callable[[NDArray[np.int64]], None] | None = None,
    ) -> Iterator[tuple[int, Any]]:
        """Yields the number of the first text and the encoded texts of each window; two windows are in memory.

        counted: called with the number of segments of each document of a window, where documents are cut.

        Raises:
            ModelError: a number is not finite, with the first such text's number; or the first texts are all alike.
        """
        cut = windows.cut

        def tokens(start: int, texts: Sequence[str]) -> Tokens | SegmentTokens:
            return self.tokenise(texts, side) if cut is None else self.segment(texts, cut)

        make = windows.kept.through(tokens) if windows.kept else tokens
        texts = iter(windows.texts)
        first = list(islice(texts, 1))
        inference = prepare(self, side, options, make)
        for number, (start, encoded, counts) in enumerate(encode_windows(inference, chain(first, texts), advance)):
            if not number:
                check_different(self.spec.name, side, first[0][1], encoded)
            if counts is not None and counted is not None:
                counted(counts)
            yield start, encoded

    def _joined(self, parts: Sequence[Any]) -> Any:
        """The concatenated parts; without any, an empty result of the same form."""
        if not parts:
            return self.representation.gathered((), 0, self.dimension)
        return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else type(parts[0]).join(parts)

    def rows(self, corpus: Corpus, cut: Segments | None, folder: Path, progress: Progress, here: World) -> Any:
        """The rows of the corpus to store: documents, or their segments.

        Raises:
            ModelError: documents of this model cannot be cut.
        """
        if cut is None:
            return self.representation.rows(self, corpus, folder, progress, here)
        if self.representation.form == "token-vectors":
            raise ModelError(f"model {self.spec.name!r} has a vector a token, which are not pooled: leave segments out")
        return SegmentedCorpus.counted(self, corpus, cut, folder, progress, here)

    def writer(self, folder: Path, rows: StoredRows) -> StoreWriter:
        """A writer of the encoded rows."""
        return self.representation.writer(folder, rows, self.dimension)

    def save(self, folder: Path, card: str | None = None) -> None:
        """Writes a folder for `open` and `SentenceTransformer(folder)`; `card` becomes its README.md.

        Raises:
            ModelError: the folder cannot be written.
        """
        save_module(self.module, self.spec, folder, card)


def _prompt_length(parts: Sequence[Any], prompt: str) -> int:
    if not prompt or all(getattr(part, "include_prompt", True) for part in parts):
        return 0
    ids = parts[0].tokenizer(prompt)["input_ids"]
    return len(ids) - int(ids[-1] in parts[0].tokenizer.all_special_ids)


def split(encoder: Encoder) -> Encoder:
    """An encoder with two sides: the modules themselves for documents, copies of them for queries.

    An encoder with two sides already keeps its document side and gets a copy of its query side.
    """
    queries = with_own_queries(route(encoder.module, "query"))
    modules = [twins(queries, route(encoder.module, "document"))]
    whole = assembled(modules, encoder.spec, str(encoder.device), type(encoder.module))
    named = with_prompts(whole, encoder.module.prompts, encoder.module.default_prompt_name)
    return type(encoder)(named, encoder.spec, encoder.representation)
