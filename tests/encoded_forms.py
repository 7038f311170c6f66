"""Documents and queries of each form that an installed family of encoders has."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.records import EncodedRows
from hardneg.registry import plugin_names
from hardneg.testing import indexes as forms

FORMS = ["vectors"]
if "sparse" in plugin_names("encoders"):
    from hardneg_sparse import testing as weights

    FORMS.append("weights")
if "multi-vector" in plugin_names("encoders"):
    from hardneg_multi_vector import testing as tokens

    FORMS.append("token-vectors")


@dataclass(frozen=True, eq=False)
class Several(EncodedRows):
    several: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Numbers(EncodedRows):
    first: NDArray[np.int32]
    second: NDArray[np.float32]
    wide: int


def drawn_documents(form: str, count: int, dimension: int, exact: bool) -> Any:
    if form == "weights":
        return weights.drawn_weights(count, dimension)
    return (tokens.drawn_tokens if form == "token-vectors" else forms.drawn_documents)(count, dimension, exact)


def drawn_queries(form: str, documents: Any, exact: bool) -> Any:
    if form == "weights":
        return weights.drawn_queries(documents)
    return (tokens.drawn_queries if form == "token-vectors" else forms.drawn_queries)(documents, exact)


def write_encoded(folder: Path, documents: Any) -> Path:
    if hasattr(documents, "weights"):
        return weights.write_weights(folder, documents)
    return (tokens.write_tokens if hasattr(documents, "vectors") else forms.write_encoded)(folder, documents)
