"""Queries as vectors that another program made, searched for in a folder of vectors: no model, and no dataset."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from hardneg.api.argument_values import file_path
from hardneg.api.content_store import keep_content
from hardneg.records.errors import UsageError
from hardneg.records.layout import RUN
from hardneg.store.artifacts import Artifact

if TYPE_CHECKING:
    from hardneg.api.workplace import Workplace
    from hardneg.formats.vectors.flat_vectors import FlatVectors
    from hardneg.indexes.dense import DenseIndex
    from hardneg.records.types import RankedList

_AT_ONCE = 65_536


@dataclass(frozen=True)
class QueryVectors:
    """An index folder, and the files of the queries' vectors and, if apart, of their ids."""

    index: Path
    queries: Path
    ids: Path | None

    @property
    def reads(self) -> list[Path]:
        """All that is read."""
        return [path for path in (self.index, self.queries, self.ids) if path is not None]

    def kept_run(self, workplace: "Workplace", depth: int, name: str = RUN) -> tuple[Artifact, int]:
        """The run for all queries in the file's order, in the store under its content; and how many there are.

        Raises:
            ArtifactError: the index is missing or damaged.
            DataError: the vectors are, or an id is repeated.
            UsageError: the vectors are of another dimension than the index.
        """
        from hardneg.formats.runs import write_run
        from hardneg.formats.vectors.flat_vectors import FlatVectors
        from hardneg.formats.vectors.vectors_import import import_vectors, open_vectors
        from hardneg.indexes.backends.flat import FlatSearcher
        from hardneg.indexes.dense import DenseIndex
        from hardneg.indexes.kernels.exact.exact import ExactOptions

        index, file, counts = DenseIndex.open(self.index), open_vectors(self.queries, self.ids), list[int]()
        if file.dimension != index.dimension:
            problem = f"vectors of dimension {file.dimension}, and {self.index} has {index.dimension}"
            raise UsageError(f"{self.queries}: {problem}; encode the queries with the model of the index")
        if isinstance(index.searcher, FlatSearcher):
            options = ExactOptions(device=workplace.device)
            index = replace(index, searcher=replace(index.searcher, options=options, progress=workplace.progress))

        def write(folder: Path) -> None:
            with TemporaryDirectory() as aside:
                counts.append(import_vectors(file, Path(aside), workplace.progress))
                write_run(folder / name, _entries(index, FlatVectors.open(Path(aside)), depth))

        return keep_content(workplace.store, "given-run", write), counts[0]


def _entries(index: "DenseIndex", queries: "FlatVectors", depth: int) -> Iterator[tuple[str, "RankedList"]]:
    from hardneg.records.types import RankedList

    searcher, depth = index.searcher, min(depth, len(index.doc_ids))
    for start in range(0, len(queries), _AT_ONCE):
        stop = min(start + _AT_ONCE, len(queries))
        hits = searcher.search(queries.read(start, stop), depth)
        for query_id, rows, scores in zip(queries.doc_ids[start:stop], hits.rows, hits.scores, strict=True):
            there = rows >= 0
            yield query_id, RankedList([index.doc_ids[row] for row in rows[there]], scores[there])


def named_vectors(line: str, index: Any, query_vectors: Any, query_ids: Any) -> QueryVectors | None:
    """What these arguments of a function say; None where none of them is given.

    Raises:
        UsageError: one of them lacks another.
    """
    given = {"index": index, "query_vectors": query_vectors, "query_ids": query_ids}
    paths = {name: file_path(value, name) for name, value in given.items() if value is not None}
    if not paths:
        return None
    if lacking := [name for name in ("index", "query_vectors") if name not in paths]:
        problem = f"{line}: vectors of queries are searched for in an index: give {{{lacking[0]}}} too"
        raise UsageError(problem, lacking[0])
    return QueryVectors(paths["index"], paths["query_vectors"], paths.get("query_ids"))
