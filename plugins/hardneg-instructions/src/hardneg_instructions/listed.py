"""Documents that a collection names for its queries, as the lists of a run."""

from collections.abc import Collection, Sequence

import numpy as np

from hardneg.plugin import RankedList


def listed(doc_ids: Sequence[str], excluded: Collection[str], counts: dict[str, int]) -> RankedList:
    """The documents in their order, each scored by minus its rank; excluded ones are left out, and counted."""
    kept = [doc_id for doc_id in doc_ids if doc_id not in excluded]
    if out := len(doc_ids) - len(kept):
        counts["documents excluded"] = counts.get("documents excluded", 0) + out
    return RankedList(kept, -np.arange(1, len(kept) + 1, dtype=np.float32))
