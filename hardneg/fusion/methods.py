"""Methods that fuse several ranked lists into one, chosen by name and a few numbers; ranx's by its names.

`condorcet` and `w_condorcet` are left out: ranx orders documents that draw by a Python set, so that the same runs
give another list in another process. Source: Bassani and Romelli, ranx.fuse (CIKM 2022).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, get_args

from hardneg.records.depths import LIST_DEPTH
from hardneg.records.types import RankedList

Method = Literal[
    "bordafuse", "anz", "gmnz", "max", "med", "min", "mnz", "sum", "isr", "log_isr", "logn_isr", "mixed", "rbc", "rrf",
    "w_bordafuse", "wmnz", "wsum",
]  # fmt: skip
Norm = Literal["none", "min-max", "min-max-inverted", "max", "sum", "zmuv", "rank", "borda"]

WEIGHTED = ("mixed", "w_bordafuse", "wmnz", "wsum")
PARAMETERS: Mapping[str, str] = {"gmnz": "gamma", "logn_isr": "sigma", "rbc": "phi", "rrf": "k"}
"""Methods with one number of their own, and ranx's name of it."""
RRF_CONSTANT = 60
"""Of reciprocal ranks (Cormack et al., SIGIR 2009), for our method and ranx's."""
DEFAULTS: Mapping[str, float] = {"logn_isr": 0.01, "rrf": RRF_CONSTANT}

AnyMethod = Literal["zip", "weighted-sum", "reciprocal-rank", Method]
OF_RANX: tuple[str, ...] = get_args(Method)
METHODS: tuple[str, ...] = ("zip", "weighted-sum", "reciprocal-rank", *OF_RANX)
WITH_WEIGHTS = ("weighted-sum", "reciprocal-rank", *WEIGHTED)
_AT_ONCE = 512
Missing = Literal["lowest", "zero"]
"""The score of a document in a list that lacks it: that list's lowest score, or 0."""


@dataclass(frozen=True)
class Fusion:
    """A fusion method with its numbers.

    weights: one a list, for `WITH_WEIGHTS`. missing: what `weighted-sum` adds for a document that a list lacks.
    constant: of `reciprocal-rank`. norm: ranx's normalization of the scores; None is its default, `min-max`.
    parameter: the number that a method of ranx has besides (`PARAMETERS`). depth: how many documents are kept.
    """

    method: str
    weights: tuple[float, ...]
    missing: Missing = "lowest"
    constant: int = RRF_CONSTANT
    norm: Norm | None = None
    parameter: float | None = None
    depth: int = LIST_DEPTH

    def problems(self) -> list[str]:
        """Return the values that do not fit this method, one line each."""
        faults, name = [], PARAMETERS.get(self.method)
        if self.method not in WITH_WEIGHTS and set(self.weights) - {1.0}:
            faults.append(f"weights: {self.method} has none; leave them out, or take {', '.join(WITH_WEIGHTS)}")
        if self.norm is not None and self.method not in OF_RANX:
            faults.append(
                f"norm: {self.method} takes scores as they are; leave it out, or take a method of ranx (wsum)"
            )
        if self.parameter is not None and name is None:
            faults.append(f"parameter: {self.method} has none; leave it out, or take {', '.join(PARAMETERS)}")
        if self.parameter is None and name is not None and self.method not in DEFAULTS:
            faults.append(f"parameter: {self.method} needs its {name}; give a number")
        return faults

    def over(self, by_query: Iterable[Sequence[RankedList]]) -> Iterator[RankedList]:
        """Fuse each query's lists into one, cut at the depth; scores float32 [n], descending."""
        for ranked in self._fused(by_query):
            yield RankedList(ranked.doc_ids[: self.depth], ranked.scores[: self.depth])

    def _fused(self, by_query: Iterable[Sequence[RankedList]]) -> Iterator[RankedList]:
        from hardneg.fusion.fused_lists import fused_by_ranx, reciprocal_ranks, weighted_sum, zipped

        if self.method == "zip":
            yield from (zipped(lists, self.depth) for lists in by_query)
        elif self.method == "reciprocal-rank":
            yield from (reciprocal_ranks(lists, self.weights, self.constant) for lists in by_query)
        elif self.method == "weighted-sum":
            yield from (weighted_sum(lists, self.weights, self.missing) for lists in by_query)
        else:
            queries, params = iter(by_query), dict[str, object]()
            if self.method in WEIGHTED:
                params = {"weights": list(self.weights)}
            elif self.method in PARAMETERS:
                value = DEFAULTS.get(self.method) if self.parameter is None else self.parameter
                params = {PARAMETERS[self.method]: value}
            while block := list(islice(queries, _AT_ONCE)):
                yield from fused_by_ranx(block, self.method, self.norm or "min-max", params)
