"""Segments of long documents: as token ids, each a text of its own, and as the rows of a corpus."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardneg.encoders.tokens.backend import backend_of
from hardneg.encoders.tokens.backend import cut as first_ids
from hardneg.encoders.tokens.tokens import Tokens, padding_of
from hardneg.formats.corpus import Corpus
from hardneg.formats.hash_index import ranges
from hardneg.formats.segments import Segments, Windows, segment_ids, windows
from hardneg.records.errors import ModelError
from hardneg.runtime.distributed import World, barrier
from hardneg.runtime.progress import Progress
from hardneg.store.atomic_write import replacing

if TYPE_CHECKING:
    from hardneg.encoders.encoder import Encoder


_DOCUMENTS = 1024  # counted at a time

Count = Callable[[Sequence[str]], NDArray[np.int64]]
"""The number of rows of each of some documents."""


def count_rows(
    corpus: Corpus, unit: str, count: Count, folder: Path, progress: Progress, here: World
) -> NDArray[np.int64]:
    """Counts the rows of each document, int64 [N]; several processes count a part each and meet at the end.

    The counts stay in `folder`, in files `<unit>-*.npy`, for a run that resumes.
    """
    paths = [folder / f"{unit}-{rank}-of-{here.size}.npy" for rank in range(here.size)]
    if not paths[here.rank].exists():
        share, counts = here.share(len(corpus)), [np.empty(0, np.int32)]
        with progress.task(f"count {unit}", share.stop - share.start, "documents") as task:
            for texts in corpus.blocks(share.start, share.stop, _DOCUMENTS):
                counts.append(count(texts).astype(np.int32))
                task.advance(len(texts))
        with replacing(paths[here.rank]) as file:
            np.save(file, np.concatenate(counts), allow_pickle=False)
    barrier()
    counted = np.concatenate([np.load(path, allow_pickle=False) for path in paths])
    barrier()  # before the first process may remove them
    return counted.astype(np.int64)


_TEXTS = 128  # tokenised at a time: of a long one the tokenizer holds more than is kept


@dataclass(frozen=True, slots=True)
class SegmentTokens:
    """The tokenised segments of n documents; counts: int64 [n], the segments of each; cut_off: bool [n]."""

    tokens: Tokens
    counts: NDArray[np.int64]
    cut_off: NDArray[np.bool_]


def rows_of(tokenised: Tokens | SegmentTokens) -> Tokens:
    """The rows to encode of texts that were tokenised, whole or in segments."""
    return tokenised.tokens if isinstance(tokenised, SegmentTokens) else tokenised


@dataclass(frozen=True)
class _Frame:
    """The special tokens around a text: values before, after and inside it, by the model's input name."""

    before: Mapping[str, list[int]]
    behind: Mapping[str, list[int]]
    inside: Mapping[str, int]

    @classmethod
    def of(cls, tokenizer: Any) -> "_Frame":
        """Probes a tokenizer with a text of one letter."""
        probe = tokenizer("a", return_special_tokens_mask=True)
        text = [position for position, special in enumerate(probe.pop("special_tokens_mask")) if not special]
        return cls(
            {name: values[: text[0]] for name, values in probe.items()},
            {name: values[text[-1] + 1 :] for name, values in probe.items()},
            {name: values[text[0]] for name, values in probe.items()},
        )

    @property
    def same(self) -> dict[str, int]:
        """The inputs of which all tokens have one value, but for the ids."""
        around = {name: {*self.before[name], *self.behind[name]} for name in self.inside if name != "input_ids"}
        return {name: self.inside[name] for name, values in around.items() if values <= {self.inside[name]}}

    @property
    def sizes(self) -> tuple[int, int]:
        """The number of tokens before and after a text."""
        return len(self.before["input_ids"]), len(self.behind["input_ids"])


@dataclass(frozen=True)
class _Plain:
    """n texts without special tokens: ids int32, offsets int64 [n + 1]; prompts: int64 [n], ids of the prompt."""

    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]
    prompts: NDArray[np.int64]


def tokenise_segments(
    tokenizer: Any, texts: Sequence[str], cut: Segments, prompt: str = "", prompt_length: int = 0
) -> SegmentTokens:
    """Every segment of every text, with the prompt and the special tokens that a text gets.

    The first segment is the text cut to `cut.length` tokens, to the token.

    Raises:
        ModelError: prompt and special tokens leave no room for text.
    """
    frame = _Frame.of(tokenizer)
    room = cut.length - sum(frame.sizes)
    stride = min(cut.stride or room, room)
    plain = _plain(tokenizer, texts, prompt, room + (cut.count - 1) * stride + 1)
    size = room - plain.prompts
    if (size < 1).any() or room < 1:
        raise ModelError(f"segments of {cut.length} tokens have no room for text after the prompt: make them longer")
    cuts = windows(np.diff(plain.offsets) - plain.prompts, size, np.minimum(stride, size), cut.count)
    columns, offsets = _columns(frame, plain, cuts)
    left = tokenizer.padding_side == "left"
    tokens = Tokens(columns, offsets, padding_of(tokenizer), left, prompt_length, frame.same)
    return SegmentTokens(tokens, cuts.counts, cuts.cut_off)


def _plain(tokenizer: Any, texts: Sequence[str], prompt: str, longest: int) -> _Plain:
    """The texts with the prompt, truncated to `longest` tokens."""
    backend = None if prompt else backend_of(tokenizer)
    if backend is not None and tokenizer.truncation_side == "right":
        ids, offsets = first_ids(backend.ids(texts, longest), longest)
        return _Plain(ids, offsets, np.zeros(len(texts), np.int64))
    encoded = list(_encoded(tokenizer, texts, prompt, longest))
    rows = [part for group in encoded for part in group["input_ids"]]
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    prompts = np.zeros(len(rows), np.int64)
    if prompt:
        spans = (part for group in encoded for part in group["offset_mapping"])
        prompts[:] = [sum(end <= len(prompt) for _, end in part[: 4 * len(prompt)]) for part in spans]
    return _Plain(np.fromiter(chain.from_iterable(rows), np.int32, int(offsets[-1])), offsets, prompts)


def _encoded(tokenizer: Any, texts: Sequence[str], prompt: str, longest: int) -> Iterator[Mapping[str, Any]]:
    for start in range(0, len(texts), _TEXTS):
        yield tokenizer(
            [prompt + text for text in texts[start : start + _TEXTS]],
            add_special_tokens=False,
            truncation="longest_first",
            max_length=longest,
            return_attention_mask=False,
            return_token_type_ids=False,
            return_offsets_mapping=bool(prompt),
        )


def _columns(frame: _Frame, plain: _Plain, cuts: Windows) -> tuple[dict[str, NDArray[np.int32]], NDArray[np.int64]]:
    """The columns of all segments and their offsets: special tokens, the prompt, the text, special tokens."""
    before, behind = frame.sizes
    begins = plain.offsets[:-1][cuts.document] + before + behind
    text = begins + plain.prompts[cuts.document]
    zeros = np.zeros_like(begins)
    first = np.column_stack([zeros, begins, text + cuts.starts, zeros + before])
    end = np.column_stack([zeros + before, text, text + cuts.stops, zeros + before + behind])
    positions, _ = ranges(first.reshape(-1), end.reshape(-1))
    columns = {}
    for name in frame.inside.keys() - frame.same.keys():
        values = plain.ids if name == "input_ids" else np.full(len(plain.ids), frame.inside[name], np.int32)
        columns[name] = np.concatenate([frame.before[name], frame.behind[name], values]).astype(np.int32)[positions]
    return columns, np.concatenate([[0], np.cumsum((end - first).sum(axis=1))])


@dataclass(frozen=True, eq=False)
class SegmentedCorpus:
    """A corpus and its cut; a row is a segment.

    first: int64 [N + 1], the row of each document's first segment, and the number of rows.
    cut_off: number of documents with text after their last segment, which is not read.
    """

    corpus: Corpus
    cut: Segments
    first: NDArray[np.int64]
    cut_off: int

    @classmethod
    def counted(
        cls, encoder: "Encoder", corpus: Corpus, cut: Segments, folder: Path, progress: Progress, here: World
    ) -> "SegmentedCorpus":
        """Counts each document's segments, as `count_rows` does."""

        def count(texts: Sequence[str]) -> NDArray[np.int64]:  # one more where a document is cut off
            segments = encoder.segment(texts, cut)
            return segments.counts + segments.cut_off

        wanted = count_rows(corpus, "segments", count, folder, progress, here)
        first = np.concatenate([[0], np.cumsum(np.minimum(wanted, cut.count), dtype=np.int64)])
        return cls(corpus, cut, first, int((wanted > cut.count).sum()))

    def __len__(self) -> int:
        return int(self.first[-1])

    def blocks(self, start: int, stop: int, size: int) -> Iterator[Sequence[str]]:
        """The texts of documents `start` to `stop`, `size` at a time."""
        return self.corpus.blocks(start, stop, size)

    @property
    def doc_ids(self) -> Iterator[str]:
        """The id of each row."""
        return segment_ids(self.corpus.doc_ids, map(int, np.diff(self.first)))
