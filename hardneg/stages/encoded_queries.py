"""The training queries as vectors: encoded once by the model of an encode stage, then mapped."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardneg.artifacts import SCRATCH
from hardneg.atomic_write import replacing
from hardneg.distributed import barrier, world
from hardneg.errors import UsageError
from hardneg.fields import Reference, Trait
from hardneg.stages.context import StageContext
from hardneg.stages.inputs import open_encoder
from hardneg.stages.spec import RecipeView, StageSpec

_AT_ONCE = 65_536  # queries whose vectors are in memory

_NAME_ONE = "name an encode stage whose model makes one vector a text"
NOT_ONE_VECTOR: Mapping[str, str] = {
    Trait.TEXTS: _NAME_ONE,
    Trait.WEIGHTS: _NAME_ONE,
    Trait.TOKEN_VECTORS: _NAME_ONE,
    Trait.IMPORTED: "name an encode stage, whose model can encode the queries",
}
"""What an index must not be whose model encodes the queries, each with what to do instead."""
QUERY_ENCODER = Reference(("index",), refuses=NOT_ONE_VECTOR)
"""Marks a field as the name of an encode stage, the model of which encodes the training queries."""


def query_encoder(recipe: RecipeView, path: str, index: str | None) -> Mapping[str, str]:
    """The input that a field at `path`, which names an index, implies: the stage whose model encodes its queries."""
    model = None if index is None else recipe.query_model(index)
    return {} if model is None else {f"{path}.model": model}


def encoded_queries(context: StageContext[StageSpec], path: str, texts: Sequence[str]) -> NDArray[np.float32]:
    """The vectors of queries by the model of the encode stage that the field at `path` names: float32 [Q, d], mapped.

    The first process encodes them, in float32, into the stage's scratch folder; where they are there they are taken.

    Raises:
        UsageError: the model does not make one vector a text.
    """
    file = context.folder / SCRATCH / f"queries-by-{path}.npy"
    if world().first and not file.exists():
        _write(file, len(texts), _encoded(context, path, texts))
    barrier()
    vectors: NDArray[np.float32] = np.load(file, mmap_mode="r", allow_pickle=False)
    return vectors


def _encoded(context: StageContext[StageSpec], path: str, texts: Sequence[str]) -> Iterator[NDArray[np.float32]]:
    """By block; one block at least, so that the dimension is known."""
    from hardneg.encoders.inference import EncodeOptions

    encoder = open_encoder(context.inputs[f"{path}.model"], context.device, "fp32")
    for start in range(0, max(1, len(texts)), _AT_ONCE):
        options = EncodeOptions(precision="fp32")
        encoded = encoder.encode(texts[start : start + _AT_ONCE], "query", options, context.progress)
        if not isinstance(encoded, np.ndarray):
            raise UsageError(f"{context.name}.{path}: its model makes no vector a text: {_NAME_ONE}")
        yield encoded


def _write(file: Path, count: int, blocks: Iterator[NDArray[np.float32]]) -> None:
    first = next(blocks)
    with replacing(file) as out:
        header = {"descr": "<f4", "fortran_order": False, "shape": (count, first.shape[1])}
        np.lib.format.write_array_header_1_0(out, header)
        for block in chain([first], blocks):
            out.write(np.ascontiguousarray(block, "<f4").data)
