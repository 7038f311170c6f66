"""An encoder whose network is here: texts in, vectors or weights out, with or without gradients."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardneg.encoders.families.dense.vectors import OneVector
from hardneg.encoders.inference import EncodeOptions, encode_windows, prepare
from hardneg.encoders.open.loading import assembled, with_prompts
from hardneg.encoders.open.resolved import learner, load_encoder, open_encoder
from hardneg.encoders.open.save import save_module
from hardneg.encoders.open.soundness import positions
from hardneg.encoders.protocol import StoredRows, StoreWriter, TextWindows
from hardneg.encoders.representation import Representation
from hardneg.encoders.spec import FullSpec, ModelSpec, Side
from hardneg.encoders.speed.fastest import Precision
from hardneg.encoders.tokens.backend import TokenSource, backend_of
from hardneg.encoders.tokens.expansion import expanded
from hardneg.encoders.tokens.segmenting import SegmentedCorpus, SegmentTokens, tokenise_segments
from hardneg.encoders.tokens.tokens import Tokens, has_chat_template, tokenise, tokenise_chats
from hardneg.encoders.tokens.typed_tokens import typed
from hardneg.encoders.towers import Cut, cut, has_twins, route, twins, with_own_queries
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
        """representation: what its texts become; one vector each, where it is not said."""
        self.module = module
        self.spec = spec
        self.representation: Representation = representation or OneVector()
        self.files, self.block = self.representation.files, self.representation.block

    @classmethod
    def load(cls, spec: ModelSpec, device: str | None = None, precision: Precision | None = None) -> "Encoder":
        """The model that `spec` describes, on `device` (None: the best there is), in evaluation mode.

        What the spec leaves open is as the model's own folder says.

        precision: what texts will be encoded in, which decides how the weights are loaded; None is float32, to train.

        Raises:
            ModelError: the model is not there, or it cannot do what the spec says.
        """
        return learner(load_encoder(spec, device, precision))

    @classmethod
    def open(cls, folder: Path, device: str | None = None, precision: Precision | None = None) -> "Encoder":
        """The model in a folder that `save` wrote, with the prompts and lengths it was saved with.

        Raises:
            ModelError: the folder is not there or was not written by `save`.
        """
        return learner(open_encoder(folder, device, precision))

    @property
    def dimension(self) -> int:
        """Size of a vector."""
        return int(self.module.get_embedding_dimension() or 0)

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return torch.device(self.module.device)

    @property
    def twins(self) -> bool:
        """Whether queries and documents have an encoder each."""
        return has_twins(self.module)

    def parts(self, side: Side) -> list[Any]:
        """The modules that texts of a kind pass through, the transformer first, and what cuts their vectors last."""
        parts, kept = route(self.module, side), self.spec.truncate_dim
        return parts if kept is None else [*parts, Cut(kept, self.spec.similarity == "cosine")]

    def tokenise(self, texts: Sequence[str], side: Side) -> Tokens:
        """The texts behind their kind's prompt, cut to that kind's length."""
        prompt, parts = self.spec.prompt(side), self.parts(side)
        if has_chat_template(parts[0]):
            return tokenise_chats(parts[0], texts, prompt, side, self.spec.length(side))
        prompted = [prompt + text for text in texts] if prompt else texts
        tokens = tokenise(parts[0].tokenizer, prompted, self.spec.length(side), _prompt_length(parts, prompt))
        tokens = expanded(tokens, parts[0]) if side == "query" else tokens
        return typed(tokens, self.spec.token_type(side)) if self.spec.typed else tokens

    def token_source(self) -> TokenSource | None:
        """What the ids of documents depend on; none for a slow tokenizer, and for messages of a chat."""
        first = self.parts("document")[0]
        backend = None if has_chat_template(first) else backend_of(first.tokenizer)
        if backend is None:
            return None
        spec, side_of_cut = self.spec, first.tokenizer.truncation_side
        return backend.source(prompt=spec.prompt("document"), length=spec.length("document"), side=side_of_cut)

    def features(self, texts: Sequence[str], side: Side) -> dict[str, Tensor]:
        """What `embed` takes: int64 tensors [n, longest text] on the CPU, by the model's input names."""
        tokens = self.tokenise(texts, side)
        return tokens.batch(np.arange(len(tokens.lengths)))

    def segment(self, texts: Sequence[str], cut: Segments) -> SegmentTokens:
        """The documents behind their prompt, cut into segments.

        Raises:
            ModelError: a segment is longer than what the model reads, or too short for any text.
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

    def embed(self, features: dict[str, Tensor], side: Side) -> Tensor:
        """The texts with gradients, as `Representation` has them; all behind the transformer runs in float32."""
        return self.representation.run(self.parts(side), features, self.device, side)

    def score(self, queries: Tensor, documents: Tensor, columns: Tensor | None = None) -> Tensor:
        """float [B, M] with gradients; columns: int64 [M], the document of each column; None: each one once."""
        return self.representation.score(queries, documents, columns)

    def score_lists(self, queries: Tensor, encoded: Encoded) -> Tensor:
        """float [B, M], with gradients to the queries: each with M documents of its own, as an index holds B * M."""
        return self.representation.score_lists(queries, encoded)

    def collect(self, tensor: Tensor) -> Encoded:
        """What `embed` made, on the host, as an index is searched with."""
        return self.representation.collect(tensor.detach())

    def tensor(self, encoded: Encoded) -> Tensor:
        """What an index holds, on the device, as `embed` makes it."""
        return self.representation.tensor(encoded, self.device)

    def truncated(self, encoded: Tensor, dimension: int) -> Tensor:
        """The first dimensions of what `embed` gave, float32 [n, dimension], as a model that keeps so many has them.

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
        """The texts in order, such as float32 [n, dimension]; an empty text is its special tokens alone.

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
        """One vector a segment, such as float32 [S, dimension], in order; int64 [n], how many each document has."""
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
        """For each window the number of its first text and what its texts become; two windows are held.

        counted: told how many segments the documents of each window have, where they are cut.

        Raises:
            ModelError: a number is not finite; names the first such text's number.
        """
        cut = windows.cut

        def tokens(start: int, texts: Sequence[str]) -> Tokens | SegmentTokens:
            return self.tokenise(texts, side) if cut is None else self.segment(texts, cut)

        make = windows.kept.through(tokens) if windows.kept else tokens
        texts = iter(windows.texts)
        first = list(islice(texts, 1))
        inference = prepare(self, side, options, windows.count, make, *first)
        for start, encoded, counts in encode_windows(inference, chain(first, texts), advance):
            if counts is not None and counted is not None:
                counted(counts)
            yield start, encoded

    def _joined(self, parts: Sequence[Any]) -> Any:
        """The parts in a row; nothing, in the right form, where there is no part."""
        if not parts:
            return self.representation.gathered((), 0, self.dimension)
        return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else type(parts[0]).join(parts)

    def rows(self, corpus: Corpus, cut: Segments | None, folder: Path, progress: Progress, here: World) -> Any:
        """What of the corpus is stored: documents, or their segments.

        Raises:
            ModelError: documents of this model cannot be cut.
        """
        if cut is None:
            return self.representation.rows(self, corpus, folder, progress, here)
        if self.representation.form == "token-vectors":
            raise ModelError(f"model {self.spec.name!r} has a vector a token, which are not pooled: leave segments out")
        return SegmentedCorpus.counted(self, corpus, cut, folder, progress, here)

    def writer(self, folder: Path, rows: StoredRows, number: int = 0) -> StoreWriter:
        """A writer of what the rows become."""
        return self.representation.writer(folder, rows, self.dimension, number)

    def is_complete(self, folder: Path, rows: StoredRows) -> bool:
        """Whether a folder holds all of the rows."""
        return self.representation.is_complete(folder, rows, self.dimension)

    def save(self, folder: Path, card: str | None = None) -> None:
        """Writes a folder that `open` and `SentenceTransformer(folder)` read; `card` becomes its README.md.

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
    """A twin of an encoder: its own modules for documents, copies of them for queries.

    An encoder that has two sides already gives one with the same document side and a copy of its query side.
    """
    queries = with_own_queries(route(encoder.module, "query"))
    modules = [twins(queries, route(encoder.module, "document"))]
    whole = assembled(modules, encoder.spec, str(encoder.device), type(encoder.module))
    named = with_prompts(whole, encoder.module.prompts, encoder.module.default_prompt_name)
    return type(encoder)(named, encoder.spec, encoder.representation)
