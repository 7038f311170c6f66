"""What indexes take on disk."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from hardneg.analysis.base import Analysis, Option
from hardneg.analysis.inputs import AnalysisInputs
from hardneg.fields import Name, Reference
from hardneg.formats.vectors.shards import index_bytes
from hardneg.records.errors import DataError
from hardneg.report.figure import bar_width, bars, figure, plain_axes
from hardneg.report.table import Table

_DOC_IDS = "docid"


class IndexSizes(Analysis):
    """Show the size of indexes on disk, and relative to the first.

    Example: hardneg analyze sizes --index flat=index --index pq=index-pq
    """

    name = "sizes"
    title = "index sizes"
    explained = "Bytes on disk without the ids; what an index has once, such as centroids, counts too."
    paper = "STAR/ADORE, Table 5"
    beside: ClassVar[Mapping[str, slice]] = {"matrix": slice(1, None), "costs": slice(1, 3)}

    indexes: Annotated[dict[Name, Name], Reference(("index",)), Option("index")] = Field(
        min_length=1, description="An index folder; of dense ones the vectors are counted."
    )

    def measure(self, inputs: AnalysisInputs) -> list[dict[str, Any]]:
        """Of each index its size, against the first; of one of texts the documents count as vectors."""
        results = {}
        for label in self.indexes:
            folder, documents = inputs.index(f"indexes.{label}")
            vectors = index_vectors(folder) or documents
            if vectors is None:
                raise DataError(f"{folder}: no dense index (no file {_DOC_IDS}): name a folder of `hardneg encode`")
            results[label] = index_bytes(folder), vectors
        return sizes(results)

    def table(self, results: Any) -> Table:
        """One row an index."""
        rows = [
            [row["index"], f"{row['bytes'] / 1e6:,.2f}", f"{row['bytes_per_vector']:,.1f}", f"{row['ratio']:.1%}"]
            for row in results
        ]
        return Table(("index", "MB", "bytes a vector", "of the first"), rows)

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """One bar an index: megabytes on disk, and how much that is of the first."""
        with figure(paths, 1, width=bar_width(len(results))) as (axes,):
            words = {row["index"]: f"{row['bytes'] / 1e6:.3g}\n{row['ratio']:.1%}" for row in results}
            bars(axes, {row["index"]: row["bytes"] / 1e6 for row in results}, words)
            plain_axes(axes, "size on disk, and its share of the first", "", "MB")


def sizes(indexes: Mapping[str, tuple[int, int]]) -> list[dict[str, Any]]:
    """The sizes of indexes from label to (bytes, vectors), against the first of them.

    `vectors`: how many it holds. `bytes`: its files without the ids. `bytes_per_vector`: all of its bytes, the
    centroids too, over its vectors. `ratio`: its bytes over those of the first index.

    Source: STAR/ADORE (Zhan et al., SIGIR 2021), table 5.
    """
    first = next(iter(indexes.values()), (0, 0))[0]
    return [
        {
            "index": label,
            "vectors": vectors,
            "bytes": size,
            "bytes_per_vector": size / max(1, vectors),
            "ratio": size / max(1, first),
        }
        for label, (size, vectors) in indexes.items()
    ]


def index_vectors(folder: Path) -> int | None:
    """How many vectors a dense index folder holds, by its ids, a line each; None for an index of texts."""
    if not (folder / _DOC_IDS).is_file():
        return None
    with (folder / _DOC_IDS).open("rb") as file:
        return sum(1 for line in file if line.strip())
