"""A dense encoder: texts in, vectors out, with or without gradients."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardneg.data.segments import Segments
from hardneg.encoders.adapters.base import fetch_whole
from hardneg.encoders.contract import resolve
from hardneg.encoders.fastest import Precision, weights_dtype
from hardneg.encoders.files import check_files
from hardneg.encoders.inference import EncodeOptions, encode_windows, prepare
from hardneg.encoders.load import assembled, load_module, with_prompts
from hardneg.encoders.save import read_spec, save_module
from hardneg.encoders.segmenting import SegmentTokens, tokenise_segments
from hardneg.encoders.soundness import positions
from hardneg.encoders.spec import FullSpec, Kind, ModelSpec
from hardneg.encoders.tokens import Tokens, has_chat_template, tokenise, tokenise_chats, typed
from hardneg.encoders.towers import Cut, forward, has_twins, side, twins, with_own_queries
from hardneg.errors import ModelError
from hardneg.progress import Progress, Silent

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


_DEFAULTS = EncodeOptions()
_SILENT = Silent()


class Encoder:
    """A SentenceTransformer with the prompts, lengths and token types of its spec."""

    def __init__(self, module: "SentenceTransformer", spec: FullSpec) -> None:
        self.module = module
        self.spec = spec

    @classmethod
    def load(cls, spec: ModelSpec, device: str | None = None, precision: Precision | None = None) -> "Encoder":
        """The model that `spec` describes, on `device` (None: the best there is), in evaluation mode.

        What the spec leaves open is as the model's own folder says.

        precision: what texts will be encoded in, which decides how the weights are loaded; None is float32, to train.

        Raises:
            ModelError: the model is not there, or it cannot do what the spec says.
        """
        if problems := spec.problems():
            raise ModelError(f"model {spec.name!r}: " + "; ".join(problems))
        spec, folder = fetch_whole(spec)
        check_files(folder)
        full = resolve(spec, folder)
        return cls(load_module(full, folder, device, weights_dtype(spec, precision), learns=precision is None), full)

    @classmethod
    def open(cls, folder: Path, device: str | None = None, precision: Precision | None = None) -> "Encoder":
        """The model in a folder that `save` wrote, with the prompts and lengths it was saved with.

        Raises:
            ModelError: the folder is not there or was not written by `save`.
        """
        return cls.load(read_spec(folder), device, precision)

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

    def parts(self, kind: Kind) -> list[Any]:
        """The modules that texts of a kind pass through, the transformer first, and what cuts their vectors last."""
        parts, kept = side(self.module, kind), self.spec.truncate_dim
        return parts if kept is None else [*parts, Cut(kept, self.spec.similarity == "cosine")]

    def tokenise(self, texts: Sequence[str], kind: Kind) -> Tokens:
        """The texts behind their kind's prompt, cut to that kind's length."""
        prompt, parts = self.spec.prompt(kind), self.parts(kind)
        if has_chat_template(parts[0]):
            return tokenise_chats(parts[0], texts, prompt, kind, self.spec.length(kind))
        prompted = [prompt + text for text in texts] if prompt else texts
        tokens = tokenise(parts[0].tokenizer, prompted, self.spec.length(kind), _prompt_length(parts, prompt))
        return typed(tokens, self.spec.token_type(kind)) if self.spec.typed else tokens

    def features(self, texts: Sequence[str], kind: Kind) -> dict[str, Tensor]:
        """What `embed` takes: int64 tensors [n, longest text] on the CPU, by the model's input names."""
        tokens = self.tokenise(texts, kind)
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
        found = tokenise_segments(parts[0].tokenizer, texts, cut, prompt, _prompt_length(parts, prompt))
        if not self.spec.typed:
            return found
        return replace(found, tokens=typed(found.tokens, self.spec.document_token_type))

    def embed(self, features: dict[str, Tensor], kind: Kind) -> Tensor:
        """float32 [n, dimension] with gradients, whatever autocast is on; pooling and head run in float32."""
        return forward(self.parts(kind), features, self.device)

    def encode(
        self, texts: Sequence[str], kind: Kind, options: EncodeOptions = _DEFAULTS, progress: Progress = _SILENT
    ) -> NDArray[np.float32]:
        """float32 [n, dimension], one vector a text, in order; an empty text is its special tokens alone.

        Raises:
            ModelError: a vector is not finite; names the first such text's position.
        """
        vectors = np.empty((len(texts), self.dimension), np.float32)
        starts = range(0, len(texts), options.window)
        windows = ((start, texts[start : start + options.window]) for start in starts)
        inference = prepare(self, kind, options, len(texts))
        with progress.task(f"encode {kind} texts", len(texts), "texts") as task:
            for start, part in encode_windows(inference, windows, task.advance):
                vectors[start : start + len(part)] = part
        return vectors

    def encode_segments(
        self, texts: Sequence[str], cut: Segments, options: EncodeOptions = _DEFAULTS, progress: Progress = _SILENT
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """float32 [S, dimension], one vector a segment, in order; int64 [n], how many each document has."""
        counts = [np.empty(0, np.int64)]

        def tokens(part: Sequence[str]) -> Tokens:
            made = self.segment(part, cut)
            counts.append(made.counts)
            return made.tokens

        step = max(1, options.window // cut.count)
        starts = range(0, len(texts), step)
        inference = prepare(self, "document", options, len(texts) * cut.count, tokens)
        found = [np.empty((0, self.dimension), np.float32)]
        with progress.task("encode segments", None, "segments") as task:
            parts = ((start, texts[start : start + step]) for start in starts)
            found += [vectors for _, vectors in encode_windows(inference, parts, task.advance)]
        return np.concatenate(found), np.concatenate(counts)

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
    queries = with_own_queries(side(encoder.module, "query"))
    modules = [twins(queries, side(encoder.module, "document"))]
    whole = assembled(modules, encoder.spec, str(encoder.device))
    return Encoder(with_prompts(whole, encoder.module.prompts, encoder.module.default_prompt_name), encoder.spec)
