"""Shared names: frozen records in the field's terms, errors, wording of messages, and names of files and plugins."""

from typing import TYPE_CHECKING, Any

from hardneg.records.errors import *
from hardneg.records.layout import *
from hardneg.records.types import *
from hardneg.records.wording import *

if TYPE_CHECKING:
    from hardneg.records.encoded import *


def __getattr__(name: str) -> Any:
    """Return a form of encoded texts, which imports numpy."""
    if name not in ("Encoded", "EncodedRows"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hardneg.records import encoded

    return getattr(encoded, name)
