"""Ways to make one ranked list of several, told by a name and a few numbers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, get_args

from hardneg.fusion.sums import Missing, reciprocal_ranks, weighted_sum
from hardneg.fusion.through_ranx import DEFAULTS, PARAMETERS, WEIGHTED, Method, Norm, fused_by_ranx
from hardneg.fusion.zipping import zipped
from hardneg.types import RankedList

AnyMethod = Literal["zip", "weighted-sum", "reciprocal-rank"] | Method
OF_RANX: tuple[str, ...] = get_args(Method)
METHODS: tuple[str, ...] = ("zip", "weighted-sum", "reciprocal-rank", *OF_RANX)
WITH_WEIGHTS = ("weighted-sum", "reciprocal-rank", *WEIGHTED)
_AT_ONCE = 512


@dataclass(frozen=True)
class Fusion:
    """How lists become one.

    weights: one a list, for `WITH_WEIGHTS`. missing: what `weighted-sum` adds for a document that a list lacks.
    constant: of `reciprocal-rank`. norm: what ranx does to the scores before; none given is its own `min-max`.
    parameter: the number that a method of ranx has besides (`PARAMETERS`). depth: how many documents are kept.
    """

    method: str
    weights: tuple[float, ...]
    missing: Missing = "lowest"
    constant: int = 60
    norm: Norm | None = None
    parameter: float | None = None
    depth: int = 100

    def problems(self) -> list[str]:
        """What these values cannot be for this method, one line each."""
        found, name = [], PARAMETERS.get(self.method)
        if self.method not in WITH_WEIGHTS and set(self.weights) - {1.0}:
            found.append(f"weights: {self.method} has none; leave them out, or take {', '.join(WITH_WEIGHTS)}")
        if self.norm is not None and self.method not in OF_RANX:
            found.append(f"norm: {self.method} takes scores as they are; leave it out, or take a method of ranx (wsum)")
        if self.parameter is not None and name is None:
            found.append(f"parameter: {self.method} has none; leave it out, or take {', '.join(PARAMETERS)}")
        if self.parameter is None and name is not None and self.method not in DEFAULTS:
            found.append(f"parameter: {self.method} needs its {name}; give a number")
        return found

    def over(self, by_query: Iterable[Sequence[RankedList]]) -> Iterator[RankedList]:
        """One list for each query's lists, cut at the depth; scores float32 [n], descending."""
        fused = map(self._alone, by_query) if self.method not in OF_RANX else self._by_ranx(by_query)
        for ranked in fused:
            yield RankedList(ranked.doc_ids[: self.depth], ranked.scores[: self.depth])

    def _alone(self, lists: Sequence[RankedList]) -> RankedList:
        if self.method == "zip":
            return zipped(lists, self.depth)
        if self.method == "reciprocal-rank":
            return reciprocal_ranks(lists, self.weights, self.constant)
        return weighted_sum(lists, self.weights, self.missing)

    def _by_ranx(self, by_query: Iterable[Sequence[RankedList]]) -> Iterator[RankedList]:
        queries = iter(by_query)
        while block := list(islice(queries, _AT_ONCE)):
            yield from fused_by_ranx(block, self.method, self.norm or "min-max", self._params())

    def _params(self) -> Mapping[str, object]:
        if self.method in WEIGHTED:
            return {"weights": list(self.weights)}
        value = DEFAULTS.get(self.method) if self.parameter is None else self.parameter
        return {PARAMETERS[self.method]: value} if self.method in PARAMETERS else {}
