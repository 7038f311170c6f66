"""Many texts encoded in memory, kept about twice a minute: what is made of them is there after a stop."""

from collections.abc import Sequence

import numpy as np

from hardneg.encoders.inference import EncodeOptions
from hardneg.encoders.protocol import TextEncoder, TextWindows
from hardneg.encoders.spec import Side
from hardneg.formats.vectors.begun_blocks import BegunBlock, drop
from hardneg.records.types import Encoded
from hardneg.runtime.progress import Progress

_ALL = "texts"


def encode_kept(
    encoder: TextEncoder, texts: Sequence[str], side: Side, options: EncodeOptions, progress: Progress, keep: bool
) -> Encoded:
    """What `encoder.encode` makes of the texts; whole windows that a stopped run has kept are not encoded again.

    Args:
        encoder: encodes window by window.
        texts: in order.
        kind: of the texts.
        options: `begun` is a folder for what is made of these texts, and of no others.
        progress: told of the texts that are done.
        keep: whether all is kept when it is made, for the run goes on to other texts. What took less than half a minute
            is not kept otherwise.

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
