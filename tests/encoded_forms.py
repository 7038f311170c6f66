"""Documents and queries of each form that an installed family of encoders has, and a form that no family has."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.records.encoded import EncodedRows
from hardneg.registry.plugins import plugin_names
from hardneg.testing import forms

if "multi-vector" in plugin_names("encoders"):
    from hardneg_multi_vector import testing as tokens
FORMS = [form for form in forms.FORMS if form != "token-vectors" or "tokens" in globals()]


@dataclass(frozen=True, eq=False)
class Several(EncodedRows):
    several: NDArray[np.float32]


def drawn_documents(form: str, *of: Any, exact: bool) -> Any:
    return tokens.drawn_tokens(*of, exact) if form == "token-vectors" else forms.drawn_documents(form, *of, exact)


def drawn_queries(form: str, documents: Any, exact: bool) -> Any:
    of_tokens = form == "token-vectors"
    return tokens.drawn_queries(documents, exact) if of_tokens else forms.drawn_queries(form, documents, exact)


def write_encoded(folder: Path, documents: Any) -> Path:
    return (tokens.write_tokens if hasattr(documents, "vectors") else forms.write_encoded)(folder, documents)
