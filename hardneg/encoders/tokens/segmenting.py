"""Segments of long documents: as token ids, each a text of its own, and as the rows of a corpus."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardneg.encoders.tokens.tokens import Ids, Tokens, backend_of, framed
from hardneg.encoders.tokens.tokens import cut as first_ids
from hardneg.formats.corpus import Corpus
from hardneg.formats.hash_index import ranges
from hardneg.formats.segments import Segments, segment_ids, windows
from hardneg.records import ModelError
from hardneg.runtime import Progress, World, barrier
from hardneg.store import replacing

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


def tokenise_segments(
    tokenizer: Any, texts: Sequence[str], cut: Segments, prompt: str = "", prompt_length: int = 0
) -> SegmentTokens:
    """Every segment of every text, with the prompt and the special tokens that a text gets.

    The first segment is the text cut to `cut.length` tokens, to the token.

    Raises:
        ModelError: prompt and special tokens leave no room for text.
    """
    backend = backend_of(tokenizer)
    if backend is None:
        raise ModelError("the model has a slow tokenizer, whose texts cannot be cut: leave segments out")
    frame = backend.frames[False]
    room = cut.length - frame.size
    stride = min(cut.stride or room, room)
    longest = room + (cut.count - 1) * stride + 1
    if not prompt and tokenizer.truncation_side == "right":
        ids, prompts = first_ids(backend.ids(texts), longest), np.zeros(len(texts), np.int64)
    else:
        ids, prompts = _prompted(tokenizer, texts, prompt, longest)
    size = room - prompts
    if (size < 1).any() or room < 1:
        raise ModelError(f"segments of {cut.length} tokens have no room for text after the prompt: make them longer")
    cuts = windows(np.diff(ids[1]) - prompts, size, np.minimum(stride, size), cut.count)
    begins = ids[1][:-1][cuts.document]
    text = begins + prompts[cuts.document]
    first, end = np.column_stack([begins, text + cuts.starts]), np.column_stack([text, text + cuts.stops])
    positions, _ = ranges(first.reshape(-1), end.reshape(-1))
    segments = ids[0][positions], np.concatenate([[0], np.cumsum((end - first).sum(axis=1))])
    return SegmentTokens(framed(tokenizer, frame, [segments], prompt_length), cuts.counts, cuts.cut_off)


def _prompted(tokenizer: Any, texts: Sequence[str], prompt: str, longest: int) -> tuple[Ids, NDArray[np.int64]]:
    """The ids of the texts with the prompt, `longest` of each at most, and how many are the prompt's: int64 [n]."""
    rows: list[list[int]] = []
    prompts: list[int] = []
    for start in range(0, len(texts), _TEXTS):
        encoded = tokenizer(
            [prompt + text for text in texts[start : start + _TEXTS]],
            add_special_tokens=False,
            truncation="longest_first",
            max_length=longest,
            return_attention_mask=False,
            return_token_type_ids=False,
            return_offsets_mapping=True,
        )
        rows += encoded["input_ids"]
        spans = (part[: 4 * len(prompt)] for part in encoded["offset_mapping"])
        prompts += [sum(end <= len(prompt) for _, end in part) for part in spans]
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return (np.fromiter(chain.from_iterable(rows), np.int32, int(offsets[-1])), offsets), np.array(prompts, np.int64)


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
