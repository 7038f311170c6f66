"""What every room may name: frozen records with the field's words, errors, wording, and names of files and plugins."""

from typing import TYPE_CHECKING, Any

from hardneg.records.errors import *
from hardneg.records.layout import *
from hardneg.records.types import *
from hardneg.records.wording import *

if TYPE_CHECKING:
    from hardneg.records.encoded import Encoded as Encoded, EncodedRows as EncodedRows


def __getattr__(name: str) -> Any:
    """The forms of encoded texts, which bring numpy in."""
    if name not in ("Encoded", "EncodedRows"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hardneg.records import encoded

    return getattr(encoded, name)
