"""Documents and queries of each form that an installed family of encoders has."""

from pathlib import Path
from typing import Any

from hardneg.registry.plugins import plugin_names
from hardneg.testing import forms

FORMS = [form for form in forms.FORMS if form != "token-vectors" or "multi-vector" in plugin_names("encoders")]


def drawn_documents(form: str, count: int, dimension: int, exact: bool) -> Any:
    if form != "token-vectors":
        return forms.drawn_documents(form, count, dimension, exact)
    from hardneg_multi_vector.testing import drawn_tokens

    return drawn_tokens(count, dimension, exact)


def drawn_queries(form: str, documents: Any, exact: bool) -> Any:
    if form != "token-vectors":
        return forms.drawn_queries(form, documents, exact)
    from hardneg_multi_vector.testing import drawn_queries

    return drawn_queries(documents, exact)


def write_encoded(folder: Path, documents: Any) -> Path:
    if not hasattr(documents, "vectors"):
        return forms.write_encoded(folder, documents)
    from hardneg_multi_vector.testing import write_tokens

    return write_tokens(folder, documents)
