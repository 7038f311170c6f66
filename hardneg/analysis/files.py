"""Analyses of plain files: an index folder, topics, judgements, a model, whoever made them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardneg.analysis.index_errors import Relevant, corpus_pass, errors_in_index
from hardneg.analysis.pairwise_errors import PairwiseErrors
from hardneg.analysis.projection import Neighbourhood
from hardneg.data.flat import FlatVectors
from hardneg.data.parts import records
from hardneg.data.topics import topics_part
from hardneg.errors import DataError, UsageError
from hardneg.indexes.flat import FlatSearcher
from hardneg.models.encoder import EncodeOptions, Encoder
from hardneg.models.save import SPEC_FILE
from hardneg.models.spec import ModelSpec
from hardneg.progress import Progress
from hardneg.types import Query

_LINES = 65_536

Rows = Callable[[Sequence[str]], NDArray[np.int64]]


def read_topics(path: Path) -> dict[str, str]:
    """Texts by query id: BEIR's queries.jsonl, an id and a text between tabs, or TREC's topics; plain or gzip.

    Raises:
        DataError: the first mistake of the file, or there is no query in it.
    """
    found = {record.query_id: record.text for _, record in records(topics_part(path)) if isinstance(record, Query)}
    if not found:
        raise DataError(f"{path}: holds no queries")
    return found


def open_model(name: str, device: str | None) -> Encoder:
    """A folder that hardneg saved with its prompts and lengths, or any other model as it is."""
    folder = Path(name)
    return Encoder.open(folder, device) if (folder / SPEC_FILE).is_file() else Encoder.load(ModelSpec(name), device)


def row_finder(vectors: FlatVectors, wanted: Mapping[str, Sequence[str]]) -> Rows:
    """Finds the rows of the ids in `wanted`; the index's ids are read once and not held."""
    asked = {doc_id for doc_ids in wanted.values() for doc_id in doc_ids}
    known = {doc_id: row for row, doc_id in _numbered(vectors) if doc_id in asked}
    return lambda doc_ids: np.array([known.get(doc_id, -1) for doc_id in doc_ids], np.int64)


def _numbered(vectors: FlatVectors) -> Iterator[tuple[int, str]]:
    for start in range(0, len(vectors), _LINES):
        yield from enumerate(vectors.doc_ids[start : start + _LINES], start)


@dataclass(frozen=True)
class System:
    """A flat index folder and the model of its queries, opened."""

    vectors: FlatVectors
    encoder: Encoder

    @classmethod
    def open(cls, index: Path, model: str, device: str | None) -> "System":
        """Opens both.

        Raises:
            UsageError: the model's vectors are of another dimension.
        """
        vectors, encoder = FlatVectors.open(index), open_model(model, device)
        if vectors.dimension != encoder.dimension:
            sizes = f"{vectors.dimension} numbers a vector, the model's {encoder.dimension}"
            raise UsageError(f"{index}: {sizes}: give the model that encoded the index")
        return cls(vectors, encoder)

    def encode(self, texts: Sequence[str], progress: Progress) -> NDArray[np.float32]:
        """Query vectors, float32 [n, d]."""
        return self.encoder.encode(texts, "query", EncodeOptions(precision="fp32"), progress)


def system_errors(
    system: System, topics: Mapping[str, str], positives: Mapping[str, Sequence[str]], cut: int, progress: Progress
) -> PairwiseErrors:
    """Total and top-K errors over an index; copies of positives are not known here and count as negatives."""
    vectors = system.vectors
    asked = [query_id for query_id in topics if query_id in positives]
    encoded = system.encode([topics[query_id] for query_id in asked], progress)
    relevant = Relevant(positives, row_finder(vectors, positives))
    corpus = corpus_pass(FlatSearcher(vectors), len(vectors))
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
    first = systems[0].vectors
    own = row_finder(first, {"": positives})(positives)
    if not len(own := own[own >= 0]):
        raise UsageError(f"{first.folder}: holds none of the query's positives; name another query")
    vectors = [system.encode([text], progress)[0] for system in systems]
    ranked = FlatSearcher(first).search(vectors[0][None], negatives + len(own)).rows[0]
    others = ranked[(ranked >= 0) & ~np.isin(ranked, own)][:negatives]
    ids = [[first.doc_ids[int(row)] for row in rows] for rows in (own, others)]
    return [_around(system, vector, ids) for system, vector in zip(systems, vectors, strict=True)], ids[1]


def _around(system: System, query: NDArray[np.float32], ids: Sequence[Sequence[str]]) -> Neighbourhood:
    find = row_finder(system.vectors, {"positives": ids[0], "negatives": ids[1]})
    rows = [find(part) for part in ids]
    if any((part < 0).any() for part in rows):
        raise UsageError(f"{system.vectors.folder}: lacks documents of the first index: give two of the same corpus")
    return Neighbourhood(query, *(system.vectors.gather(part) for part in rows))
