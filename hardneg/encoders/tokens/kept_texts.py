"""Encodes many texts in memory, saved about twice a minute: a stopped run resumes."""

from collections.abc import Sequence

import numpy as np

from hardneg.encoders.protocol import EncodeOptions, TextEncoder, TextWindows
from hardneg.encoders.spec import Side
from hardneg.formats.vectors.begun_blocks import BegunBlock, drop
from hardneg.records.types import Encoded
from hardneg.runtime.progress import Progress

_ALL = "texts"


def encode_kept(
    encoder: TextEncoder, texts: Sequence[str], side: Side, options: EncodeOptions, progress: Progress, keep: bool
) -> Encoded:
    """Encodes texts as `encoder.encode` does; whole windows that a stopped run has saved are not encoded again.

    Args:
        encoder: encodes window by window.
        texts: in order.
        side: of the texts.
        options: `begun` is a folder for these encoded texts alone.
        progress: shows the encoded texts.
        keep: whether the result is saved at the end too, since the run goes on to other texts. Results of less than
            half a minute are not saved otherwise.

    Raises:
        ModelError: as `encoder.encode`.
    """
    starts = range(0, len(texts), options.window)
    begun = BegunBlock(options.begun, _ALL, len(texts))
    left = begun.left(np.arange(start, min(start + options.window, len(texts))) for start in starts)
    done = len(texts) - begun.missing
    with progress.task(f"encode {side} texts", len(texts), "texts", done) as task:
        windows = TextWindows(((int(rows[0]), texts[rows[0] : rows[-1] + 1]) for rows in left), len(texts))
        for start, encoded in encoder.encode_windows(windows, side, options, task.advance) if left else ():
            begun.add(np.arange(start, start + len(encoded)), encoded)
            drop(options.begun, str(start))
    if left and (keep or begun.is_kept):
        begun.keep()
    whole = begun.whole()
    return encoder.encode(texts, side, options, progress) if whole is None else whole
