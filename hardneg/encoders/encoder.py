"""Encoders with local weights, which encode texts as vectors, term weights or token vectors."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from hardneg.encoders import stream, tokens, towers
from hardneg.encoders.open import loading
from hardneg.encoders.protocol import EncodeOptions, Form, StoredRows, StoreWriter, Windows
from hardneg.encoders.spec import SIDES, FullSpec, Side
from hardneg.formats import corpus, vectors
from hardneg.formats.segments import Segments
from hardneg.records import Encoded, ModelError
from hardneg.runtime import Progress, Silent, World, devices

Batches = Iterable[tuple[NDArray[np.int64], Tensor]]
"""Batches of encoded texts: for each batch, the row numbers, int64 [b], and the encoded texts as a tensor."""
TOKENISERS = min(4, os.cpu_count() or 1)
"""Number of windows tokenised at once; a fast tokenizer uses all cores unless TOKENIZERS_PARALLELISM is false."""
_DEFAULTS, _SILENT = EncodeOptions(), Silent()
_PASSES = 4  # minimum number of passes per group of windows on a GPU; its texts are sorted by length together
_FEW = 15  # maximum number of different texts that may have equal vectors


class Representation:
    """The representation of texts in an encoder family; by default one vector per text, stored as a flat index.

    The tensor of n texts is float32 [n, d]; for token vectors it is [n, T, d + 1], padded to T tokens, where the
    last number of each vector is 1 for a scored token and 0 otherwise.

    form: name of the representation. files: names of the files in a folder of encoded texts. block: number of documents
    to write at a time.
    """

    form: ClassVar[Form] = "vectors"
    files: ClassVar[Sequence[str]] = ("index", "docid")
    block: ClassVar[int] = 4096

    count_rows = staticmethod(stream.count_rows)

    def expanded(self, read: tokens.Tokens, transformer: Any) -> tokens.Tokens:
        """Apply the transformer's query expansion, if any, to query tokens. Raises ModelError if unsupported."""
        if getattr(transformer, "query_expansion", None):
            raise ModelError("the model's query_expansion requires token vectors; set encoder: multi-vector")
        return read

    def run(self, parts: Sequence[Any], features: dict[str, Tensor], device: torch.device, side: Side) -> Tensor:
        """Encode a batch of texts as a tensor by passing `features` through an encoder's parts."""
        return towers.forward(parts, features, device, side)["sentence_embedding"]

    def gathered(self, batches: Batches, count: int, dimension: int) -> Encoded:
        """Copy `count` encoded texts from batches to the host in row order, by default as float32 [count, d]."""
        vectors = torch.empty((count, dimension))
        for rows, part in batches:
            vectors = vectors if vectors.device == part.device else vectors.to(part.device)
            vectors[towers.placed(rows, part.device)] = part
        array: NDArray[np.float32] = vectors.cpu().numpy()
        return array

    def collect(self, tensor: Tensor) -> Encoded:
        """Copy encoded texts from a tensor to the host, by default as float32 [n, d]."""
        array: NDArray[np.float32] = tensor.float().cpu().numpy()
        return array

    def tensor(self, encoded: Any, device: torch.device) -> Tensor:
        """Copy encoded texts, in the form that `collect` returns, to a tensor on the device."""
        return torch.from_numpy(encoded).to(device)

    def score(self, queries: Tensor, documents: Tensor, columns: Tensor | None) -> Tensor:
        """Compute inner products of queries and documents, float32 or float64 [B, M], with gradients, without autocast.

        columns: int64 [M], the document scored in each column; None scores every document once, in order.
        """
        chosen = documents if columns is None else documents[columns]
        with torch.autocast(queries.device.type, enabled=False):
            return towers.at_least_float32(queries) @ towers.at_least_float32(chosen).T

    def score_lists(self, queries: Tensor, encoded: Any) -> Tensor:
        """Score B queries against M documents each, float32 [B, M], with gradients only for the queries.

        encoded: the B * M documents, in the form that an index stores.
        """
        return towers.list_products(queries, self.tensor(encoded, queries.device))

    def rows(
        self, encoder: "Encoder", corpus: corpus.Corpus, folder: Path, progress: Progress, here: World
    ) -> StoredRows:
        """Return the rows to store, by default one per document. Processes may share counts through `folder`."""
        return corpus

    def writer(self, folder: Path, rows: Any, dimension: int) -> StoreWriter:
        """Return a writer that stores the encoded rows in a folder, by default as a flat index."""
        return vectors.FlatWriter(folder, dimension, len(rows))


class Encoder:
    """A trainable sentence-transformers model with the prompts, lengths and token types of a spec."""

    def __init__(
        self, module: SentenceTransformer, spec: FullSpec, representation: Representation | None = None
    ) -> None:
        """Wrap a module. representation: form of the encoded texts, by default one vector per text."""
        self.module, self.spec = module, spec
        self.representation = representation or Representation()
        self.files, self.block = self.representation.files, self.representation.block

    @property
    def dimension(self) -> int:
        """The dimension of the vectors after any truncation, or the number of terms."""
        return int(self.module.get_embedding_dimension() or 0)

    @property
    def device(self) -> torch.device:
        """The device that the model runs on."""
        return torch.device(self.module.device)

    @property
    def twins(self) -> bool:
        """Whether queries and documents are encoded by separate modules."""
        return towers.has_twins(self.module)

    def parts(self, side: Side) -> list[Any]:
        """Return the modules of one side in order, from the transformer to the truncation of vectors, if any."""
        parts, kept = towers.route(self.module, side), self.spec.truncate_dim
        return parts if kept is None else [*parts, towers.Cut(kept, self.spec.similarity == "cosine")]

    def prompted(self, side: Side, prompt: str | None) -> "Encoder":
        """Return an encoder with the same modules but the given prompt for one side; `self` if `prompt` is None."""
        if prompt is None:
            return self
        changed: dict[str, Any] = {f"{side}_prompt": prompt}
        return type(self)(self.module, replace(self.spec, **changed), self.representation)

    def tokenise(self, texts: Sequence[str], side: Side) -> tokens.Tokens:
        """Tokenise texts with the side's prompt, truncate them to its maximum length, and apply any query expansion."""
        prompt, parts = self.spec.prompt(side), self.parts(side)
        prompted = [prompt + text for text in texts] if prompt else texts
        read = tokens.tokenise(parts[0].tokenizer, prompted, self.spec.length(side), _prompt_length(parts, prompt))
        read = self.representation.expanded(read, parts[0]) if side == "query" else read
        return tokens.typed(read, self.spec.token_type(side)) if self.spec.typed else read

    def features(self, texts: Sequence[str], side: Side) -> dict[str, Tensor]:
        """Return padded inputs of `embed` for texts, by name: int64 [n, longest] on the CPU; `prompt_length` is [n]."""
        return self.tokenise(texts, side).batch(np.arange(len(texts)))

    def segment(self, texts: Sequence[str], cut: Segments) -> tokens.SegmentTokens:
        """Split documents into tokenised segments, each with the prompt. Raises ModelError if `cut` is unsuitable."""
        parts, prompt = self.parts("document"), self.spec.prompt("document")
        most = loading.positions(parts[0].model)
        if most is not None and cut.length > most:
            raise ModelError(
                f"model {self.spec.name!r} reads at most {most} tokens, but segments have {cut.length}; shorten them"
            )
        segmented = tokens.tokenise_segments(parts[0].tokenizer, texts, cut, prompt, _prompt_length(parts, prompt))
        if not self.spec.typed:
            return segmented
        return replace(segmented, tokens=tokens.typed(segmented.tokens, self.spec.document_token_type))

    def check_fit(self) -> None:
        """Encode a short text with each side. Raises an exception of any class if the modules do not fit together."""
        with towers.evaluating(self.module), torch.inference_mode():
            for side in SIDES:
                encoded = self.embed(self.features(["a trial"], side), side)
                self.representation.gathered([(np.zeros(1, np.int64), encoded)], 1, self.dimension)

    def embed(self, features: dict[str, Tensor], side: Side) -> Tensor:
        """Encode `features` with gradients, in the form of `Representation`; only the transformer may use bfloat16."""
        return self.representation.run(self.parts(side), features, self.device, side)

    def score(self, queries: Tensor, documents: Tensor, columns: Tensor | None = None) -> Tensor:
        """Score queries against documents, float [B, M], with gradients; see `Representation.score`."""
        return self.representation.score(queries, documents, columns)

    def score_lists(self, queries: Tensor, encoded: Encoded) -> Tensor:
        """Score B queries against M stored documents each, float32 [B, M], with gradients only for the queries."""
        return self.representation.score_lists(queries, encoded)

    def collect(self, tensor: Tensor) -> Encoded:
        """Copy the output of `embed` to the host, in the form used to search an index."""
        return self.representation.collect(tensor.detach())

    def tensor(self, encoded: Encoded) -> Tensor:
        """Copy encoded texts of an index to a tensor on the device, in the form that `embed` returns."""
        return self.representation.tensor(encoded, self.device)

    def truncated(self, encoded: Tensor, dimension: int) -> Tensor:
        """Truncate vectors from `embed` to [n, dimension], normalised for cosine. Raises ModelError for other forms."""
        if self.representation.form != "vectors":
            raise ModelError(f"model {self.spec.name!r} does not encode each text as one vector; omit dims")
        if dimension == encoded.shape[-1]:
            return encoded
        return towers.cut(encoded, dimension, self.spec.similarity == "cosine")

    def encode(
        self, texts: Sequence[str], side: Side, options: EncodeOptions = _DEFAULTS, progress: Progress = _SILENT
    ) -> Any:
        """Encode texts in order, by default as float32 [n, dimension]. Raises the errors of `encode_windows`."""
        with progress.task(f"encode {side} texts", len(texts), "texts") as task:
            encoded = self.encode_windows(_windows(texts, options.window), side, options, task.advance)
            return self._joined([part for _, part in encoded])

    def encode_segments(
        self, texts: Sequence[str], cut: Segments, options: EncodeOptions = _DEFAULTS, progress: Progress = _SILENT
    ) -> tuple[Any, NDArray[np.int64]]:
        """Return the encoded segments, by default float32 [S, dimension], and each text's segment count, int64 [n]."""
        windows = _windows(texts, max(1, options.window // cut.count))
        with progress.task("encode segments", None, "segments") as task:
            found = list(Inference.of(self, "document", options, cut).windows(windows, task.advance))
        counts = [np.empty(0, np.int64), *(counts for *_, counts in found if counts is not None)]
        return self._joined([part for _, _, part, _ in found]), np.concatenate(counts)

    def encode_windows(
        self,
        windows: Windows,
        side: Side,
        options: EncodeOptions,
        advance: Callable[[int], None],
        cut: Segments | None = None,
    ) -> Iterator[tuple[int, Any]]:
        """Yield the start position and the encoded texts of each window, holding only a few windows in memory.

        advance: called with the number of texts in each pass. cut: how to split documents into segments, if at all.

        Raises ModelError if a value is not finite, or the first window has over 15 distinct texts with equal vectors.
        """
        for number, (start, texts, encoded, _) in enumerate(
            Inference.of(self, side, options, cut).windows(windows, advance)
        ):
            if not number:
                _check_different(self.spec.name, side, texts, encoded)
            yield start, encoded

    def _joined(self, parts: Sequence[Any]) -> Any:
        if not parts:
            return self.representation.gathered((), 0, self.dimension)
        return np.concatenate(parts) if isinstance(parts[0], np.ndarray) else type(parts[0]).join(parts)

    def rows(self, corpus: corpus.Corpus, cut: Segments | None, folder: Path, progress: Progress, here: World) -> Any:
        """Return the rows to store: documents or segments. Raises ModelError if documents cannot be segmented."""
        if cut is None:
            return self.representation.rows(self, corpus, folder, progress, here)
        if self.representation.form == "token-vectors":
            raise ModelError(f"model {self.spec.name!r} has one vector per token and cannot encode segments; omit them")
        return stream.SegmentedCorpus.counted(self, corpus, cut, folder, progress, here)

    def writer(self, folder: Path, rows: StoredRows) -> StoreWriter:
        """Return a writer that stores the encoded rows in `folder`."""
        return self.representation.writer(folder, rows, self.dimension)

    def save(self, folder: Path, card: str | None = None) -> None:
        """Save the model for `SentenceTransformer(folder)`. card: README.md text. Raises ModelError if that fails."""
        loading.save_module(self.module, self.spec, folder, card)


def _windows(texts: Sequence[str], size: int) -> Windows:
    return ((start, texts[start : start + size]) for start in range(0, len(texts), size))


def _prompt_length(parts: Sequence[Any], prompt: str) -> int:
    if not prompt or all(getattr(part, "include_prompt", True) for part in parts):
        return 0
    ids = parts[0].tokenizer(prompt)["input_ids"]
    return len(ids) - int(ids[-1] in parts[0].tokenizer.all_special_ids)


def _check_different(name: str, side: Side, texts: Sequence[str], encoded: Encoded) -> None:
    arrays = [encoded] if isinstance(encoded, np.ndarray) else encoded.flat.values()
    alike = all(np.all(array == array[:1]) for array in arrays)
    if alike and len({" ".join(text.casefold().split()) for text in texts}) > _FEW:
        problem = f"the vectors of {len(texts)} {side} texts are all identical"
        raise ModelError(f"model {name!r}: {problem}; check its weights and its tokenizer")


def _first_broken(encoded: Encoded) -> int | None:
    if isinstance(encoded, np.ndarray):
        broken = np.flatnonzero(~np.isfinite(encoded).all(axis=1))
        return int(broken[0]) if len(broken) else None
    finite = [np.isfinite(array).all(axis=tuple(range(1, array.ndim))) for array in encoded.flat.values()]
    positions = np.flatnonzero(~np.logical_and.reduce(finite))
    return int(np.searchsorted(encoded.offsets, positions[0], "right")) - 1 if len(positions) else None


_Counts = NDArray[np.int64] | None
_Window = tuple[int, Sequence[str], tuple[tokens.Tokens, _Counts]]
"""A window: position of its first text, its texts, their tokens, and the segments per text, int64 [n], if any."""


@dataclass(frozen=True)
class Inference:
    """A model prepared to encode queries or documents.

    parts: the modules, the first possibly in bfloat16. budget: tokens per forward pass. joins: whether to collect
    windows until they fill a few passes. cut: how to split documents into segments, if at all. packing: padding-free
    layout from an optional package, or None.
    """

    encoder: Encoder
    side: Side
    parts: Sequence[nn.Module]
    budget: towers.Budget
    joins: bool
    cut: Segments | None = None
    packing: Any = None

    @classmethod
    def of(cls, encoder: Encoder, side: Side, options: EncodeOptions, cut: Segments | None = None) -> "Inference":
        """Prepare a model to encode one side with `options`. cut: how to split documents into segments, if at all."""
        device, (first, *rest) = encoder.device, encoder.parts(side)
        whole = next(first.parameters()).dtype == torch.float32
        wanted = (whole or options.precision == "bf16") and towers.takes_bf16(options.precision, first, "inference")
        parts = [towers.in_bfloat16(first) if wanted and whole else towers.sharing(first), *rest]
        faster, packing = towers.arrange(parts[0]), None
        if faster is not None:
            with _computing(encoder, parts):
                packing = faster.packing(encoder, side, parts)
        most = towers.most_tokens(parts[0], device)
        budget = towers.Budget(min(options.tokens_per_batch or towers.usual_budget(device), most))
        return cls(encoder, side, parts, budget, device.type != "cpu", cut, packing)

    def windows(
        self, windows: Windows, advance: Callable[[int], None]
    ) -> Iterator[tuple[int, Sequence[str], Encoded, _Counts]]:
        """Yield each window's start position, texts, encoded texts, and segments per text (int64 [n] or None).

        Raises ModelError, with the position of the text, if a vector is not finite.
        """
        group, size = list[_Window](), 0
        with ThreadPoolExecutor(TOKENISERS) as tokenisers:
            pending = ((start, texts, tokenisers.submit(self._tokens, texts)) for start, texts in windows)
            for start, texts, waiting in towers.ahead(pending, TOKENISERS):
                group.append((start, texts, waiting.result()))
                size += int(group[-1][2][0].offsets[-1])
                if not self.joins or size >= _PASSES * self.budget.tokens:
                    yield from self._together(group, advance)
                    group, size = [], 0
            if group:
                yield from self._together(group, advance)

    def _tokens(self, texts: Sequence[str]) -> tuple[tokens.Tokens, _Counts]:
        if self.cut is None:
            return self.encoder.tokenise(texts, self.side), None
        found = self.encoder.segment(texts, self.cut)
        return found.tokens, found.counts

    def _together(self, group: list[_Window], advance: Callable[[int], None]) -> Iterator[Any]:
        encoded, stop = self._encoded(tokens.Tokens.join([own for _, _, (own, _) in group]), advance), 0
        for start, texts, (own, counts) in group:
            first, stop = stop, stop + len(own.lengths)
            part = encoded if len(group) == 1 else encoded[first:stop]
            if (broken := _first_broken(part)) is not None:
                position = str(start + broken) if counts is None else f"{start} or later"
                raise ModelError(
                    f"model {self.encoder.spec.name!r}: the vector of {self.side} text {position} (counted from 0) "
                    "is not finite; check the model's weights, or encode with precision fp32"
                )
            yield start, texts, part, counts

    def _encoded(self, read: tokens.Tokens, advance: Callable[[int], None]) -> Encoded:
        encoder, form = self.encoder, self.encoder.representation
        packing = self.packing if self.packing is not None and self.packing.takes(read) else None
        put = partial(read.batch if packing is None else partial(packing.features, read), device=encoder.device)
        batches = tokens.token_batches if packing is None else packing.batches

        def run(features: dict[str, Tensor]) -> Tensor:
            return form.run(self.parts, features, encoder.device, self.side)

        with _computing(encoder, self.parts):
            done = towers.in_passes(read.lengths, self.budget, batches, put, run, advance)
            return form.gathered(done, len(read.lengths), encoder.dimension)


@contextmanager
def _computing(encoder: Encoder, parts: Sequence[nn.Module]) -> Iterator[None]:
    products = devices.float32_products(encoder.device)
    with towers.evaluating(encoder.module), towers.evaluating(parts[0]), products, torch.inference_mode():
        yield


def split(encoder: Encoder) -> Encoder:
    """Return an encoder with separate sides: the given modules encode documents, and copies of them encode queries.

    If the sides are separate already, the document modules are kept and the query modules are copied.
    """
    queries = towers.with_own_queries(towers.route(encoder.module, "query"))
    modules = [towers.twins(queries, towers.route(encoder.module, "document"))]
    whole = loading.assembled(modules, encoder.spec, str(encoder.device), type(encoder.module))
    named = loading.with_prompts(whole, encoder.module.prompts, encoder.module.default_prompt_name)
    return type(encoder)(named, encoder.spec, encoder.representation)
