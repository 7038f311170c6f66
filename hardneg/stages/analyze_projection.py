"""One query of a recipe among its documents, before and after training, in two dimensions."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.analysis.index_errors import Relevant
from hardneg.analysis.projection import Neighbourhood, project
from hardneg.data.collection import StoredCollection
from hardneg.errors import UsageError
from hardneg.stages.analyze_errors import dense, query_vectors, relevant_documents
from hardneg.stages.context import StageContext
from hardneg.stages.inputs import open_collection
from hardneg.types import Query


@dataclass(frozen=True)
class Projected:
    """The query, the ids of its documents, and a panel for each of the two labels, in the order of the ids."""

    query: Query
    positives: list[str]
    negatives: list[str]
    panels: dict[str, Neighbourhood]

    def to_json(self) -> dict[str, Any]:
        """Points as [x, y] beside ids."""
        points = {label: panel.to_json() for label, panel in self.panels.items()}
        named = {"query_id": self.query.query_id, "text": self.query.text}
        return {**named, "positives": self.positives, "negatives": self.negatives, "points": points}


def projection(work: StageContext[Any]) -> Projected:
    """The query's positives and the negatives that are ranked highest before, as both indexes hold them.

    Raises:
        UsageError: the query is not in the split, or has no positive in the index.
    """
    chosen, collection = work.spec.projection, open_collection(work.inputs["dataset"])
    relevant = relevant_documents(collection, work.spec)
    query, own = _query(work, collection, relevant)
    labels = (chosen.before, chosen.after)
    searchers = [dense(work, label, collection) for label in labels]
    vectors = [query_vectors(work, label, [query.text])[0] for label in labels]
    assert relevant.aside is not None
    aside = np.union1d(own, relevant.aside(query.query_id, own))
    ranked = searchers[0].search(vectors[0][None], chosen.negatives + len(aside)).rows[0]
    negatives = ranked[(ranked >= 0) & ~np.isin(ranked, aside)][: chosen.negatives]
    sides = [
        Neighbourhood(vector, searcher.vectors(own), searcher.vectors(negatives))
        for vector, searcher in zip(vectors, searchers, strict=True)
    ]
    panels = dict(zip(labels, project(sides[0], sides[1], work.spec.seed), strict=True))
    return Projected(query, collection.corpus.ids(own), collection.corpus.ids(negatives), panels)


def _query(
    work: StageContext[Any], collection: StoredCollection, relevant: Relevant
) -> tuple[Query, NDArray[np.int64]]:
    wanted, split = work.spec.projection.query, work.spec.split
    for query in collection.queries(split):
        if wanted in (None, query.query_id):
            rows = relevant.rows(relevant.positives.get(query.query_id, ()))
            if len(rows := rows[rows >= 0]):
                return query, rows
    name = f"query {wanted!r}" if wanted else "none of the queries"
    raise UsageError(f"{work.name}.projection.query: {name} of split {split} has a positive; name another")
