"""Inner products of vectors rounded to bf16, and how far they can be from those of the vectors themselves."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

_SUM = 2.0**-21  # for each number of a vector: rounding of both sums, with room for units that cut instead of round
_UNDERFLOW = 2.0**-60  # for each number, before the root: what norms and products lose below float32's range
_ROWS = 512  # read at a time: intermediate results stay in caches
_ULP = 2.0**-8  # of a bf16 number, at most: half the distance to its neighbours


@dataclass(frozen=True)
class Rounded:
    """Vectors rounded to bf16.

    values: bf16 [n, d].
    norms: float32 [n], those of the vectors before rounding.
    lost: float32 [n], the norms of what rounding took away.
    """

    values: Tensor
    norms: Tensor
    lost: Tensor

    @classmethod
    def of(cls, vectors: Tensor) -> "Rounded":
        """Rounds float32 [n, d]."""
        values = vectors.bfloat16()
        parts = zip(torch.split(vectors, _ROWS), torch.split(values, _ROWS), strict=True)
        lost = [_norms(torch.sub(part, rounded)) for part, rounded in parts]
        return cls(values, _norms(vectors), torch.cat(lost))


def _norms(vectors: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(vectors, dim=1)
    return norms


def error_bounds(queries: Rounded, documents: Rounded) -> Tensor:
    """Return the error bound of a query's bf16 products with any document, but for rounding the result: float32 [q].

    With q' and d' for what q and d are rounded to, qd - q'd' = (q - q')d + q'(d - d'), so by Cauchy and Schwarz

        |qd - q'd'| <= |q - q'| |d| + |q'| |d - d'|,

    and a sum of n products in float32, in whatever order, is off by about n units of rounding times |q| |d| (Higham,
    Accuracy and Stability of Numerical Algorithms, 2002, section 3.1). The bound has both sums in it, that of the bf16
    product and that of the float32 product that candidates are ranked by, and what underflow can take away.
    """
    length = queries.values.shape[1]
    tiny = length**0.5 * _UNDERFLOW
    norm, lost = documents.norms.amax() + tiny, documents.lost.amax() + tiny
    own, own_lost = queries.norms + tiny, queries.lost + tiny
    bound: Tensor = (own_lost * norm + (own + own_lost) * lost + length * _SUM * own * norm) * (1 + 2.0**-10)
    return bound


def rounded_down(scores: Tensor) -> Tensor:
    """A bf16 number that every result at or above the score still reaches when it is rounded to bf16.

    Whether a unit rounds to the nearest or cuts, it gives a neighbour of the result and keeps order, so the next bf16
    number at or below the score is low enough.
    """
    return (scores - scores.abs() * _ULP).bfloat16()


@contextmanager
def sums_in_float32() -> Iterator[None]:
    """Has a GPU add up products of bf16 numbers in float32, as the bound takes for granted; a CPU does so anyway."""
    rule = torch.backends.cuda.matmul
    before, rule.allow_bf16_reduced_precision_reduction = rule.allow_bf16_reduced_precision_reduction, False
    try:
        yield
    finally:
        rule.allow_bf16_reduced_precision_reduction = before
