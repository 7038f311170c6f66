"""Helpers for term weights as dictionaries, one per text, and for stores of these."""

from pathlib import Path

import numpy as np
from hardneg_sparse.store import SparseRows, SparseWriter

LISTS = [{0: 1.5, 4: 2.0}, {}, {2: 0.25}, {0: 1.0, 1: 3.0, 3: -0.5}, {}]


def rows_of(lists: list[dict[int, float]], width: int = 5) -> SparseRows:
    offsets = np.cumsum([0, *map(len, lists)]).astype(np.int64)
    terms = np.array([term for weights in lists for term in sorted(weights)], np.int32)
    weights = np.array([weights[term] for weights in lists for term in sorted(weights)], np.float32)
    return SparseRows(offsets, terms, weights, width)


def lists_of(rows: SparseRows) -> list[dict[int, float]]:
    spans = zip(rows.offsets[:-1], rows.offsets[1:], strict=True)
    return [dict(zip(rows.terms[i:j].tolist(), rows.weights[i:j].tolist(), strict=True)) for i, j in spans]


def write(folder: Path, lists: list[dict[int, float]] = LISTS, block: int = 2, width: int = 5) -> Path:
    with SparseWriter(folder, width, len(lists)) as writer:
        for start in range(0, len(lists), block):
            writer.write(rows_of(lists[start : start + block], width))
        writer.write_doc_ids(f"d{i}" for i in range(len(lists)))
        writer.close()
    return folder
