"""Queries as the model of an index has them: encoded once, in a file, mapped."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.vectors.mmap import map_array
from hardneg.records.errors import ModelError
from hardneg.runtime.distributed import from_first, world
from hardneg.store.artifacts import SCRATCH
from hardneg.store.atomic_write import replacing
from hardneg.verbs.shared.context import ArtifactInput, StageContext
from hardneg.verbs.shared.inputs import open_encoder
from hardneg.verbs.shared.stage_spec import StageSpec

if TYPE_CHECKING:
    from hardneg.encoders.protocol import TextEncoder

_AT_ONCE = 65_536


def encoded_queries(
    context: StageContext[StageSpec], model: ArtifactInput, texts: Sequence[str], name: str
) -> NDArray[np.float32]:
    """float32 [Q, d], mapped: Q texts as queries of a model.

    The first process encodes them, unless a run that was stopped has done so; the others wait. Of a run that was
    stopped in the middle, what was made half a minute before is there.

    Args:
        context: the stage at work; the file is in its scratch folder, under `name`.
        model: what encodes, the recipe's own model or a stage's.

    Raises:
        ModelError: the model makes something else of a text than one vector.
    """
    path = context.folder / SCRATCH / f"{name}.npy"
    if world().first and not path.exists():
        _write(path, open_encoder(model, context.device, "fp32"), texts, context)
    shape = from_first(np.load(path, mmap_mode="r").shape if world().first else None)
    vectors: NDArray[np.float32] = map_array(path, tuple(shape), np.float32)
    return vectors


def _write(path: Path, encoder: "TextEncoder", texts: Sequence[str], context: StageContext[StageSpec]) -> None:
    from hardneg.encoders.protocol import EncodeOptions
    from hardneg.encoders.tokens.kept_texts import encode_kept

    begun = path.with_suffix("")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (len(texts), encoder.dimension)}
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, len(texts), _AT_ONCE):
            options = EncodeOptions(precision="fp32", begun=begun / str(start))
            some = list(texts[start : start + _AT_ONCE])
            part = encode_kept(encoder, some, "query", options, context.progress, keep=len(texts) > _AT_ONCE)
            if not isinstance(part, np.ndarray):
                problem = "makes more than one vector of a text: name one that makes one"
                raise ModelError(f"{context.name}: model {encoder.spec.name!r} {problem}")
            file.write(np.ascontiguousarray(part, "<f4").data)
    shutil.rmtree(begun, ignore_errors=True)
