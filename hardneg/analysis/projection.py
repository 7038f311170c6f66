"""A query among its positives and negatives in two dimensions, as two models see them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from hardneg.analysis.base import Analysis, Encoders, Indexes, Option, unnamed_encoders
from hardneg.analysis.inputs import AnalysisInputs, System
from hardneg.errors import MissingDependency, UsageError
from hardneg.fields import Name
from hardneg.reporting.figure import COLOURS, figure, plain_axes
from hardneg.reporting.table import Table

_PERPLEXITY = 30.0


class Projection(Analysis):
    """Project a query, its positives and its negatives to two dimensions, before and after training.

    One --index with two --model shows a query-side training: the documents stay.

    Example: hardneg analyze projection --query ID --qrels Q --queries FILE --index FOLDER --model A --model B
    """

    name = "projection"
    title = "projection"
    explained = "t-SNE: which points are close says something; distances and directions do not."
    paper = "STAR/ADORE, Figure 6"
    asks = ("qrels", "queries", "seed", "relevance_level", "device")
    extra = "analysis"

    query: Name | None = Field(
        None, description="The id of the query to show; by default the first one that has positives."
    )
    indexes: Indexes = Field(
        min_length=2, max_length=2, description="A dense index folder, before; a second one, after."
    )
    models: Encoders = Field(default_factory=dict, description="The model of the queries, before; a second one, after.")
    negatives: Annotated[int, Option("--count", old=("--negatives",))] = Field(
        100, gt=0, description="How many negatives, those ranked highest before."
    )

    @model_validator(mode="after")
    def _known(self) -> "Projection":
        if unknown := sorted(set(self.models) - set(self.indexes)):
            raise ValueError(f"no index is labelled {', '.join(unknown)}; indexes has {', '.join(self.indexes)}")
        return self

    @classmethod
    def arranged(cls, given: Mapping[str, Any], kinds: Mapping[str, str]) -> Mapping[str, Any]:
        """Before and after; one index may be both."""
        indexes, models = (list(given.get(name, {}).values()) for name in ("indexes", "models"))
        if len(models) != 2 or len(indexes) not in (1, 2):
            raise UsageError("analyze projection: give --model twice, before and after, and --index once or twice")
        sides = ("before", "after")
        named = {"indexes": dict(zip(sides, [*indexes, indexes[0]], strict=False))}
        return {**given, **named, "models": dict(zip(sides, models, strict=True))}

    def encoders(self) -> Mapping[str, str]:
        """By default the models that encoded the indexes."""
        return unnamed_encoders(self.indexes, self.models)

    def measure(self, inputs: AnalysisInputs) -> dict[str, Any]:
        """Points as [x, y] beside ids, by label: the query, its positives, the negatives ranked highest before.

        Raises:
            UsageError: the query is not known, or has no positive in the index.
        """
        query_id, text, positives = self._chosen(inputs)
        systems = [inputs.system(f"indexes.{label}", f"models.{label}") for label in self.indexes]
        aside = inputs.copies([*positives, *inputs.relevant().get(query_id, ())])
        sides, ids = neighbourhoods(systems, text, (positives, aside), self.negatives)
        panels = dict(zip(self.indexes, project(sides[0], sides[1], inputs.seed), strict=True))
        named = {"query_id": query_id, "text": text, "positives": ids[0], "negatives": ids[1]}
        return {**named, "points": {label: panel.to_json() for label, panel in panels.items()}}

    def _chosen(self, inputs: AnalysisInputs) -> tuple[str, str, list[str]]:
        """The query's id and text, and its positives."""
        queries, known = inputs.queries(inputs.split), inputs.positives()
        for query_id, text in queries.items():
            if self.query in (None, query_id) and known.get(query_id):
                return query_id, text, known[query_id]
        told = f"query {self.query!r}" if self.query else "none of the queries"
        lacking = "is not among the queries" if self.query and self.query not in queries else "has no positive"
        raise UsageError(f"{inputs.place('query')}: {told} {lacking}; name another")

    def table(self, found: Any) -> Table:
        """One row a panel: where the query is, and what is around it."""
        rows = [
            [name, *(f"{x:.2f}" for x in panel["query"]), str(len(panel["positives"])), str(len(panel["negatives"]))]
            for name, panel in found["points"].items()
        ]
        return Table(("panel", "query x", "query y", "positives", "negatives"), rows)

    def explain(self, found: Any) -> str:
        """With the query."""
        return f"Query {found['query_id']}: {found['text']}. {self.explained}"

    def draw(self, found: Any, paths: Sequence[Path]) -> None:
        """One panel a model, all in the same plane: crosses are negatives, discs positives, the star is the query."""
        with figure(paths, len(found["points"]), height=4.2) as drawn:
            for axes, (label, points) in zip(drawn, found["points"].items(), strict=True):
                negatives, positives = (np.array(points[name]).reshape(-1, 2).T for name in ("negatives", "positives"))
                axes.scatter(*negatives, marker="x", s=18, color="#8a8f94", label="negatives", linewidths=0.9)
                axes.scatter(*positives, marker="o", s=42, color=COLOURS[0], label="positives")
                axes.scatter(*points["query"], marker="*", s=190, color=COLOURS[1], edgecolors="black", label="query")
                plain_axes(axes, label, "t-SNE, first coordinate", "t-SNE, second coordinate")
            drawn[0].legend(frameon=False, fontsize=8, ncols=3, loc="upper left", bbox_to_anchor=(0, -0.14))
            for axes in drawn[1:]:
                axes.sharex(drawn[0])
                axes.sharey(drawn[0])
                drawn[0].autoscale()


@dataclass(frozen=True)
class Neighbourhood:
    """query: float [d] or [2] when projected; positives: float [P, d or 2]; negatives: float [N, d or 2]."""

    query: NDArray[np.floating]
    positives: NDArray[np.floating]
    negatives: NDArray[np.floating]

    def to_json(self) -> dict[str, Any]:
        """The points as lists."""
        return {name: getattr(self, name).tolist() for name in ("query", "positives", "negatives")}


def neighbourhoods(
    systems: Sequence[System], text: str, known: tuple[Sequence[str], Sequence[str]], negatives: int
) -> tuple[list[Neighbourhood], tuple[list[str], list[str]]]:
    """One query among its positives and the negatives that the first system ranks highest, as each system has them.

    Args:
        systems: of the same documents.
        text: the query.
        known: its positives, and all documents that are no negatives of it.
        negatives: how many.

    Returns:
        The neighbourhoods, one a system, and the ids of the positives and of the negatives.

    Raises:
        UsageError: the first index has no positive, or another lacks a document of the first.
    """
    first = systems[0]
    own, aside = (rows[rows >= 0] for rows in map(first.rows, known))
    if not len(own):
        raise UsageError("the first index holds none of the query's positives; name another query")
    vectors = [system.encode([text])[0] for system in systems]
    ranked = first.searcher.search(vectors[0][None], negatives + len(aside)).rows[0]
    others = ranked[(ranked >= 0) & ~np.isin(ranked, aside)][:negatives]
    ids = tuple([first.doc_ids[int(row)] for row in rows] for rows in (own, others))
    return [_around(system, vector, ids) for system, vector in zip(systems, vectors, strict=True)], (ids[0], ids[1])


def _around(system: System, query: NDArray[np.float32], ids: Sequence[Sequence[str]]) -> Neighbourhood:
    rows = [system.rows(part) for part in ids]
    if any((part < 0).any() for part in rows):
        raise UsageError("an index lacks documents of the first: give two of the same corpus")
    return Neighbourhood(query, *(system.searcher.vectors(part) for part in rows))


def project(before: Neighbourhood, after: Neighbourhood, seed: int) -> tuple[Neighbourhood, Neighbourhood]:
    """Both neighbourhoods in the same plane by t-SNE; a vector that both have (a fixed document) is one point.

    Args:
        before, after: vectors of the same dimension d.
        seed: of t-SNE; the same seed and vectors give the same points.

    Raises:
        MissingDependency: scikit-learn is not installed.

    Source: STAR/ADORE (Zhan et al., SIGIR 2021), figure 6.
    """
    stacked = np.concatenate([_stacked(before), _stacked(after)]).astype(np.float64)
    vectors, place = np.unique(stacked, axis=0, return_inverse=True)
    points = _tsne(vectors, seed)[place.reshape(-1)]
    size = 1 + len(before.positives) + len(before.negatives)
    return _split(points[:size], len(before.positives)), _split(points[size:], len(after.positives))


def _stacked(around: Neighbourhood) -> NDArray[np.floating]:
    return np.concatenate([around.query[None], around.positives, around.negatives])


def _split(points: NDArray[np.float64], positives: int) -> Neighbourhood:
    return Neighbourhood(points[0], points[1 : 1 + positives], points[1 + positives :])


def _tsne(vectors: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    try:
        from sklearn.manifold import TSNE
    except ImportError as error:
        raise MissingDependency(
            f'the projection needs scikit-learn ({error}); pip install "hardneg[analysis]"'
        ) from error
    if len(vectors) < 4:
        return np.ascontiguousarray(np.pad(vectors, [(0, 0), (0, 2)])[:, :2])
    perplexity = min(_PERPLEXITY, (len(vectors) - 1) / 3)
    found = TSNE(perplexity=perplexity, init="pca", random_state=seed, learning_rate="auto").fit_transform(vectors)
    return np.asarray(found, np.float64)
