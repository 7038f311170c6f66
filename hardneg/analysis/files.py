"""Analyses of plain files: an index folder, topics, judgements, a model, whoever made them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardneg.analysis.index_errors import Relevant, corpus_pass, errors_in_index
from hardneg.analysis.pairwise_errors import PairwiseErrors
from hardneg.analysis.projection import Neighbourhood
from hardneg.errors import UsageError
from hardneg.indexes.dense import DenseIndex
from hardneg.models.encoder import Encoder
from hardneg.models.inference import EncodeOptions
from hardneg.models.spec import ModelSpec
from hardneg.progress import Progress

_LINES = 65_536

Rows = Callable[[Sequence[str]], NDArray[np.int64]]


def open_model(name: str, device: str | None) -> Encoder:
    """A model with the prompts and lengths that its folder tells."""
    return Encoder.load(ModelSpec(name), device)


def row_finder(ids: Sequence[str], wanted: Mapping[str, Sequence[str]]) -> Rows:
    """Finds the rows of the ids in `wanted` among an index's `ids`, which are read once and not held."""
    asked = {doc_id for doc_ids in wanted.values() for doc_id in doc_ids}
    known = {doc_id: row for row, doc_id in _numbered(ids) if doc_id in asked}
    return lambda doc_ids: np.array([known.get(doc_id, -1) for doc_id in doc_ids], np.int64)


def _numbered(ids: Sequence[str]) -> Iterator[tuple[int, str]]:
    for start in range(0, len(ids), _LINES):
        yield from enumerate(ids[start : start + _LINES], start)


@dataclass(frozen=True)
class System:
    """A dense index folder and the model of its queries, opened."""

    index: DenseIndex
    encoder: Encoder

    @classmethod
    def open(cls, folder: Path, model: str, device: str | None) -> "System":
        """Opens both.

        Raises:
            UsageError: the model's vectors are of another dimension.
        """
        index, encoder = DenseIndex.open(folder), open_model(model, device)
        if index.dimension != encoder.dimension:
            sizes = f"{index.dimension} numbers a vector, the model's {encoder.dimension}"
            raise UsageError(f"{folder}: {sizes}: give the model that encoded the index")
        return cls(index, encoder)

    def encode(self, texts: Sequence[str], progress: Progress) -> NDArray[np.float32]:
        """Query vectors, float32 [n, d]."""
        return self.encoder.encode(texts, "query", EncodeOptions(precision="fp32"), progress)


def system_errors(
    system: System, topics: Mapping[str, str], positives: Mapping[str, Sequence[str]], cut: int, progress: Progress
) -> PairwiseErrors:
    """Total and top-K errors over an index; copies of positives are not known here and count as negatives."""
    index = system.index
    asked = [query_id for query_id in topics if query_id in positives]
    encoded = system.encode([topics[query_id] for query_id in asked], progress)
    relevant = Relevant(positives, row_finder(index.doc_ids, positives))
    corpus = corpus_pass(index.searcher, len(index.doc_ids))
    return errors_in_index(corpus, asked, encoded, relevant, cut, str(system.encoder.device))


def neighbourhoods(
    systems: Sequence[System], text: str, positives: Sequence[str], negatives: int, progress: Progress
) -> tuple[list[Neighbourhood], list[str]]:
    """One query among its positives and the negatives that the first system ranks highest, as each system has them.

    Returns:
        The neighbourhoods, one a system, and the ids of the negatives.

    Raises:
        UsageError: the first index has no positive, or another lacks a document of the first.
    """
    first = systems[0].index
    own = row_finder(first.doc_ids, {"": positives})(positives)
    if not len(own := own[own >= 0]):
        raise UsageError(f"{first.folder}: holds none of the query's positives; name another query")
    vectors = [system.encode([text], progress)[0] for system in systems]
    ranked = first.searcher.search(vectors[0][None], negatives + len(own)).rows[0]
    others = ranked[(ranked >= 0) & ~np.isin(ranked, own)][:negatives]
    ids = [[first.doc_ids[int(row)] for row in rows] for rows in (own, others)]
    return [_around(system, vector, ids) for system, vector in zip(systems, vectors, strict=True)], ids[1]


def _around(system: System, query: NDArray[np.float32], ids: Sequence[Sequence[str]]) -> Neighbourhood:
    find = row_finder(system.index.doc_ids, {"positives": ids[0], "negatives": ids[1]})
    rows = [find(part) for part in ids]
    if any((part < 0).any() for part in rows):
        raise UsageError(f"{system.index.folder}: lacks documents of the first index: give two of the same corpus")
    return Neighbourhood(query, *(system.index.searcher.vectors(part) for part in rows))
