"""Counts the vectors of each document before it is encoded: one a token, but for tokens that are not scored."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from hardneg.encoders.tokens.tokens import Tokens
from hardneg.formats.corpus import Corpus
from hardneg.runtime.distributed import World, barrier
from hardneg.runtime.progress import Progress
from hardneg.store.atomic_write import replacing

if TYPE_CHECKING:
    from hardneg.encoders.encoder import Encoder

_DOCUMENTS = 1024  # counted at a time


def count_tokens(
    encoder: "Encoder", corpus: Corpus, folder: Path, progress: Progress, here: World
) -> NDArray[np.int64]:
    """Where each document's vectors begin, and their number: int64 [N + 1]; several processes count a part each.

    The counts stay in `folder`, in files `tokens-*.npy`, for a run that resumes.
    """
    paths = [folder / f"tokens-{rank}-of-{here.size}.npy" for rank in range(here.size)]
    if not paths[here.rank].exists():
        counts = _counts(encoder, corpus, here.share(len(corpus)), progress)
        with replacing(paths[here.rank]) as file:
            np.save(file, counts, allow_pickle=False)
    barrier()
    counted = np.concatenate([np.load(path, allow_pickle=False) for path in paths])
    barrier()  # before the first process may remove them
    return np.concatenate([[0], np.cumsum(counted, dtype=np.int64)])


def _counts(encoder: "Encoder", corpus: Corpus, share: slice, progress: Progress) -> NDArray[np.int32]:
    mask = next(part for part in encoder.parts("document") if hasattr(part, "skiplist_words"))
    counts = [np.empty(0, np.int32)]
    with progress.task("count tokens", share.stop - share.start, "documents") as task:
        for texts in corpus.blocks(share.start, share.stop, _DOCUMENTS):
            counts.append(scored(encoder.tokenise(texts, "document"), mask))
            task.advance(len(texts))
    return np.concatenate(counts)


def scored(tokens: Tokens, mask: Any) -> NDArray[np.int32]:
    """int32 [n], the tokens of each document that a `MultiVectorMask` of sentence-transformers leaves."""
    ids = torch.from_numpy(tokens.columns["input_ids"]).long()
    kept = mask({"input_ids": ids, "attention_mask": torch.ones_like(ids)}, task="document")["attention_mask"]
    before = np.concatenate([[0], np.cumsum(kept.numpy(), dtype=np.int64)])
    return np.diff(before[tokens.offsets]).astype(np.int32)
