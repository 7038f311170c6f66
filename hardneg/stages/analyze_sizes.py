"""The sizes of a recipe's indexes on disk."""

from typing import Any

from hardneg.analysis.sizes import Size, index_bytes, index_vectors, sizes
from hardneg.stages.context import StageContext
from hardneg.stages.inputs import open_collection


def index_sizes(work: StageContext[Any]) -> list[Size]:
    """Bytes and vectors of each index that the recipe names, against the first; one of texts counts its documents."""
    documents = len(open_collection(work.inputs["dataset"]).corpus)
    folders = {label: source.part("index") for label, source in work.inputs_of("sizes").items()}
    return sizes({label: (index_bytes(path), index_vectors(path) or documents) for label, path in folders.items()})
