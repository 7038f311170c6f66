"""How negatives pull on the vectors of queries, before any training.

`information` is a definition of our own, from the gradient of InfoNCE. It has the purpose of ECI (Sinha, Seetharaman
and Bansal, Semantic Residual Effective Contrastive Information, arXiv 2603.20990): a figure that ranks sources of
negatives without a training. It is not ECI: of that paper, its abstract alone was read, which has no formulas.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from hardneg.plugin import (
    Analysis,
    AnalysisInputs,
    DataError,
    Name,
    Negatives,
    Option,
    Reference,
    System,
    Table,
    negatives_files,
)
from hardneg_papers.analyses.shared import ONE_VECTOR, percent

_BLOCK = 256

Floats = NDArray[np.floating[Any]]
Vectors = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]


class Information(Analysis):
    """Show how hard negatives pull on the vectors of queries, and in how many directions, without a training.

    Example: hardneg analyze information --negatives mined.arrow --index FOLDER --model NAME --queries FILE
    """

    name = "information"
    title = "information of negatives"
    explained = (
        "Training-free, by the model as it is. A negative's weight is the share of the softmax that it takes from the "
        "positive; its residual is its vector less the positive's. Information: the log-determinant of one plus the "
        "weighted second moment of residuals, times the dimension. Directions: the effective rank of that moment. "
        "Above the positive: negatives that score higher."
    )
    asks = ("queries", "device")
    drawn = slice(3, None)

    negatives: Annotated[dict[Name, Name], Reference(("negatives",))] = Field(
        min_length=1, description="A negatives.arrow."
    )
    index: Annotated[Name, Reference(("index",), ONE_VECTOR)] = Field(description="A dense index of the documents.")
    model: Annotated[Name | None, Reference(("model",)), Option(metavar="NAME")] = Field(
        None, description="The model of that index."
    )
    temperature: float = Field(0.05, gt=0, description="That of the loss.")
    together: bool = Field(
        False, description="Whether a step has all negatives of a query in one softmax; without, it draws one."
    )

    def measure(self, inputs: AnalysisInputs) -> dict[str, Any]:
        """Means over queries, by the label of the negatives.

        Raises:
            DataError: no query of a file has a text, a positive and a negative that the index has.
        """
        system, texts, results = inputs.system("index", "model"), inputs.queries(None), {}
        for label in self.negatives:
            path = f"negatives.{label}"
            file = negatives_files.read_negatives(inputs.negatives(path))
            pull = Pull(self.temperature, self.together)
            for query, positives, negatives in vectors_of(file, system, texts):
                pull.add(query, positives, negatives)
            if not pull.queries:
                lacking = "has no query with a text, and a positive and a negative of the index"
                raise DataError(f"{inputs.location(path)}: {lacking}: give the queries and the index it was mined with")
            results[label] = {**pull.to_json(), "left_out": len(file) - pull.queries}
        return results

    def table(self, results: Any) -> Table:
        head = ("negatives", "queries", "left out", "information", "mean weight", "above the positive", "directions")
        rows = [
            [
                label,
                f"{each['queries']:,}",
                f"{each['left_out']:,}",
                f"{each['information']:.4g}",
                f"{each['weight']:.3g}",
                percent(each["above"]),
                f"{each['directions']:.1f}",
            ]
            for label, each in results.items()
        ]
        return Table(head, rows)


@dataclass
class Pull:
    """The pull of negatives on queries, summed up as queries stream by, in memory of a matrix [d, d].

    The gradient of InfoNCE with respect to a query's vector q is (1 / T) * sum of w_i r_i over its negatives, where
    r_i = n_i - p is the residual and w_i the softmax weight of n_i among p and the negatives of the step. The moment
    is sum of w_i r_i r_i^T. That is T^2 times (the Hessian of the loss + the gradient's outer product with itself).

    together: whether a step has all negatives of a query; otherwise it draws one of them, and the moment and the weight
    are the means over that draw, as they are over the positive. Queries without a negative are not added.
    """

    temperature: float
    together: bool = False
    queries: int = 0
    weight: float = 0.0
    above: float = 0.0
    moment: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))

    def add(self, query: Floats, positives: Floats, negatives: Floats) -> None:
        """A query's vector [d] with those of its positives [m, d] and negatives [k, d], m and k 1 or more."""
        vectors = negatives.astype(np.float64)
        gaps = (vectors @ query)[None] - (positives @ query)[:, None]
        weights = weights_of(gaps / self.temperature, self.together) / len(positives)
        if not self.queries:
            self.moment = np.zeros((len(query), len(query)))
        for positive, row in zip(positives, weights, strict=True):
            residuals = vectors - positive
            self.moment += residuals.T @ (residuals * row[:, None])
        self.queries += 1
        self.weight += float(weights.sum())
        self.above += float((gaps > 0).mean())

    def to_json(self) -> dict[str, Any]:
        """Means over queries, the information in nats, and the effective rank."""
        moment = self.moment / self.queries
        return {
            "queries": self.queries,
            "information": information(moment),
            "weight": self.weight / self.queries,
            "above": self.above / self.queries,
            "directions": effective_rank(moment),
        }


def weights_of(gaps: NDArray[np.float64], together: bool) -> NDArray[np.float64]:
    """Softmax weights [m, k] of negatives, from how far they score above each positive, divided by the temperature.

    Each is against the positive and all negatives where they are `together`; otherwise against the positive alone,
    divided by k, since one is drawn.
    """
    highest = np.maximum(gaps.max(axis=1, keepdims=True) if together else gaps, 0.0)
    grown, positive = np.exp(gaps - highest), np.exp(-highest)
    if together:
        return np.asarray(grown / (positive + grown.sum(axis=1, keepdims=True)))
    return np.asarray(grown / (positive + grown) / gaps.shape[1])


def information(moment: NDArray[np.float64]) -> float:
    """ln det(I + d * moment) of a moment [d, d].

    Its trace is the mean of weights times squared lengths. The factor is d because a trace of 1 that is spread evenly
    over all directions is then I, the unit: each direction gives ln 2.
    """
    return float(np.log1p(len(moment) * _spectrum(moment)).sum())


def effective_rank(moment: NDArray[np.float64]) -> float:
    """The exponential of the entropy of the eigenvalues divided by their sum; 0 where all are 0.

    Source: Roy and Vetterli, The effective rank: a measure of effective dimensionality, EUSIPCO 2007.
    """
    values = _spectrum(moment)
    if not (total := values.sum()):
        return 0.0
    shares = values[values > 0] / total
    return float(np.exp(-(shares * np.log(shares)).sum()))


def _spectrum(moment: NDArray[np.float64]) -> NDArray[np.float64]:
    """Its eigenvalues, those that rounding has made negative as 0."""
    values: NDArray[np.float64] = np.maximum(np.linalg.eigvalsh(moment), 0.0)
    return values


def vectors_of(file: Sequence[Negatives], system: System, texts: Mapping[str, str]) -> Iterator[Vectors]:
    """Vectors of each query [d], of its positives and of its negatives, without queries that lack one of the three."""
    for start in range(0, len(file), _BLOCK):
        items = file[start : start + _BLOCK]
        known = [item for item in items if item.query_id in texts and item.positives and item.negatives]
        if known:
            yield from _block(known, system, texts)


def _block(block: Sequence[Negatives], system: System, texts: Mapping[str, str]) -> Iterator[Vectors]:
    queries = system.encode([texts[item.query_id] for item in block])
    doc_ids = list(dict.fromkeys(name for item in block for name in (*item.positives, *item.negatives)))
    rows = system.rows(doc_ids)
    vectors = system.searcher.vectors(rows[rows >= 0])
    position = {name: at for at, name in enumerate(np.array(doc_ids, dtype=object)[rows >= 0])}
    for query, item in zip(queries, block, strict=True):
        positives, negatives = (
            [position[name] for name in names if name in position] for names in (item.positives, item.negatives)
        )
        if positives and negatives:
            yield query, vectors[positives], vectors[negatives]
