"""What indexes take on disk."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hardneg.artifacts import MANIFEST

DOC_IDS = "docid"


@dataclass(frozen=True)
class Size:
    """One index.

    vectors: how many it holds (of an index of texts: documents). bytes: its files without the ids. bytes_per_vector:
    all of its bytes, the centroids too, over its vectors. ratio: its bytes over those of the first index.
    """

    index: str
    vectors: int
    bytes: int
    bytes_per_vector: float
    ratio: float


def sizes(indexes: Mapping[str, tuple[int, int]]) -> list[Size]:
    """The sizes of indexes from label to (bytes, vectors), against the first of them.

    Source: STAR/ADORE (Zhan et al., SIGIR 2021), table 5.
    """
    first = next(iter(indexes.values()), (0, 0))[0]
    return [
        Size(label, vectors, size, size / max(1, vectors), size / max(1, first))
        for label, (size, vectors) in indexes.items()
    ]


def index_vectors(folder: Path) -> int | None:
    """How many vectors a dense index folder holds, by its ids, a line each; None for an index of texts."""
    if not (folder / DOC_IDS).is_file():
        return None
    with (folder / DOC_IDS).open("rb") as file:
        return sum(1 for line in file if line.strip())


def index_bytes(folder: Path) -> int:
    """What an index takes; the ids beside dense ones, which are the same for every kind, are left out."""
    aside = {DOC_IDS, MANIFEST}
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and path.name not in aside)
