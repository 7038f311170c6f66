"""Documents and queries of each form that an installed family of encoders has."""

from pathlib import Path
from typing import Any

import numpy as np

from hardneg.registry.plugins import plugin_names
from hardneg.testing import forms

_FAMILIES = {"vectors": "dense", "weights": "sparse", "token-vectors": "multi-vector"}
FORMS = [form for form in forms.FORMS if _FAMILIES[form] in plugin_names("encoders")]


def drawn_documents(form: str, count: int, dimension: int, exact: bool) -> Any:
    if form == "vectors":
        return forms.drawn_documents(count, dimension, exact)
    if form == "weights":
        from hardneg_sparse.testing import drawn_weights

        return drawn_weights(count, dimension)
    from hardneg_multi_vector.testing import drawn_tokens

    return drawn_tokens(count, dimension, exact)


def drawn_queries(form: str, documents: Any, exact: bool) -> Any:
    if form == "vectors":
        return forms.drawn_queries(documents, exact)
    if form == "weights":
        from hardneg_sparse.testing import drawn_queries as of_weights

        return of_weights(documents)
    from hardneg_multi_vector.testing import drawn_queries as of_tokens

    return of_tokens(documents, exact)


def write_encoded(folder: Path, documents: Any) -> Path:
    if isinstance(documents, np.ndarray):
        return forms.write_encoded(folder, documents)
    if hasattr(documents, "weights"):
        from hardneg_sparse.testing import write_weights

        return write_weights(folder, documents)
    from hardneg_multi_vector.testing import write_tokens

    return write_tokens(folder, documents)


def alike(one: Any, other: Any) -> bool:
    """Whether two encodings of the same texts are equal."""
    return forms.alike(one, other, 0.0)
