"""Segments of long documents: windows of tokens whose vectors are in consecutive rows of an index.

The ids of document D's segments are `D#0`, `D#1`, ..., as Pyserini's option `--max-passage` expects.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hardneg.records import ArtifactError, counted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DELIMITER = "#"
_CHUNK = 16 << 20  # bytes of a docid file, read at a time
_ID = re.compile(rb".+#([0-9]{1,9})\n?")
_SHORTEST, _LONGEST, _MOST = 3, 1_000_000, 100_000


@dataclass(frozen=True)
class Segments:
    """The sizes of the windows that documents are cut into.

    length: tokens per segment, including special tokens and the prompt.
    stride: tokens of text from one segment's start to the next; None, or more than fit a segment, means no overlap.
    count: the maximum number of segments per document; the rest of the text is ignored.
    """

    length: int = 512
    stride: int | None = None
    count: int = 4

    def problems(self) -> list[str]:
        """Return one message per invalid field; an empty list if all are valid."""
        faults = []
        if not _SHORTEST <= self.length <= _LONGEST:
            faults.append(f"length is {self.length}; it must be {_SHORTEST} to {_LONGEST} tokens")
        if self.stride is not None and not 1 <= self.stride <= self.length:
            faults.append(f"stride is {self.stride}; it must be 1 to {self.length}, or omitted for no overlap")
        if not 1 <= self.count <= _MOST:
            faults.append(f"count is {self.count}; it must be 1 to {_MOST}")
        return faults


@dataclass(frozen=True, slots=True)
class Windows:
    """The segments of n documents, in document order.

    starts, stops: int64 [S], the index of each segment's first token, and of the token after its last.
    document: int64 [S], the index of each segment's document. counts: int64 [n], segments per document, at least 1.
    cut_off: bool [n], true where tokens remain after the last segment.
    """

    starts: "NDArray[np.int64]"
    stops: "NDArray[np.int64]"
    document: "NDArray[np.int64]"
    counts: "NDArray[np.int64]"
    cut_off: "NDArray[np.bool_]"


def windows(
    lengths: "NDArray[np.int64]", size: "NDArray[np.int64]", stride: "NDArray[np.int64]", count: int
) -> Windows:
    """Cut documents into segments; an empty document has one empty segment.

    Args:
        lengths: int64 [n], tokens of each document.
        size: int64 [n], tokens per segment of each document.
        stride: int64 [n], tokens between the starts of consecutive segments, at most `size`.
        count: the maximum number of segments per document.
    """
    import numpy as np

    wanted = 1 + -(-np.maximum(lengths - size, 0) // stride)
    counts = np.minimum(wanted, count)
    document = np.repeat(np.arange(len(lengths)), counts)
    number = np.arange(len(document)) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = number * stride[document]
    stops = np.minimum(starts + size[document], lengths[document])
    return Windows(starts, stops, document, counts, wanted > count)


def segment_ids(doc_ids: Iterable[str], counts: Iterable[int]) -> Iterator[str]:
    """Yield the segment ids `D#0`, `D#1`, ... of each document D; counts: the number of segments per document."""
    for doc_id, count in zip(doc_ids, counts, strict=True):
        yield from (f"{doc_id}{DELIMITER}{number}" for number in range(count))


def document_rows(folder: Path, doc_ids: Sequence[str]) -> "NDArray[np.int64] | None":
    """Return where each document's vectors start in an index folder; None if the index has no segments.

    Document ids may end in `#0` themselves: the index has segments if its first id is the corpus's first id plus `#0`.

    Returns:
        int64 [N + 1], the row of each document's first vector, followed by the number of vectors.

    Raises ArtifactError if the index has a different number of documents, or its segment ids have gaps.
    """
    path = folder / "docid"
    if not len(doc_ids) or not path.exists():
        return None
    with path.open(encoding="utf-8") as file:
        named = file.readline().rstrip()
    if named != f"{doc_ids[0]}{DELIMITER}0":
        return None
    first = first_rows(path)
    if len(first) - 1 != len(doc_ids):
        reason = f"segments of {counted(len(first) - 1, 'document')}, but the corpus has {len(doc_ids)}"
        raise ArtifactError(f"{path}: {reason}; re-encode the corpus")
    return first


def first_rows(path: Path) -> "NDArray[np.int64]":
    """The first row of each document in a `docid` file, followed by the number of rows: int64 [D + 1].

    Raises ArtifactError if a line does not end in `#` and the segment number, counted from 0 within each document.
    """
    import numpy as np

    parts, row, last_begin = [np.empty(0, np.int64)], 0, -1
    with path.open("rb") as file:
        while lines := file.readlines(_CHUNK):
            numbers = np.array([int(found[1]) if (found := _ID.fullmatch(line)) else -1 for line in lines])
            rows = np.arange(row, row + len(numbers))
            begins = rows[numbers == 0]
            of = np.searchsorted(begins, rows, "right")
            expected = rows - np.concatenate([[last_begin], begins])[of]
            wrong = (numbers != expected) | ((of == 0) & (last_begin < 0))
            if wrong.any():
                line = row + int(np.argmax(wrong)) + 1
                raise ArtifactError(f"{path}:{line}: segment ids must be D#0, D#1, ...; re-encode the corpus")
            parts.append(begins)
            row, last_begin = row + len(numbers), int(begins[-1]) if len(begins) else last_begin
    return np.concatenate([*parts, [row]])
