"""What must be true of weights of terms, whoever made them."""

import numpy as np
from numpy.typing import NDArray

from hardneg.records.types import SparseRows

IMPACT_SCALE = 100.0
"""By which weights are multiplied before they are rounded to whole numbers, where nothing else is said."""


def fault(rows: SparseRows) -> str:
    """What is wrong with weights of terms, with the first text that it is true of; nothing where they are sound."""
    if len(rows.offsets) < 1 or rows.offsets[0] != 0 or (np.diff(rows.offsets) < 0).any():
        return "offsets do not ascend from 0"
    if not rows.offsets[-1] == len(rows.terms) == len(rows.weights):
        return f"{len(rows.terms)} terms and {len(rows.weights)} weights where offsets end at {rows.offsets[-1]}"
    outside = (rows.terms < 0) | (rows.terms >= rows.width)
    if outside.any():
        return _first_fault(rows, outside, f"a term is outside 0 to {rows.width - 1}")
    unordered = np.zeros(len(rows.terms), bool)
    unordered[1:] = rows.terms[1:] <= rows.terms[:-1]
    unordered[rows.offsets[:-1][np.diff(rows.offsets) > 0]] = False
    if unordered.any():
        return _first_fault(rows, unordered, "terms do not ascend")
    useless = ~np.isfinite(rows.weights) | (rows.weights == 0)
    return _first_fault(rows, useless, "a weight is 0 or not finite") if useless.any() else ""


def _first_fault(rows: SparseRows, wrong: NDArray[np.bool_], what: str) -> str:
    entry = int(np.flatnonzero(wrong)[0])
    return f"text {int(np.searchsorted(rows.offsets, entry, 'right')) - 1} (from 0): {what}"
