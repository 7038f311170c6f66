"""Queries as vectors that another program made, searched for in a folder of vectors: no model, and no dataset."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from hardneg.api.given_values import file_path
from hardneg.errors import UsageError
from hardneg.progress import Progress

if TYPE_CHECKING:
    from hardneg.data.flat import FlatVectors
    from hardneg.indexes.dense import DenseIndex
    from hardneg.indexes.exact import ExactOptions
    from hardneg.types import RankedList

_AT_ONCE = 65_536


@dataclass(frozen=True)
class GivenVectors:
    """An index folder, and the files of the queries' vectors and, if apart, of their ids."""

    index: Path
    queries: Path
    ids: Path | None

    @property
    def reads(self) -> list[Path]:
        """All that is read."""
        return [path for path in (self.index, self.queries, self.ids) if path is not None]

    def write_run(self, output: Path, depth: int, device: str | None, progress: Progress) -> int:
        """Searches for all queries in the file's order and writes the run; returns how many there are.

        Raises:
            ArtifactError: the index is missing or damaged.
            DataError: the vectors are, or an id is repeated.
            UsageError: the vectors are of another dimension than the index.
        """
        from hardneg.data.flat import FlatVectors
        from hardneg.data.runs import write_run
        from hardneg.data.vector_files import open_vectors
        from hardneg.data.vectors_import import import_vectors
        from hardneg.indexes.dense import DenseIndex
        from hardneg.indexes.exact import ExactOptions

        index, file = DenseIndex.open(self.index), open_vectors(self.queries, self.ids)
        if file.dimension != index.dimension:
            told = f"vectors of dimension {file.dimension}, and {self.index} has {index.dimension}"
            raise UsageError(f"{self.queries}: {told}; encode the queries with the model of the index")
        with TemporaryDirectory() as folder:
            count = import_vectors(file, Path(folder), progress)
            options = ExactOptions(device=device)
            write_run(output, _entries(_using(index, options, progress), FlatVectors.open(Path(folder)), depth))
        return count


def _using(index: "DenseIndex", options: "ExactOptions", progress: Progress) -> "DenseIndex":
    """The index; one that is searched exactly with these options."""
    from hardneg.indexes.flat import FlatSearcher

    if not isinstance(index.searcher, FlatSearcher):
        return index
    return replace(index, searcher=replace(index.searcher, options=options, progress=progress))


def _entries(index: "DenseIndex", queries: "FlatVectors", depth: int) -> Iterator[tuple[str, "RankedList"]]:
    from hardneg.types import RankedList

    searcher, depth = index.searcher, min(depth, len(index.doc_ids))
    for start in range(0, len(queries), _AT_ONCE):
        stop = min(start + _AT_ONCE, len(queries))
        hits = searcher.search(queries.read(start, stop), depth)
        for query_id, rows, scores in zip(queries.doc_ids[start:stop], hits.rows, hits.scores, strict=True):
            there = rows >= 0
            yield query_id, RankedList([index.doc_ids[row] for row in rows[there]], scores[there])


def given_vectors(command: str, index: Path | None, queries: Path | None, ids: Path | None) -> GivenVectors | None:
    """What the options of a command say; None where none of them is given.

    Raises:
        UsageError: one of them lacks another.
    """
    if index is None and queries is None and ids is None:
        return None
    if index is None or queries is None:
        lacking = "--index FOLDER" if index is None else "--query-vectors FILE"
        raise UsageError(f"{command}: vectors of queries are searched for in an index: give {lacking} too")
    return GivenVectors(index, queries, ids)


def named_vectors(verb: str, given: Mapping[str, Any]) -> GivenVectors | None:
    """The same of a function's arguments `index`, `query_vectors` and `query_ids`. Raises as `given_vectors`."""
    index, queries, ids = (
        None if given.get(name) is None else file_path(given[name], name)
        for name in ("index", "query_vectors", "query_ids")
    )
    return given_vectors(verb, index, queries, ids)
